package worker

import (
	"operon/engine/body"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// Dataflow is one task installed for running. It does not change afterwards.
type Dataflow struct {
	ID        uint64
	Task      *spec.TaskSpec
	Runner    body.Runner
	Content   value.Digest // of what a source looks at; zero for other bodies
	Memo      *Memo        // nil: every job runs
	Labels    *body.Labels // of the items of its lists, or nil
	Producers []uint64     // the dataflow that fills each input's entity, declared order
	Spawners  []uint64     // the dataflow that spawns each dimension, by Dim.Index
	Locate    Locate       // nil: every record lies where it belongs
	inputs    []input
}

// InProcess reports whether the jobs run in this process.
func (d *Dataflow) InProcess() bool {
	switch d.Task.Body.Kind {
	case spec.BodyJQ, spec.BodySource, spec.BodyFunc:
		return true
	}
	return false
}

// Batches is how many jobs at once the dataflow's bodies are to be given, where
// one command takes as many as it can; 0 where it takes one.
func (d *Dataflow) Batches() int {
	if _, ok := d.Runner.(body.BatchRunner); ok {
		return max(1, d.Task.Body.Concurrency)
	}
	if d.InProcess() {
		return 1
	}
	return 0
}

// RunJobs asks for jobs of one dataflow, to be run one after another on one
// slot.
type RunJobs struct {
	Dataflow *Dataflow
	Jobs     []Job
	GPUs     []string // what the command has for itself, for the answer
}

// Job names one attempt.
type Job struct {
	Coord   coord.Coord
	Attempt int      // from 1
	Env     []string // variables for this attempt, the same for all of a command
}

// JobsDone answers a RunJobs: a result a job. The results of one command may come
// in several answers, in any order.
type JobsDone struct {
	More     bool // the command is still running, and further answers come
	Dataflow *Dataflow
	Results  []Result
	GPUs     []string // as in the command
}

// Result is how one attempt ended. Exactly one of Output, Failure, Err and Waits
// is set, or none of them if the worker was stopped before the job began.
type Result struct {
	Job Job
	// Key is the job's key if it is claimed in the memo (or, with Waits, waited
	// for): who takes the result must settle the claim.
	Key     value.Digest
	Claimed bool
	Reused  bool            // Output is that of another job with the same key
	Waits   bool            // a job with the same key is under way
	Record  storage.Record  // with Output
	Output  *storage.Output // what it returned, ready to be committed
	Failure *body.Failure
	Log     string // path of the log, relative to the logs folder; "" if there is none
	// Err is no fault of the job: the store can't be read or written.
	Err error
}

// NotRun reports whether the job never began.
func (r *Result) NotRun() bool {
	return r.Output == nil && r.Failure == nil && r.Err == nil && !r.Waits
}
