package proc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openSlot(t *testing.T) *Slot {
	t.Helper()
	s, err := Open(t.TempDir(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *Slot) script(text string) *Program {
	token := strings.ReplaceAll(s.dir, "/", "-")
	return &Program{
		Path: "/bin/sh", Argv: []string{"sh", "-c", text}, Env: []string{"PATH=" + os.Getenv("PATH"), tokenName + token},
		Dir: s.dir, Token: token, Stdin: s.Null(), Grace: time.Minute,
	}
}

func run(t *testing.T, s *Slot, p *Program) (*Exit, string) {
	t.Helper()
	x, err := s.Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Stdout().Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Clean(); err != nil {
		t.Fatal(err)
	}
	return x, string(out)
}

// Who holds the files of an earlier program, and could not be found, must not
// write into those of the next.
func TestFreshFilesAfterAStranger(t *testing.T) {
	s := openSlot(t)
	old, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(s.out.fd), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	// A child of this program, on the main thread or not, that no job knows.
	s.dirty = true
	run(t, s, s.script("true"))
	if _, err := old.WriteString("not mine"); err != nil {
		t.Fatal(err)
	}
	if _, out := run(t, s, s.script("echo mine")); out != "mine\n" {
		t.Errorf("%q", out)
	}
}

// While a program runs, what can't be kept of its log is given back to the disk.
func TestStderrDoesNotFillTheDisk(t *testing.T) {
	s := openSlot(t)
	ctx, cancel := context.WithCancel(t.Context())
	p := s.script("yes | head -c 200000000 >&2; echo >full; sleep 100")
	p.MaxStderr, p.KillCause = 1<<20, context.Canceled
	fd, used := s.err.fd, make(chan int64, 1)
	go func() {
		defer cancel()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		n := int64(0)
		for range 1000 { // as good as for ever, if nobody gives anything back
			if _, err := os.Stat(filepath.Join(s.dir, "full")); err == nil {
				if n = diskUse(fd); n < 50<<20 {
					break
				}
			}
			<-tick.C
		}
		used <- n
	}()
	x, err := s.Run(ctx, p)
	if err != nil || x.Cause != CauseCancelled {
		t.Fatalf("%+v, %v", x, err)
	}
	if n := <-used; n >= 50<<20 {
		t.Errorf("%d bytes of disk in use for a log of at most %d", n, p.MaxStderr)
	}
	head, tail := make([]byte, p.MaxStderr), make([]byte, p.MaxStderr)
	for _, at := range []struct {
		buf []byte
		off int64
	}{{head, 0}, {tail, s.Stderr().Size - p.MaxStderr}} {
		if _, err := s.Stderr().ReadAt(at.buf, at.off); err != nil || bytes.IndexByte(at.buf, 0) >= 0 {
			t.Errorf("what is to be kept at %d was cut out, or: %v", at.off, err)
		}
	}
}

func diskUse(fd int) int64 {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Blocks * 512
}

// Where the kernel does not list a thread's children, looking at every process
// finds the strays just as well.
func TestStraysWithoutChildrenFile(t *testing.T) {
	s := openSlot(t)
	closeFD(&s.orphans.fd)
	p := s.script("sleep 300 & setsid -f sleep 300; echo x; sleep 0.05")
	if _, out := run(t, s, p); out != "x\n" {
		t.Errorf("%q", out)
	}
	for _, pid := range processes() {
		if hasToken(pid, p.Token, false) {
			t.Errorf("process %d is left: %s", pid, commandOf(pid))
		}
	}
}

// A child of the embedding program that has nothing to do with jobs is left
// alone, running or dead.
func TestOthersChildrenAreLeftAlone(t *testing.T) {
	s := openSlot(t)
	alive := exec.Command("sleep", "300")
	alive.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	dead := exec.Command("sh", "-c", "exit 7")
	for _, c := range []*exec.Cmd{alive, dead} {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := waitFor(dead.Process.Pid, unix.WEXITED|unix.WNOWAIT); err != nil {
		t.Fatal(err)
	}
	var x Exit
	groups := map[int]bool{}
	if got := s.endOrphan(dead.Process.Pid, "token", groups, &x); got != orphanGone {
		t.Errorf("the dead one: %d", got)
	}
	if got := s.endOrphan(alive.Process.Pid, "token", groups, &x); got != orphanStrange {
		t.Errorf("the living one: %d", got)
	}
	if err := dead.Wait(); err == nil || dead.ProcessState.ExitCode() != 7 {
		t.Errorf("its status was taken: %v", err)
	}
	if err := alive.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("it was killed: %v", err)
	}
	_ = alive.Process.Kill()
	_ = alive.Wait()
}

// A program must not be stopped for ever because it asks the terminal: it has
// none, even if we do.
func TestNoTerminal(t *testing.T) {
	if os.Getenv("OPERON_TEST_TTY") != "" {
		s := openSlot(t)
		if tty, err := os.Open("/dev/tty"); err != nil {
			t.Fatalf("this test has no terminal: %v", err)
		} else {
			tty.Close()
		}
		if x, _ := run(t, s, s.script("read line </dev/tty")); x.Status.ExitStatus() == 0 {
			t.Error("the program has a terminal")
		}
		return
	}
	master, slave := openTerminal(t)
	defer master.Close()
	defer slave.Close()
	c := exec.Command(os.Args[0], "-test.run=^TestNoTerminal$")
	c.Env = append(os.Environ(), "OPERON_TEST_TTY=1")
	var out bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = slave, &out, &out
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := c.Run(); err != nil {
		t.Errorf("%v\n%s", err, out.Bytes())
	}
}

func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

func TestRunningFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "running")
	r, err := OpenRunning(path, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.set(0, 100, 5, 6, "a"), r.set(2, 102, 7, 8, strings.Repeat("x", 200)), r.set(1, 101, 1, 1, "b"), r.clear(1)); err != nil {
		t.Fatal(err)
	}
	got, err := readRunning(path)
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if e := got[0]; e.pid != 100 || e.earliest != 5 || e.latest != 6 || e.token != "a" || e.boot != r.boot {
		t.Errorf("%+v", e)
	}
	if e := got[1]; e.pid != 102 || e.token != strings.Repeat("x", maxToken) {
		t.Errorf("%+v", e)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenRunning(path, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if info, err := os.Stat(path); err != nil || info.Size() != 2*entrySize || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if got, err := readRunning(path); err != nil || len(got) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzRunningFile(f *testing.F) {
	f.Add(make([]byte, entrySize))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "running")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		entries, err := readRunning(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.pid <= 1 {
				t.Errorf("an entry for process %d", e.pid)
			}
		}
	})
}

