package worker

import (
	"sync"

	"operon/engine/body"
	"operon/spec"
	"operon/spec/value"
)

// Dataflow is one task of one pipeline, installed for running under an id that
// is never used again. It is shared by all workers that install it, and does not
// change: another configuration of the same instance is another Dataflow with
// its ID and Memo.
type Dataflow struct {
	ID        uint64
	Task      *spec.TaskSpec
	Runner    body.Runner  // a body.Sharer is shared: each worker has processes of its own
	Content   value.Digest // of what a source looks at; zero for other bodies
	Memo      *Memo        // nil: every job runs
	Uncached  bool         // every job runs that begins from now on; Memo has claims of others
	Labels    *body.Labels // of the items of its lists, or nil
	Producers []uint64     // the dataflow that fills each input's entity, declared order
	Spawners  []uint64     // the dataflow that spawns each dimension, by Dim.Index
	Locate    Locate       // nil: every record lies where it belongs

	once   sync.Once
	inputs []input
}

// memo is where a job that begins looks for its result; nil: nowhere.
func (d *Dataflow) memo() *Memo {
	if d.Uncached {
		return nil
	}
	return d.Memo
}

// InProcess reports whether the jobs run in this process.
func (d *Dataflow) InProcess() bool {
	switch d.Task.Body.Kind {
	case spec.BodyJQ, spec.BodySource, spec.BodyFunc:
		return true
	}
	return false
}

// Stays reports whether the dataflow's processes stay from job to job.
func (d *Dataflow) Stays() bool {
	_, stays := d.Runner.(body.BatchRunner)
	return stays
}

// Batches is how many jobs at once the dataflow's bodies are to be given, where
// one command takes as many as it can; 0 where it takes one.
func (d *Dataflow) Batches() int {
	if d.Stays() {
		return max(1, d.Task.Body.Concurrency)
	}
	if d.InProcess() {
		return 1
	}
	return 0
}
