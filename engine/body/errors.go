package body

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrMemory is the cause of the failure of a job that the kernel ended for having
// as much memory as its task gives it: of all failures of KindResources this is
// the job's own.
var ErrMemory = errors.New("the job had as much memory as its task gives it")

// What Failure.Err wraps when a file taken by reference is not what it was.
var (
	ErrChanged = errors.New("the file has changed")
	ErrGone    = errors.New("the file is gone")
)

func failf(kind Kind, format string, args ...any) *Failure {
	return &Failure{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// machine is the failure for an error of the file system or the kernel that no
// job is to blame for.
func machine(doing string, err error) *Failure {
	return &Failure{Kind: KindResources, Message: doing + ": " + err.Error(), Err: err}
}

// asFailure makes a *Failure of any error.
func asFailure(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	return &Failure{Kind: KindInternal, Message: err.Error() + " (this is a bug)", Err: err}
}

// recovered makes a *Failure of a panic.
func recovered(panicked any) *Failure {
	return failf(KindInternal, "panic while running the job: %v (this is a bug)", panicked)
}

// isShortage reports whether the machine ran out of something.
func isShortage(err error) bool {
	for _, e := range []syscall.Errno{
		syscall.EAGAIN, syscall.ENOMEM, syscall.ENOSPC, syscall.EDQUOT,
		syscall.EMFILE, syscall.ENFILE, syscall.EIO, syscall.EROFS,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
