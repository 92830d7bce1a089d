package engine

import (
	"context"

	"operon/spec/coord"
	"operon/spec/value"
)

// RunState names what a state directory's run is in.
type RunState string

const (
	StateNone     RunState = "none"     // never run
	StateRunning  RunState = "running"  // an engine answers
	StatePaused   RunState = "paused"   // an engine answers, and starts no jobs
	StateStopped  RunState = "stopped"  // ended before all was done, or was killed
	StateFailed   RunState = "failed"   // ended with failed jobs
	StateComplete RunState = "complete" // all is done
)

// DataflowState names what a task's dataflow is in.
type DataflowState string

const (
	DataflowWaiting  DataflowState = "waiting"  // nothing of it has started
	DataflowRunning  DataflowState = "running"  // some of its jobs are done, queued or running
	DataflowComplete DataflowState = "complete" // all its jobs are done
	DataflowFailed   DataflowState = "failed"   // it has failed jobs
	DataflowFrozen   DataflowState = "frozen"   // done or dropped, and some worker has not said that it will never run any of it
	DataflowDropped  DataflowState = "dropped"  // ended before it was done, because somebody asked for it
)

// Status is where a run stands.
type Status struct {
	Pipeline string       `json:"pipeline"`
	Run      string       `json:"run"`
	State    RunState     `json:"state"`
	Tasks    []TaskStatus `json:"tasks"` // file order
	// Params are those that the run was given, while it is not complete: who goes on
	// with it and gives none goes on with these.
	Params map[string]string `json:"params,omitempty"`

	// Of an engine that runs: the scheduling frontier, as the least permissions that
	// some worker has, the workers, and what was dropped and is pinned by one.
	Frontier []string         `json:"frontier,omitempty"`
	Workers  []WorkerStatus   `json:"workers,omitempty"`
	Frozen   []FrozenDataflow `json:"frozen,omitempty"` // by id
}

// TaskStatus is where a task stands. Counts are of jobs; a family that waits
// for a dimension's length counts 1.
type TaskStatus struct {
	Task          string        `json:"task"`
	Dataflow      uint64        `json:"dataflow"`
	DataflowState DataflowState `json:"dataflow_state"`
	Waiting       int64         `json:"waiting"`
	Queued        int64         `json:"queued"`
	Running       int64         `json:"running"`
	Done          int64         `json:"done"`
	Failed        int64         `json:"failed"`
	Blocked       int64         `json:"blocked"`
	Holes         int64         `json:"holes"`
	Reused        int64         `json:"reused"`
	// Paused says that the task starts no jobs because somebody asked for it.
	Paused bool `json:"paused,omitempty"`
}

// TaskSummary is a task in a run's summary.
type TaskSummary struct {
	TaskStatus
	Executed int64 `json:"executed"`
	Undone   int64 `json:"-"` // jobs that were asked for, could have run, and did not
}

// Summary is how a run ended.
type Summary struct {
	Pipeline string        `json:"pipeline"`
	Run      string        `json:"run"`
	State    RunState      `json:"state"`
	Executed int64         `json:"executed"`
	Reused   int64         `json:"reused"`
	Failed   int64         `json:"failed"`
	Blocked  int64         `json:"blocked"`
	Holes    int64         `json:"holes"`
	Waiting  int64         `json:"waiting"`
	Elapsed  float64       `json:"elapsed_s"`
	Tasks    []TaskSummary `json:"tasks"` // file order
	// Dataflows says how many of the tasks' dataflows were kept from before, and what
	// became of the others.
	Dataflows Reconciles `json:"dataflows"`

	// MaxFailures is Options.MaxFailures if that ended the run, with jobs left
	// undone; otherwise 0.
	MaxFailures int64 `json:"max_failures,omitempty"`

	Totals   map[string]JobTotals `json:"-"` // by task: also of tasks that the pipeline has no more
	Failures []FailureGroup       `json:"-"` // most jobs first
	LeftOut  []string             `json:"-"` // tasks with jobs that take more than Only or Sample ask for
	// Asked says that all that was asked for is done, also with Until.
	Asked bool `json:"-"`
}

// FailureGroup is what failed for one cause.
type FailureGroup struct {
	Task   string
	Kind   string // see body.Kind
	Cause  string // the message, numbers and names in it made alike
	Hole   bool   // the jobs became holes
	Jobs   int64
	Sample Failed // the one that comes first by coordinate
}

// Failed is one failed job.
type Failed struct {
	Task     string
	Coord    coord.Coord
	Dims     []string
	Labels   []string // of the indices, "" for those without; nil: none has one
	Kind     string
	Message  string
	Attempts int
	Exit     int
	Signal   string
	Stderr   []byte // the last lines, at most 2 KiB
	Log      string // path of the log, absolute; "" if the job wrote none
	Hole     bool   // its value is a hole, and the run goes on
}

// Query names values of one entity.
type Query struct {
	Entity string
	At     coord.Binding // any subset of the entity's dimensions
	// Labels name indices of further dimensions by the labels of their items.
	Labels map[string]string
}

// Item is one value at its coordinate of the entity's dimensions. A hole in the
// place of a list has the coordinate of its job, which lacks the spawned one.
type Item struct {
	Coord coord.Coord
	Value value.Value
}

// Found is how much of what a query asks for is there.
type Found struct {
	Dims  []string // of the entity, canonical order
	Have  int64    // values handed out
	Want  int64    // values that the run will have, as far as lengths are known
	Known bool     // Want is final
}

// View answers questions about a run: an Engine while it runs, a State after.
type View interface {
	// Status says where the run stands. It is never ahead of what is durable.
	Status(ctx context.Context) (*Status, error)
	// Values hands the values that the query names to fn, in coordinate order.
	// Only durable values are handed out. An unknown entity is an
	// *UnknownError.
	Values(ctx context.Context, q Query, fn func(Item) error) (Found, error)
	// Logs hands the logs of jobs to fn: in task file order, then coordinate
	// order; only of failed jobs if failed is set.
	Logs(ctx context.Context, q LogQuery, fn func(Log) error) error
}

// LogQuery names logs. An empty Task is all tasks.
type LogQuery struct {
	Task   string
	At     coord.Binding
	Labels map[string]string // as in Query
	Failed bool
}

// Log is one job's standard error.
type Log struct {
	Task   string
	Coord  coord.Coord
	Dims   []string
	Labels []string // of the indices, "" for those without; nil: none has one
	Path   string   // absolute
}
