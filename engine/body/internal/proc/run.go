package proc

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Program is what to run.
type Program struct {
	Path  string // of the executable; relative to Dir unless absolute
	Argv  []string
	Env   []string
	Dir   string
	Token string // value of OPERON_JOB in Env
	Stdin int    // descriptor

	Timeout   time.Duration // then SIGTERM to the group; 0: none
	Grace     time.Duration // then SIGKILL
	MaxOutput int64         // bytes of standard output, then SIGKILL; 0: no limit
	MaxStderr int64         // bytes of standard error to keep, half of its head and half of its tail; 0: all
	MaxMemory int64         // bytes of memory that all its processes may have together; without control groups, each; 0: no limit
	KillCause error         // a context with this cause ends without a grace period
}

// Exit is how a program ended.
type Exit struct {
	Status syscall.WaitStatus
	Cause  Cause // what ended it from outside
	Start  time.Time
	Wall   time.Duration
	CPU    time.Duration // of all processes that were reaped
	MaxRSS int64         // bytes, of the largest process; 0 if no larger than this program itself
	Below  int64         // bytes, where MaxRSS is 0: this program's own, which it can't be told from
	Group  *GroupUse     // what its control group tells; nil: it had none
}

// PeakMemory is the most memory that the program had, in bytes: all its processes
// together if that is known, else the largest one.
func (x *Exit) PeakMemory() int64 {
	if x.Group != nil && x.Group.Peak > 0 {
		return x.Group.Peak
	}
	return x.MaxRSS
}

// OOM is why the kernel killed processes of the program for want of memory, as far
// as that is known.
func (x *Exit) OOM() OOM {
	if x.Group == nil {
		return OOMNone
	}
	return x.Group.Killed
}

// StartError is a program that could not be started.
type StartError struct{ Errno error }

func (e *StartError) Error() string { return "start program: " + e.Errno.Error() }
func (e *StartError) Unwrap() error { return e.Errno }

// Run runs p to its end and returns when nothing of it is left running. What it
// printed is in Stdout and Stderr until Clean. The error is a *StartError if
// it did not start.
func (s *Slot) Run(ctx context.Context, p *Program) (*Exit, error) {
	x := &Exit{Start: time.Now()}
	s.err.limit = p.MaxStderr
	before := bootTicks()
	pid, group, err := s.fork(p, p.Stdin, s.out.writeFD, s.err.writeFD)
	if err != nil {
		return nil, err
	}
	noteErr := s.running.set(s.index, pid, before, bootTicks(), p.Token)
	stop := s.watch.begin(ctx, pid, group, p)
	following, waitErr := s.await(pid, group, p, x)
	stop()
	x.Group = group.finish()
	x.Wall = time.Since(x.Start)
	outErr := s.finish(following)
	s.dirty = s.dirty || waitErr != nil || outErr != nil
	for _, err := range []error{waitErr, outErr, noteErr, s.running.clear(s.index)} {
		if err != nil {
			return nil, err
		}
	}
	return x, nil
}

// await waits for the leader and ends the rest. It reports whether the output
// is being read along.
func (s *Slot) await(pid int, group *group, p *Program, x *Exit) (following bool, err error) {
	waitErr := waitFor(pid, unix.WEXITED|unix.WNOWAIT)
	s.watch.leaderEnded()
	sweepErr := s.sweep(pid, group, p.Token, x)

	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	var usage syscall.Rusage
	_, reapErr := wait4(pid, &x.Status, &usage)
	x.Cause, following = s.watch.end()
	x.add(&usage)
	s.hideOwnRSS(x)
	for _, err := range []error{waitErr, sweepErr, reapErr} {
		if err != nil {
			return following, fmt.Errorf("wait for process %d: %w", pid, err)
		}
	}
	return following, nil
}

func (x *Exit) add(u *syscall.Rusage) {
	x.CPU += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	x.MaxRSS = max(x.MaxRSS, u.Maxrss<<10)
}

// hideOwnRSS drops a peak that may be this program's own: between fork and exec
// a child has its parent's memory, and the kernel counts that.
func (s *Slot) hideOwnRSS(x *Exit) {
	if x.MaxRSS > s.ownRSS {
		s.ownRSS = ownPeak()
	}
	if x.MaxRSS <= s.ownRSS {
		x.MaxRSS, x.Below = 0, s.ownRSS
	}
}

// ownPeak is the most memory that this program has had, in bytes.
func ownPeak() int64 {
	var own syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &own) != nil {
		return 0
	}
	return own.Maxrss << 10
}

// waitFor is waitid on one process; options say whether it is reaped.
func waitFor(pid, options int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, options, nil)
		if err != unix.EINTR {
			return err
		}
	}
}

func wait4(pid int, status *syscall.WaitStatus, usage *syscall.Rusage) (int, error) {
	for {
		got, err := syscall.Wait4(pid, status, 0, usage)
		if err != syscall.EINTR {
			return got, err
		}
	}
}

// bootTicks is the time since boot in the unit in which /proc tells when a
// process started.
func bootTicks() uint64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return 0
	}
	return uint64(t.Nano()) / (uint64(time.Second) / userHZ)
}

// userHZ is the unit of times in /proc, ticks a second: 100 on every
// architecture that Go runs Linux on.
const userHZ = 100
