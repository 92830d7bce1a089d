package worker

import (
	"operon/engine/frontier"
	"operon/spec/coord"
	"operon/spec/value"
)

// Command is what the scheduler, the only source of commands, sends a worker.
//
// The lifecycle commands go to all workers in one order and form the History:
// Hello, CreateInstance, UpdateConfiguration, CreateDataflow, Schedule,
// AllowCompaction and InitializationComplete. RunJobs, AddJobs, CancelJobs, Rest,
// Peek and CancelPeek go to one worker, name a dataflow or a question, and are never
// kept.
type Command interface{ command() }

// Hello begins a session, under a name that no other session has. Until
// InitializationComplete the commands that follow are only gathered; what is
// installed goes on meanwhile. Another Hello forgets what was gathered.
type Hello struct{ Session string }

// CreateInstance says what all workers have to agree on. A worker that has one
// compares: another one is a refusal.
type CreateInstance struct{ Config InstanceConfig }

// InstanceConfig is what workers have in common.
type InstanceConfig struct {
	Format  int // of the state directory
	Workers int
	RunID   string
}

// UpdateConfiguration gives an installed dataflow another configuration, such as
// another timeout. Jobs under way end under the old one.
type UpdateConfiguration struct{ Dataflow *Dataflow }

// CreateDataflow installs a dataflow, suspended. Ids come in ascending order; one
// that is left out is skipped. Of a dataflow that is installed already, which only
// a new session names again, it is the configuration.
type CreateDataflow struct{ Dataflow *Dataflow }

// Schedule lets a dataflow's jobs run.
type Schedule struct{ ID uint64 }

// AllowCompaction says that nobody needs a dataflow's jobs to run any more, with
// how it ended: it is frozen. Unless it is completed, jobs under way are cancelled
// and their results are good for nothing. Of a dataflow that is frozen, or over,
// it says nothing; of one that is yet to come, that it is to be passed.
type AllowCompaction struct {
	ID      uint64
	Outcome frontier.Outcome
}

// InitializationComplete ends what Hello began: what is installed and was not
// named again is dropped, then what is new is installed.
type InitializationComplete struct{}

// RunJobs asks for jobs of one dataflow, to be run one after another on one
// slot. Jobs of a dataflow that is yet to be scheduled wait for that.
type RunJobs struct {
	Command  uint64 // names it in the answer, and in CancelJobs; no other has it
	Dataflow uint64
	Jobs     []Job
	// Open says that AddJobs may come, where a process that stays runs the jobs: so
	// it is told at once of each that ends and leaves a place free.
	Open bool
}

// AddJobs gives an open command further jobs, for places that are free in its
// process. They are answered as its own. Those that come too late never begin: its
// last answer leaves them out.
type AddJobs struct {
	Command  uint64
	Dataflow uint64
	Jobs     []Job // of the command's Env
	// Failures is how many failures were heard of among the command's results. Jobs
	// that were sent before one of them was heard of are answered as never begun.
	Failures int
}

// Job names one attempt.
type Job struct {
	Coord   coord.Coord
	Attempt int      // from 1
	Env     []string // variables for this attempt, the same for all of a command
}

// CancelJobs ends the jobs of a command, or those of all commands of a dataflow
// where Command is 0. They are answered as cancelled, or as never begun.
type CancelJobs struct {
	Dataflow uint64
	Command  uint64
}

// Rest asks for the end of a dataflow's processes, none of which has a job. They are
// started again when one needs them.
type Rest struct{ Dataflow uint64 }

// Peek asks for the values of one job as the store has them: exactly one answer
// comes, unless the session ends before.
type Peek struct {
	ID       string // chosen by who asks; no other has it
	Dataflow uint64
	At       coord.Coord
}

// CancelPeek takes a question back. Of one that is answered it says nothing.
type CancelPeek struct{ ID string }

func (Hello) command()                  {}
func (CreateInstance) command()         {}
func (UpdateConfiguration) command()    {}
func (CreateDataflow) command()         {}
func (Schedule) command()               {}
func (AllowCompaction) command()        {}
func (InitializationComplete) command() {}
func (RunJobs) command()                {}
func (AddJobs) command()                {}
func (CancelJobs) command()             {}
func (Rest) command()                   {}
func (Peek) command()                   {}
func (CancelPeek) command()             {}

// Lifecycle reports whether a command is part of the history.
func Lifecycle(c Command) bool {
	switch c.(type) {
	case RunJobs, AddJobs, CancelJobs, Rest, Peek, CancelPeek:
		return false
	}
	return true
}

// About is the dataflow that a lifecycle command is about, if it is about one.
func About(c Command) (id uint64, ok bool) {
	switch c := c.(type) {
	case UpdateConfiguration:
		return c.Dataflow.ID, true
	case CreateDataflow:
		return c.Dataflow.ID, true
	case Schedule:
		return c.ID, true
	case AllowCompaction:
		return c.ID, true
	}
	return 0, false
}

// Response is what a worker says, with who it is.
type Response struct {
	Worker      int
	Incarnation uint64
	Body        Answer
}

// Answer is the body of a response.
type Answer interface{ answer() }

// JobsDone answers a RunJobs: a result a job. The results of one command may come
// in several answers, in any order; the last one has no More. Added jobs that even
// the last one leaves out never began, and never will.
type JobsDone struct {
	Command  uint64
	Dataflow uint64
	More     bool // the command is still running, and further answers come
	Results  []Result
}

// Rested answers a Rest: the processes have ended.
type Rested struct{ Dataflow uint64 }

// Frontiers tells what the worker may still schedule: a change of that, to be
// taken as a whole and once. Index is how many lifecycle commands it has taken.
type Frontiers struct {
	Seq    uint64
	Batch  frontier.ChangeBatch
	Index  uint64
	Reason error // why dataflows that the batch ends have failed, if any has
	// How many RunJobs have come so far for dataflows that were over, and for some
	// that were yet to be scheduled.
	Discarded, Stashed uint64
}

// PeekResponse answers a Peek.
type PeekResponse struct {
	Session   string
	ID        string
	Values    []value.Value
	Cancelled bool
	Err       error
}

// Status is for people: nothing may depend on it.
type Status struct {
	Session string
	// Refused is what is wrong with a command. It was not carried out.
	Refused error
}

// Died is the last that is heard of a worker that could not go on. Nothing that
// it started runs any more. Command is the one at which it could not go on; 0 if
// that was none of those that were under way.
type Died struct {
	Err     error
	Command uint64
}

func (JobsDone) answer()     {}
func (Rested) answer()       {}
func (Frontiers) answer()    {}
func (PeekResponse) answer() {}
func (Status) answer()       {}
func (Died) answer()         {}
