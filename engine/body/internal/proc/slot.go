package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Slot is what is kept between the programs that run one after another. All its
// methods must be called on the goroutine that made it.
type Slot struct {
	dir      string // of the unnamed files and the temporary folder
	index    int
	attr     *syscall.SysProcAttr
	running  *Running // nil: nothing is noted
	groups   *Groups  // the slot's own, where nothing is noted; nil: none
	asked    bool     // for groups
	null     int      // /dev/null, for reading
	out, err stream
	in       input
	watch    watch
	orphans  orphans
	tmp      tempDir
	ownRSS   int64 // peak of this program's memory when last asked for
	dirty    bool  // a process that is not ours to kill may hold pipes and files
}

// Open makes a slot whose files (what does not fit into memory) lie in dir, which is made if need be, and locks
// the calling goroutine to its thread until Close. running may be nil; else
// the slot notes what runs in entry index.
func Open(dir string, index int, running *Running) (*Slot, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of slot: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become subreaper: %w", err)
	}
	s := &Slot{dir: dir, index: index, running: running, null: -1}
	for _, c := range []*Capture{&s.out.Capture, &s.err.Capture} {
		c.dir, c.file = dir, -1
	}
	s.out.writeFD, s.err.writeFD, s.in.write, s.in.read = -1, -1, -1, -1
	runtime.LockOSThread()
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Slot) open() error {
	var err error
	if s.null, err = unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	if err := s.freshStreams(); err != nil {
		return err
	}
	s.tmp.path = filepath.Join(s.dir, "tmp-"+strconv.Itoa(s.index))
	if err := s.tmp.make(); err != nil {
		return err
	}
	s.attr = attributes()
	s.orphans.open()
	s.watch.init(s)
	return nil
}

// attributes are those of a job's leader. Where there is a terminal it gets a
// session of its own, so that it has none: else a program that reads from it
// would be stopped, and its job never end. Elsewhere a process group does, which
// costs less.
func attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err == nil {
		unix.Close(fd)
		attr.Setpgid, attr.Setsid = false, true
	}
	return attr
}

// Close frees what the slot keeps and gives the thread back.
func (s *Slot) Close() error {
	s.watch.close()
	s.out.close()
	s.err.close()
	s.in.close()
	s.orphans.close()
	closeFD(&s.null)
	s.groups.Close()
	err := s.tmp.remove()
	runtime.UnlockOSThread()
	return err
}

// TempDir is the folder for a program's temporary files. It is empty when a
// program starts.
func (s *Slot) TempDir() string { return s.tmp.path }

// Clean makes the slot ready for the next program: forgets what the last one
// printed and empties the temporary folder. After an error the slot is not to be used any more.
func (s *Slot) Clean() error {
	s.out.clean()
	s.err.clean()
	if err := s.tmp.clean(); err != nil {
		return err
	}
	if s.dirty {
		return s.freshStreams()
	}
	return nil
}

// memoryGroups is where limited programs get a control group each; nil: they can't
// have one. They are those of the file that notes what runs, where there is one.
// Else they are made when the first such program starts.
func (s *Slot) memoryGroups() *Groups {
	if s.running != nil {
		return s.running.groups
	}
	if !s.asked {
		s.asked = true
		s.groups, _ = OpenGroups(nil) // then there are none
	}
	return s.groups
}

func closeFD(fd *int) {
	if *fd >= 0 {
		unix.Close(*fd)
		*fd = -1
	}
}

// Dir is the folder that the slot's files lie in.
func (s *Slot) Dir() string { return s.dir }
