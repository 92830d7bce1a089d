package body

import (
	"errors"
	"time"
)

// ErrKill as the cause of a cancelled context ends a job without a grace period.
var ErrKill = errors.New("killed at once")

// Kind says how a job failed. The list is closed: the kind alone decides what
// the engine does about it.
type Kind string

const (
	KindExit      Kind = "exit"      // it ended with another status than 0, or could not be started
	KindSignal    Kind = "signal"    // a signal ended it
	KindTimeout   Kind = "timeout"   // it took longer than the task allows
	KindOutput    Kind = "output"    // its output can't be read, or is too large
	KindInput     Kind = "input"     // its inputs can't be handed over
	KindSchema    Kind = "schema"    // a value breaks the task's schema
	KindResources Kind = "resources" // the machine's fault: disk full, no processes; with ErrMemory the job's
	KindCancelled Kind = "cancelled" // the engine stopped it
	KindLost      Kind = "lost"      // what it was running on is gone
	KindInternal  Kind = "internal"  // a fault of ours
)

// Failure is why an attempt failed.
type Failure struct {
	Kind    Kind
	Message string // what happened and what to do, for a person; no final full stop
	Exit    int    // exit status, KindExit (127 if it could not be started)
	Signal  string // name such as SIGKILL, KindSignal
	Stderr  []byte // the last lines of standard error, at most 2 KiB
	Logged  int64  // bytes of standard error that the log holds
	Log     string // the log, if it is another than the job's own: a worker's, which may have none yet
	Usage   Usage
	Err     error // the cause, or nil
	// Retryable is what the body itself says of a further attempt, whatever the
	// task's `retry` is about; nil: nothing. A program that ends with status 75
	// (EX_TEMPFAIL) says true, a worker what its answer's `retry` says.
	Retryable  *bool
	RetryAfter time.Duration // a further attempt should not begin before; 0: nothing is said
	Died       bool          // the worker that held the job ended, and so did the others that it held
}

// exitTryAgain is the exit status of a program that asks to be run again
// (EX_TEMPFAIL of sysexits.h).
const exitTryAgain = 75

// Error is the failure's message.
func (f *Failure) Error() string { return f.Message }

// Unwrap is the failure's cause.
func (f *Failure) Unwrap() error { return f.Err }
