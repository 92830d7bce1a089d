package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxSweeps  = 1000        // rounds against a program that forks as fast as it is killed
	zombieRest = time.Second // how long a stranger's dead child is left to whoever waits for it
)

var errStillForking = errors.New("processes that leave the group go on forking")

// orphans lists the processes that became ours because their parents ended.
// They are children of the main thread (the first living one), whatever thread
// forked their ancestor: so one short read tells in most cases that there are
// none, whatever the other slots are running.
type orphans struct {
	fd      int // children of the main thread; -1: the kernel does not tell
	ready   bool
	dead    map[int]time.Time // zombies that may be a stranger's, and when they were first seen
	scratch []byte
}

func (o *orphans) open() {
	pid := strconv.Itoa(os.Getpid())
	fd, err := unix.Open("/proc/self/task/"+pid+"/children", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	o.fd, o.ready = fd, true
	o.dead = map[int]time.Time{}
	o.scratch = make([]byte, 4096)
}

func (o *orphans) close() {
	if o.ready {
		closeFD(&o.fd)
	}
}

// list returns the children of the main thread but leader.
func (o *orphans) list(leader int) []int {
	if o.fd < 0 {
		return childrenOf(os.Getpid(), leader)
	}
	var pids []int
	pid := 0
	for off := int64(0); ; {
		n, err := unix.Pread(o.fd, o.scratch, off)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return pids
		}
		off += int64(n)
		for _, c := range o.scratch[:n] {
			if c >= '0' && c <= '9' {
				pid = 10*pid + int(c-'0')
				continue
			}
			if pid != 0 && pid != leader {
				pids = append(pids, pid)
			}
			pid = 0
		}
	}
}

// sweep ends and reaps all that is left of the job whose leader is dead but not
// reaped. Each round can make new orphans of what the killed left behind; a
// round that finds none is the last.
func (s *Slot) sweep(leader int, group *group, token string, x *Exit) error {
	strange, err := s.orphans.sweep(family{leader: leader, group: group, token: token, pipes: []int{s.out.writeFD, s.err.writeFD}}, x)
	s.dirty = s.dirty || strange
	return err
}

// family is how a job's processes are known.
type family struct {
	leader int
	group  *group // control group; nil: none
	token  string
	pipes  []int // the job's outputs, either end
}

// sweep ends and reaps what is left of a family. It reports whether there was a
// process that may be of it and is not known to be.
func (o *orphans) sweep(f family, x *Exit) (strange bool, err error) {
	groups := map[int]bool{}
	for range maxSweeps {
		kids := o.list(f.leader)
		if len(kids) == 0 {
			return strange, nil
		}
		groups[f.leader] = true
		found := false
		for _, kid := range kids {
			switch o.end(kid, f, groups, x) {
			case orphanEnded:
				found = true
			case orphanStrange:
				strange = true
			}
		}
		if !found {
			return strange, nil
		}
	}
	return strange, errStillForking
}

type orphanFate uint8

const (
	orphanGone    orphanFate = iota // somebody has reaped it, or it is dead
	orphanEnded                     // it was the job's
	orphanStrange                   // it lives, and is not known to be the job's
)

// end ends kid if it is the job's: in one of its groups, which have been killed,
// or known by its control group, its token or its open pipes.
func (o *orphans) end(kid int, f family, groups map[int]bool, x *Exit) orphanFate {
	group, err := unix.Getpgid(kid)
	if err != nil {
		return orphanGone
	}
	if groups[group] {
		reap(kid, x)
		return orphanEnded
	}
	dead := isDead(kid)
	if dead && f.group.holds(kid) {
		reap(kid, x)
		return orphanEnded
	}
	if dead {
		return o.restOrReap(kid, group, x)
	}
	if !f.isStray(kid) {
		return orphanStrange
	}
	if group != unix.Getpgrp() {
		groups[group] = true
		_ = killGroup(group, unix.SIGKILL) // gone already: reaped below
	}
	_ = unix.Kill(kid, unix.SIGKILL)
	reap(kid, x)
	return orphanEnded
}

func reap(pid int, x *Exit) {
	var usage syscall.Rusage
	if got, err := wait4(pid, nil, &usage); err == nil && got == pid {
		x.add(&usage)
	}
}

// isDead reports whether a child of ours has ended and waits to be reaped.
func isDead(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err == nil && info.Signo != 0
}

// restOrReap reaps a dead child that can't be told to be a job's, if nobody
// else did in a while.
func (o *orphans) restOrReap(kid, group int, x *Exit) orphanFate {
	if o.fd < 0 || group == unix.Getpgrp() {
		return orphanGone // may be another slot's leader, or the embedding program's own
	}
	first, seen := o.dead[kid]
	switch {
	case !seen:
		o.forget()
		o.dead[kid] = time.Now()
	case time.Since(first) >= zombieRest:
		delete(o.dead, kid)
		reap(kid, x)
	}
	return orphanGone
}

// forget drops notes that are so old that their number may be another's.
func (o *orphans) forget() {
	for pid, first := range o.dead {
		if time.Since(first) > time.Minute {
			delete(o.dead, pid)
		}
	}
}

// isStray reports whether a living process is the job's: it is in the job's control
// group, it inherited the job's token, or it holds its pipes. Between fork and exec any child of this program
// holds every file that this program has open, and still runs its executable:
// such a one says nothing.
func (f family) isStray(pid int) bool {
	if f.group.holds(pid) || hasToken(pid, f.token, false) {
		return true
	}
	return !sameProgram(pid) && holdsFile(pid, f.pipes...)
}

// sameProgram reports whether a process runs this program's executable, or can't
// be asked.
func sameProgram(pid int) bool {
	var own, other unix.Stat_t
	if unix.Stat("/proc/self/exe", &own) != nil || unix.Stat(fmt.Sprintf("/proc/%d/exe", pid), &other) != nil {
		return true
	}
	return own.Ino == other.Ino && own.Dev == other.Dev
}

// holdsFile reports whether a process has one of the files open.
func holdsFile(pid int, fds ...int) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	names, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, name := range names {
		var st unix.Stat_t
		if unix.Stat(dir+"/"+name.Name(), &st) != nil {
			continue
		}
		for _, fd := range fds {
			var own unix.Stat_t
			if unix.Fstat(fd, &own) == nil && own.Ino == st.Ino && own.Dev == st.Dev {
				return true
			}
		}
	}
	return false
}
