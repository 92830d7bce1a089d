package engine

import (
	"container/heap"
	"slices"
	"time"

	"operon/engine/ticket"
	"operon/engine/worker"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
)

// flow is a task's dataflow as the loop sees it.
type flow struct {
	task   *spec.TaskSpec
	id     uint64
	df     *worker.Dataflow
	wanted bool // of what was asked for
	lifetime
	paused   bool
	pool     int   // commands at once; 0: no limit of its own
	shared   int   // which of the shared pools, or noPool
	needs    needs // of one command
	queue    *queue
	again    []worker.Job                  // attempts that are due
	pins     []*pinned                     // of those, which have to have the GPUs that they had
	unasked  []due                         // attempts that nobody asks for any more, or not now
	attempts map[coord.Coord]int           // of jobs that were tried more than once
	parked   map[value.Digest][]worker.Job // jobs that wait for another with their key
	running  int                           // commands under way
	jobs     int64                         // jobs under way
	ended    bool                          // all its jobs are done, of a task that saves
	endedIn  uint64                        // batch with the last of them
	saving   bool                          // handed to the saver
	rank     int                           // its place from roots to leaves
	retrying int                           // jobs that wait for their next attempt
	pace     pace
	stay     stay   // what its processes hold that stay
	wary     bool   // see heed
	passed   int    // starts that took the room it waits for
	turn     uint64 // see limits
	skipped  int64  // jobs that may run, and are not asked for
	executed int64
	reused   int64
	released bool // its values were deleted
	changed  bool // since the last event about it
	said     DataflowState
}

func (f *flow) ready() int {
	n := f.queue.size + len(f.again)
	for _, p := range f.pins {
		n += len(p.jobs)
	}
	return n
}

// configure makes the flow that of a task as it is written now.
func (f *flow) configure(p *spec.Pipeline, t *spec.TaskSpec, df *worker.Dataflow) {
	f.task, f.df, f.changed = t, df, true
	f.pool, f.shared, f.needs = t.PoolSize(), sharedPool(p, t), needsOf(t)
	f.ended, f.saving = false, false
	if f.queue == nil {
		f.queue = newQueue(t)
	}
}

// limits are what dispatch goes by, of the jobs that may have any GPUs.
func (f *flow) limits() limits {
	l := limits{
		ready: f.queue.size + len(f.again), running: f.running, pool: f.pool, shared: f.shared, needs: f.needs,
		held: f.paused || !f.wanted || !f.scheduled, batch: 1, flow: f.task.Index, turn: f.turn,
	}
	if n := f.df.Batches(); f.df.InProcess() {
		l.batch = f.pace.batch(1, firstBatch)
	} else if n > 0 {
		l.batch = f.pace.batch(n, n) // nobody knows how long they take
	}
	return l
}

// opens reports whether the flow's commands are open to further jobs: those of a
// process that stays, and is given no more jobs than it has places for. Where jobs
// are so fast that a command takes many, nothing is gained. A job at which a worker
// died is neither added to others, nor they to it.
func (f *flow) opens() bool {
	n := f.df.Batches()
	return f.df.Stays() && n > 1 && !f.wary && len(f.deaths) == 0 && f.pace.slow(n)
}

// empty forgets all jobs that were to run.
func (f *flow) empty() {
	f.queue, f.again, f.pins, f.unasked, f.retrying = newQueue(f.task), nil, nil, nil, 0
}

// take takes up to n jobs: attempts that are due first. A job at which a worker
// died goes alone.
func (f *flow) take(n int) []worker.Job {
	k, whole := f.together(f.again[:min(n, len(f.again))])
	if whole {
		n = k
	}
	out := slices.Clone(f.again[:k])
	f.again = f.again[k:]
	for _, c := range f.queue.pop(n - k) {
		attempt := 1
		if tried := f.attempts[c]; tried > 0 {
			attempt = tried + 1
		}
		out = append(out, worker.Job{Coord: c, Attempt: attempt})
	}
	return out
}

// together is how many of the first of some jobs may run in one command: one at
// which a worker died runs alone. whole says that no others may come along.
func (f *flow) together(jobs []worker.Job) (n int, whole bool) {
	for i, job := range jobs {
		if f.deaths[job.Coord] > 0 {
			return max(1, i), true
		}
	}
	return len(jobs), false
}

// status is where the task stands, but for what is blocked.
func (f *flow) status(c ticket.Counts) TaskStatus {
	s := TaskStatus{
		Task:     f.task.Name,
		Dataflow: f.id,
		Waiting:  c.Waiting() + f.skipped,
		Queued:   c.Promoted - c.Done - c.Failed - c.Holes - f.jobs - f.skipped,
		Running:  f.jobs,
		Done:     c.Done,
		Failed:   c.Failed,
		Holes:    c.Holes,
		Reused:   f.reused,
		Paused:   f.paused,
	}
	if f.cut() {
		s.Waiting, s.Queued = s.Waiting+s.Queued, 0 // for another run
	}
	s.DataflowState = f.state(c)
	return s
}

func dataflowState(c ticket.Counts, running int64) DataflowState {
	switch {
	case c.Failed > 0:
		return DataflowFailed
	case c.Complete():
		return DataflowComplete
	case running > 0 || c.Promoted > 0:
		return DataflowRunning
	}
	return DataflowWaiting
}

// due is an attempt that waits for its time.
type due struct {
	at   time.Time
	flow *flow
	job  worker.Job
}

// timers are the attempts to come, the earliest first.
type timers []due

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at.Before(t[j].at) }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }

// wanted reports whether somebody asks for one of them.
func (t timers) wanted() bool {
	return slices.ContainsFunc(t, func(d due) bool { return d.flow.wanted })
}

// forget takes out the attempts of a flow.
func (t *timers) forget(f *flow) {
	*t = slices.DeleteFunc(*t, func(d due) bool { return d.flow == f })
	heap.Init(t)
}

// Push is heap.Interface's.
func (t *timers) Push(x any) { *t = append(*t, x.(due)) }

// Pop is heap.Interface's.
func (t *timers) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}
