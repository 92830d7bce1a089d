package body

import (
	"context"
	"log/slog"
	"time"

	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
)

// Runner runs the jobs of one task. It may be used by several slots at once.
type Runner interface {
	// Run runs one attempt of a job on slot and returns only when nothing of
	// it is left running: group killed and reaped, output closed, usage read.
	// It never panics outward. A cancelled ctx ends the job: SIGTERM to its
	// group, SIGKILL after the task's grace period; a ctx whose cause is
	// ErrKill is killed at once. The error is always a *Failure.
	Run(ctx context.Context, slot *Slot, job *Job) (*Result, error)
}

// Job is one attempt of a job.
type Job struct {
	Coord   coord.Coord // of the task's context
	Attempt int         // from 1
	Token   string      // OPERON_JOB: unique to the attempt
	RunID   string      // OPERON_RUN_ID
	Args    []Arg       // one for each of the task's inputs, in declared order
	// Dir is the job's own folder, for TMPDIR, linked inputs and output files.
	// It need not exist: a body makes it when it needs it, and Result.Close
	// (or Run itself, when it fails) removes it.
	Dir string
	// Log is the file for the job's standard error, absolute. It and its
	// folder are made only when there is something to write.
	Log string
}

// Arg is one argument: a value, or a nested list of values.
type Arg struct {
	Value value.Value
	Slice *value.Slice // nil: Value
}

// Result is what an attempt returned.
type Result struct {
	// Items are the values: exactly one of a task that spawns nothing, else the
	// list. Files lie in the job's folder until Close.
	Items  []value.Value
	Usage  Usage
	Logged int64 // bytes of standard error that the log holds
	close  func() error
}

// Close removes the job's folder. It is to be called once the values have been
// stored.
func (r *Result) Close() error {
	if r.close == nil {
		return nil
	}
	return r.close()
}

// Usage is what an attempt took.
type Usage struct {
	Start  time.Time
	Wall   time.Duration
	CPU    time.Duration // user and system, the whole group as far as it was reaped
	MaxRSS int64         // bytes, of the largest process; 0 in process
}

// Config is what the bodies of a pipeline share. It is not to be copied once it
// is in use.
type Config struct {
	Pipeline  *spec.Pipeline
	Dir       string   // the pipeline file's folder, absolute
	Environ   []string // what jobs inherit, as os.Environ has it
	MaxOutput int64    // bytes of output a job; 0: DefaultMaxOutput
	LogLimit  int64    // bytes of standard error kept a job, head and tail; 0: DefaultLogLimit
	MaxMemory int64    // rough bound on one in-process job's result, bytes; 0: DefaultMaxOutput
	Logger    *slog.Logger

	files fileCache // digests of files taken by reference
}

const (
	DefaultMaxOutput = 256 << 20 // bytes of output a job
	DefaultLogLimit  = 16 << 20  // bytes of standard error kept a job
)
