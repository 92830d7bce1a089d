package body

import (
	"context"
	"log/slog"

	"operon/engine/body/internal/proc"
)

// Running is the file that says which processes run on which slot, so that the
// next engine can end what a killed one left. It is written in place and never
// synced: it has to outlive the engine, not the machine.
type Running struct{ file *proc.Running }

// OpenRunning opens or makes the file for a number of slots. What it said
// before is forgotten: call EndStrays first.
func OpenRunning(path string, slots int) (*Running, error) {
	f, err := proc.OpenRunning(path, slots)
	if err != nil {
		return nil, err
	}
	return &Running{file: f}, nil
}

// LimitGroups makes a task's `mem` hold for all processes of a job together, where
// the kernel's control groups (version 2) can be had. Elsewhere it holds for each
// process: log hears why, at debug level. It must be called before any slot is
// made. This process may be moved to a group below its own, until Close.
func (r *Running) LimitGroups(log *slog.Logger) {
	if err := r.file.LimitGroups(log); err != nil && log != nil {
		log.Debug("`mem` bounds each process of a job on its own", "why", err)
	}
}

// Close closes the file. No slot may use it any more.
func (r *Running) Close() error { return r.file.Close() }

// Stray is a process of an earlier engine that was still there.
type Stray struct {
	PID     int
	Token   string // its OPERON_JOB, "" if not known
	Command string // its arguments, separated by blanks
}

// EndStrays kills what an earlier engine left running and returns when it is
// gone: the processes that the running file at path names, with their process
// groups, if process id, start time and boot agree; every process that has an
// OPERON_JOB in its environment that begins with tokenPrefix, which must not be
// empty; and what is left in control groups of such jobs. The caller must hold the state directory, so that no engine is
// running on it. A missing file is no error.
func EndStrays(ctx context.Context, path string, tokenPrefix string) (ended []Stray, err error) {
	found, err := proc.EndStrays(ctx, path, tokenPrefix)
	for _, s := range found {
		ended = append(ended, Stray(s))
	}
	return ended, err
}
