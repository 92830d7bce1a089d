package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"operon/engine"
	"operon/engine/control"
	"operon/engine/serve"
	"operon/spec"
)

// exitRule is a row of the one table of exit codes: the first that holds for
// an error gives its code.
type exitRule struct {
	code  int
	means string
	holds func(error) bool
}

// exitRules are not to be changed.
var exitRules = []exitRule{
	{130, "stopped by SIGINT: the first lets running jobs finish, the second kills them", stoppedBy(syscall.SIGINT)},
	{143, "stopped by SIGTERM, in the same way", stoppedBy(syscall.SIGTERM)},
	{129, "stopped by SIGHUP, as when the terminal is closed, in the same way", stoppedBy(syscall.SIGHUP)},
	{5, "the machine's fault: disk full, no permission, a damaged file that can't be mended", machineFault},
	{4, "the state directory is in use", func(err error) bool { return is[*engine.InUseError](err) || is[*serve.RootError](err) }},
	{3, "inconsistent: data does not hold what a record says", is[*engine.InconsistentError]},
	{2, "usage or spec error; an unknown task, entity or coordinate; nothing there yet; no server that answers", usageFault},
	{1, "a job failed, or the run ended before all that was asked for was done; another client took the run over", func(err error) bool { return err != nil }},
	{0, "all that was asked for is done", func(error) bool { return true }},
}

// signalRules is how many of the rules, the first, are of signals.
const signalRules = 3

// ExitCode is the exit code that says how err ended the program.
func ExitCode(err error) int {
	for _, r := range exitRules {
		if r.holds(err) {
			return r.code
		}
	}
	return 1
}

// ExitTable is the table of exit codes in Markdown, lowest code first.
func ExitTable() string {
	var b strings.Builder
	b.WriteString("| code | meaning |\n| --- | --- |\n")
	for n := len(exitRules) - 1; n >= signalRules; n-- {
		fmt.Fprintf(&b, "| %d | %s |\n", exitRules[n].code, exitRules[n].means)
	}
	for _, r := range exitRules[:signalRules] {
		fmt.Fprintf(&b, "| %d | %s |\n", r.code, r.means)
	}
	return b.String()
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func stoppedBy(sig syscall.Signal) func(error) bool {
	return func(err error) bool {
		s, ok := errors.AsType[*stopped](err)
		return ok && s.signal == sig
	}
}

func machineFault(err error) bool {
	if is[*engine.MachineError](err) || is[*engine.DamagedError](err) || errors.Is(err, fs.ErrPermission) {
		return true
	}
	for _, fault := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EFBIG, syscall.EIO} {
		if errors.Is(err, fault) {
			return true
		}
	}
	return false
}

func usageFault(err error) bool {
	return is[*usageError](err) || is[spec.Errors](err) || is[*engine.UnknownError](err) || is[*engine.LabelError](err) || is[*engine.ResourcesError](err) ||
		is[*engine.ForeignError](err) || is[*engine.NotOursError](err) || is[*engine.AcceptError](err) || is[*engine.ReleasedError](err) || is[*engine.UnsavedError](err) || is[*engine.NewerError](err) ||
		is[*serve.NoRunError](err) || is[*serve.BusyError](err) || is[*serve.ElsewhereError](err) || is[*serve.MismatchError](err) || is[*control.RequestError](err) ||
		errors.Is(err, engine.ErrNoState) || errors.Is(err, engine.ErrNotThereYet) || errors.Is(err, fs.ErrNotExist)
}

// usageError is something wrong with how the program was called.
type usageError struct{ text string }

// Error is what was wrong.
func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// told is an error that the user has been told of already.
type told struct{ error }

// Unwrap is the error.
func (t told) Unwrap() error { return t.error }

// errUnfinished is a run that ended before all that was asked for was done, or
// with failed jobs; its summary tells.
var errUnfinished = errors.New("not all that was asked for is done")

// cause is err, or what ended ctx where err is only that ctx ended.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return context.Cause(ctx)
	}
	return err
}
