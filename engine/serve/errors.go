package serve

import (
	"errors"
	"fmt"
)

// ErrStopping is what a submission meets when the host is about to end.
var ErrStopping = errors.New("the server is stopping, and takes nothing new")

// ErrCrowded is what a submission meets when those that are not complete hold as
// many bytes as they may together.
var ErrCrowded = errors.New("the server holds as much of unfinished submissions as it has room for: submit again in a moment")

// RootError is a state root that another host owns.
type RootError struct{ Root, Owner string }

// Error names the owner.
func (e *RootError) Error() string {
	return fmt.Sprintf("state root %s is served by %s already", e.Root, e.Owner)
}

// ProtocolError is a command that can't be where it is.
type ProtocolError struct{ Message string }

// Error says what is wrong with it.
func (e *ProtocolError) Error() string { return e.Message }

func protocolf(format string, args ...any) error {
	return &ProtocolError{fmt.Sprintf(format, args...)}
}

// SupersededError is what a session hears, and what its commands meet, after
// another one took control of its pipeline.
type SupersededError struct{ Pipeline string }

// Error says so.
func (e *SupersededError) Error() string {
	return fmt.Sprintf("superseded: another client has taken over pipeline %s; the run goes on", e.Pipeline)
}

// MismatchError is a task that is not what the client takes it for.
type MismatchError struct {
	Task         string
	What         string // "fingerprint", "dimensions", "spawned dimension"
	Client, Host string
}

// Error names the task and both.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("task %s: its %s is %s to the client and %s to the server: the file, a file that it names, or the version of operon is not the same", e.Task, e.What, shown(e.Client), shown(e.Host))
}

func shown(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// NoRunError is a request to an engine where none runs.
type NoRunError struct{ Pipeline string }

// Error says so.
func (e *NoRunError) Error() string { return "no engine runs pipeline " + e.Pipeline }

// ElsewhereError is a submission of a pipeline whose name another pipeline file
// has here: a host has one state directory a name.
type ElsewhereError struct {
	Pipeline string
	File     string // the other file
	Running  bool   // it runs
}

// Error says whose the name is, and the ways out.
func (e *ElsewhereError) Error() string {
	if e.Running {
		return fmt.Sprintf("pipeline %s is running from %s: end that run first, with operon quit, then take its state over with --adopt if the file was moved; or give this pipeline another name", e.Pipeline, e.File)
	}
	return fmt.Sprintf("the state of pipeline %s here belongs to %s: take it over with --adopt if the file was moved, or give this pipeline another name", e.Pipeline, e.File)
}

// BusyError is a wish that only a run which has not begun can have.
type BusyError struct{ Pipeline, Wish string }

// Error says what to do.
func (e *BusyError) Error() string {
	return fmt.Sprintf("pipeline %s is running, and %s is for the beginning of a run: end it first, with operon quit", e.Pipeline, e.Wish)
}
