package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// group is the control group of one program and all that it starts. A nil one is
// none.
type group struct {
	groups *Groups
	dir    string
	path   string // as /proc/<pid>/cgroup tells it
	fd     int    // of dir
}

// GroupUse is what a program's control group tells when it is over.
type GroupUse struct {
	// Peak is how many bytes all its processes had together at most, with what
	// they had read and written of files, as far as the kernel kept that; 0: it
	// does not tell.
	Peak   int64
	Killed OOM
}

// OOM is why the kernel killed processes for want of memory.
type OOM uint8

const (
	OOMNone    OOM = iota // it did not
	OOMLimit              // they had as much as their limit
	OOMMachine            // the machine had no more, or a group above theirs
)

// make makes a group with a limit.
func (g *Groups) make(token string, limit int64) (*group, error) {
	name := jobPrefix + fileName(token) + "-" + strconv.FormatUint(g.serial.Add(1), 10)
	j := &group{groups: g, dir: filepath.Join(g.own, name), path: g.path + "/" + name, fd: -1}
	if err := g.host.mkdir(j.dir); err != nil {
		return nil, fmt.Errorf("make control group: %w", err)
	}
	if err := j.open(limit); err != nil {
		j.remove()
		return nil, err
	}
	return j, nil
}

func (j *group) open(limit int64) (err error) {
	if err := writeControl(j.dir, "memory.max", strconv.FormatInt(limit, 10)); err != nil {
		return err
	}
	// Missing where there is no swap, and in old kernels.
	_ = writeControl(j.dir, "memory.swap.max", "0")
	_ = writeControl(j.dir, "memory.oom.group", "1")
	if j.fd, err = unix.Open(j.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		j.fd = -1
		return fmt.Errorf("open control group: %w", err)
	}
	return nil
}

// fileName is a token as part of a file's name.
func fileName(token string) string {
	const most = 100
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, token[:min(len(token), most)])
}

// kill kills all processes in the group, in one step that no fork escapes. Kernels
// before 5.14 can't: there the process group and the token are what is known.
func (j *group) kill() {
	if j != nil {
		_ = writeControl(j.dir, "cgroup.kill", "1")
	}
}

// holds reports whether a process is in the group, or was when it died.
func (j *group) holds(pid int) bool {
	if j == nil {
		return false
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return false
	}
	path, ok := groupPath(string(raw))
	if !ok {
		return false
	}
	_, ok = below(path, j.path)
	return ok
}

// finish ends what is left in the group, reads what it tells, and removes it.
func (j *group) finish() *GroupUse {
	if j == nil {
		return nil
	}
	j.kill()
	u := &GroupUse{Killed: j.killed()}
	if raw, err := os.ReadFile(filepath.Join(j.dir, "memory.peak")); err == nil {
		u.Peak, _ = strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	}
	j.remove()
	return u
}

// killed reads who was killed. The group's own limit was reached only if the
// group counts that as well.
func (j *group) killed() OOM {
	raw, err := os.ReadFile(filepath.Join(j.dir, "memory.events"))
	if err != nil {
		return OOMNone
	}
	events := parseEvents(string(raw))
	switch {
	case events["oom_kill"] == 0:
		return OOMNone
	case events["oom"] == 0:
		return OOMMachine
	}
	return OOMLimit
}

// parseEvents reads lines of a name and a number each.
func parseEvents(text string) map[string]uint64 {
	events := map[string]uint64{}
	for line := range strings.Lines(text) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(count, 10, 64); err == nil {
			events[name] = n
		}
	}
	return events
}

// remove removes the group. What was killed may take a moment to go; if it takes
// long, the group is left for later.
func (j *group) remove() {
	const (
		patience = 2 * time.Second
		pause    = 2 * time.Millisecond
	)
	closeFD(&j.fd)
	begun := time.Now()
	for j.groups.host.remove(j.dir) != nil {
		if time.Since(begun) > patience {
			j.groups.setAside(j.dir)
			return
		}
		_ = unix.Nanosleep(&unix.Timespec{Nsec: int64(pause)}, nil) // the loop looks for itself
	}
}
