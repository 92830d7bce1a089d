package boltfile

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// ErrClosed is what a commit gets that was submitted after Close.
var ErrClosed = errors.New("file is closed")

// DamagedError says that what lies at Path is not, or no longer, a whole
// database file.
type DamagedError struct {
	Path   string
	Detail string
	Empty  bool // there is nothing in it that could be copied out
}

// Error names the file and what is wrong with it.
func (e *DamagedError) Error() string { return fmt.Sprintf("damaged: %q: %s", e.Path, e.Detail) }

// InUseError says that another process holds a state directory or one of its
// files. Owner is the zero Owner if it is not known which: a reader, or an
// engine whose owner file cannot be believed.
type InUseError struct {
	Path  string
	Owner Owner
}

// Error names what is in use, and by whom if that is known.
func (e *InUseError) Error() string {
	if e.Owner.PID == 0 {
		return fmt.Sprintf("%q is in use by another process", e.Path)
	}
	s := fmt.Sprintf("%q is in use by process %d", e.Path, e.Owner.PID)
	if e.Owner.Host != "" {
		s += " on " + e.Owner.Host
	}
	if !e.Owner.Since.IsZero() {
		s += " since " + e.Owner.Since.Format("2006-01-02 15:04:05")
	}
	return s
}

// withCause gives back to errors.Is the system error that bbolt prints into
// the text of some of its errors without wrapping it.
func withCause(err error) error {
	var number syscall.Errno
	if err == nil || errors.As(err, &number) {
		return err
	}
	for _, n := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.EIO} {
		if strings.HasSuffix(err.Error(), n.Error()) {
			return &causedError{text: err.Error(), cause: n}
		}
	}
	return err
}

type causedError struct {
	text  string
	cause error
}

func (e *causedError) Error() string { return e.text }
func (e *causedError) Unwrap() error { return e.cause }
