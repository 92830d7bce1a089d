package body

import (
	"context"
	"log/slog"
	"sync"
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
	// folder are made only when there is something to write. A worker process
	// has one of its own, in the same folder.
	Log string
	// Env are further variables, NAME=value each, over all others but those of
	// the job itself. Of a worker they are its process's: a job goes to one
	// that was started with the same.
	Env []string
}

// BatchRunner runs jobs in batches: those of one command travel to one worker
// process, which has several in flight.
type BatchRunner interface {
	Runner
	// RunBatch runs jobs of the same Env on slot, as Run does each, and those that
	// it is given meanwhile. It returns when all that began have ended; after one
	// that failed none begins that it was given before.
	RunBatch(ctx context.Context, slot *Slot, jobs []*Job, b Batch)
	// Close ends the processes that the runner keeps: they are asked to finish,
	// and killed after the task's grace period, or when ctx ends. It may be called
	// more than once, and while nothing runs; jobs that come afterwards start new
	// ones.
	Close(ctx context.Context)
}

// Sharer is a runner that keeps something of its own, such as processes, and can
// be shared by workers that do not share that.
type Sharer interface {
	Runner
	// Share is a runner of the same task that keeps nothing yet.
	Share() Runner
}

// Batch is who takes what comes of a batch's jobs, on RunBatch's goroutine.
type Batch interface {
	// Stopped reports whether no further job may begin.
	Stopped() bool
	// Done takes how job i ended, counted from 0 over all that were given: a result
	// or a failure. It is called once for each that began.
	Done(i int, res *Result, f *Failure)
	// More are further jobs, at most room: so many could begin now. Where there are
	// fewer, wake is called, by any goroutine, once there may be more.
	More(room int, wake func()) []*Job
	// Idle is called when jobs are under way and none has ended for a moment: what
	// Done has taken should not wait for them.
	Idle()
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
	Start time.Time
	Wall  time.Duration
	CPU   time.Duration // user and system, the whole group as far as it was reaped
	// MaxRSS is bytes: of the largest process, or, where the job had a control
	// group, of all its processes together, with what they had of files in memory.
	// 0 in process.
	MaxRSS int64
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
	Funcs     []Func   // what `func` bodies name
	// Traffic hears each line that passes between the engine and a worker, without
	// its line end, and what a worker prints to standard error as it comes; nil:
	// nobody does. It may be called by two goroutines at once.
	Traffic func(what Traffic, text []byte)
	Logger  *slog.Logger

	files    fileCache // digests of files taken by reference
	commands sync.Map  // where commands were found
	room     room      // for large outputs being read
}

const (
	DefaultMaxOutput = 256 << 20 // bytes of output a job
	DefaultLogLimit  = 16 << 20  // bytes of standard error kept a job
)