// What a running file says is believed only if process id, start time and boot
// agree.
func TestEndStraysBelievesNoNumberAlone(t *testing.T) {
	c := exec.Command("sleep", "300")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	before := bootTicks()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	after := bootTicks()
	ended := make(chan struct{})
	go func() {
		_ = c.Wait() // killed
		close(ended)
	}()
	path := filepath.Join(t.TempDir(), "running")
	r, err := OpenRunning(path, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	note := func(from, to uint64, token string) {
		t.Helper()
		if err := r.set(0, c.Process.Pid, from, to, token); err != nil {
			t.Fatal(err)
		}
	}
	spared := func(what string) {
		t.Helper()
		if got, err := EndStrays(t.Context(), path, "no-such-token-"); err != nil || len(got) > 0 {
			t.Errorf("%s: ended %+v, %v", what, got, err)
		}
	}
	note(before-2000, before-1000, "x")
	spared("it started later")
	note(after+1000, after+2000, "x")
	spared("it started earlier")
	r.boot[0] ^= 1
	note(before, after, "x")
	spared("another boot")
	r.boot[0] ^= 1
	note(before, after, "x")
	damage(t, path)
	spared("a damaged entry")
	note(before, after, "x")
	got, err := EndStrays(t.Context(), path, "no-such-token-")
	if err != nil || len(got) != 1 || got[0].PID != c.Process.Pid || got[0].Command != "sleep 300" {
		t.Errorf("ended %+v, %v", got, err)
	}
	<-ended
}

// damage changes the start time of the first entry.
func damage(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint64(raw[4:], 0)
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestUnlinkedFiles(t *testing.T) {
	dir := t.TempDir()
	fd, err := openUnlinked(dir, unix.O_RDWR|unix.O_APPEND|unix.O_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte("abc")); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
	if linkTo(fd, filepath.Join(dir, "x")) == nil {
		t.Error("a file without links was linked")
	}
	if got, err := (&Capture{fd: fd, Size: 3}).Bytes(); err != nil || string(got) != "abc" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestUsage(t *testing.T) {
	s := openSlot(t)
	x, _ := run(t, s, s.script("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"))
	if x.CPU <= 0 || x.CPU > x.Wall+time.Second || x.Start.IsZero() {
		t.Errorf("%+v", x)
	}
	x, _ = run(t, s, s.script("head -c 150000000 /dev/zero | tail -c 149999999 >/dev/null"))
	if x.MaxRSS < 100<<20 {
		t.Errorf("a process with 150 MB: %d bytes", x.MaxRSS)
	}
}
