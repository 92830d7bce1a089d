package proc

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// fork starts p with the given standard files, on the slot's thread, with a limit
// on its memory in a control group if one can be had. The error is a *StartError
// if it did not start.
func (s *Slot) fork(p *Program, stdin, stdout, stderr int) (int, *group, error) {
	attr := &syscall.ProcAttr{
		Dir:   p.Dir,
		Env:   p.Env,
		Files: []uintptr{uintptr(stdin), uintptr(stdout), uintptr(stderr)},
		Sys:   s.attr,
	}
	if p.MaxMemory <= 0 {
		pid, err := forkExec(p, attr)
		return pid, nil, err
	}
	groups := s.memoryGroups()
	pid, group, groupErr := groups.fork(p, attr)
	if group != nil {
		return pid, group, nil
	}
	// It may be the program that can't be started: that is found out by trying.
	pid, err := s.forkLimited(p, attr)
	if err == nil && groupErr != nil {
		groups.tellOnce(groupErr)
	}
	return pid, nil, err
}

// fork starts p in a group of its own, from its first instant on.
func (g *Groups) fork(p *Program, attr *syscall.ProcAttr) (int, *group, error) {
	if g == nil {
		return 0, nil, nil
	}
	j, err := g.make(p.Token, p.MaxMemory)
	if err != nil {
		return 0, nil, err
	}
	grouped, sys := *attr, *attr.Sys
	sys.UseCgroupFD, sys.CgroupFD = true, j.fd
	grouped.Sys = &sys
	pid, err := forkExec(p, &grouped)
	closeFD(&j.fd)
	if err != nil {
		j.remove()
		return 0, nil, fmt.Errorf("start in a control group: %w", err)
	}
	return pid, j, nil
}

func forkExec(p *Program, attr *syscall.ProcAttr) (int, error) {
	pid, err := syscall.ForkExec(p.Path, p.Argv, attr)
	if err != nil {
		return 0, &StartError{Errno: err}
	}
	return pid, nil
}

// forkLimited starts p with a limit on its memory. The limit must stand before
// the program runs, for what it forks would not have it; and it can't be set on
// this process, which would share it. So the child is traced: it stops where its
// program is loaded and nothing of it has run. Where tracing is not allowed the
// limit comes an instant too late, which only a program that forks at once gets
// around.
func (s *Slot) forkLimited(p *Program, attr *syscall.ProcAttr) (int, error) {
	traced := *s.attr
	traced.Ptrace = true
	attr.Sys = &traced
	pid, err := forkExec(p, attr)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		attr.Sys = s.attr
		if pid, err = forkExec(p, attr); err == nil {
			limitMemory(pid, p.MaxMemory)
		}
		return pid, err
	}
	if err != nil {
		return 0, err
	}
	if err := letGo(pid, p.MaxMemory); err != nil {
		_ = unix.Kill(pid, unix.SIGKILL) // our own child, and not reaped
		_, _ = wait4(pid, nil, nil)
		return 0, fmt.Errorf("start process %d under its limit: %w", pid, err)
	}
	return pid, nil
}

// letGo sets the limit of a traced child once its program is loaded, and ends
// the tracing. One that has died meanwhile is left to whoever waits for it.
func letGo(pid int, limit int64) error {
	var info unix.Siginfo
	for err := error(unix.EINTR); err != nil; {
		if err = unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil); err != nil && err != unix.EINTR {
			return err
		}
	}
	if info.Code != cldTrapped {
		return nil
	}
	limitMemory(pid, limit)
	if err := syscall.PtraceDetach(pid); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// cldTrapped is what a traced child's stop is told as.
const cldTrapped = 4

// limitMemory bounds what pid, and what it forks, may have of private memory that
// can be written to. Address space alone would bound the wrong thing: runtimes
// reserve far more of it than they ever use.
func limitMemory(pid int, bytes int64) {
	limit := unix.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}
	_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &limit, nil) // a bound, not a promise
}
