package engine

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"operon/engine/ticket"
	"operon/engine/worker"
	"operon/meta"
	"operon/spec"
	"operon/storage"
)

// loop is the one goroutine that owns all scheduling state. It waits for the
// first event and takes what else has arrived; the transition function says for
// each what may run now; what changed goes to the two writers; dispatch hands
// ready jobs to free slots; requests are answered once what they were told is
// durable. When nothing runs and nothing can start, it ends.
type loop struct {
	ctx     context.Context // of the run
	pl      *plan           // what is wanted, and what became of what was there
	p       *spec.Pipeline
	log     *slog.Logger
	events  func(Event)
	table   *ticket.Table
	flows   []*flow // file order
	active  []*flow // those with ready jobs, file order
	crew    *crew
	caches  *worker.Caches
	takers  [][]*spec.TaskSpec // of each task: what takes what it makes
	commits *committer

	room      room
	gpus      []string      // free ones
	pinSerial uint64        // of the last retry that waits for its GPUs
	turns     uint64        // of the last task that others were preferred to for too long
	nextStart time.Duration // until a bucket lets a job start; 0: none is waited for
	running   int           // commands under way
	timers    timers
	data      *storage.Batch // what this turn puts
	meta      *meta.Batch    // what goes with it into the metadata
	puts      int            // jobs in it
	ahead     []batchJobs    // batches whose data is not durable yet
	aheadJobs int
	answers   []answer
	claims    []claim
	transient *transients

	frozen  map[uint64]*flow // dropped, and some worker may still schedule them
	resting map[uint64]*flow // whose idle processes are being ended
	leaving map[string]int   // of a task: dataflows that are its no more, and not over for good

	holed       []ticket.Range        // jobs that are to become holes
	deferred    []deferred            // what waits for a batch to be durable
	earlier     *saver                // of an earlier version of what is wanted, if this one saves nothing
	sizes       map[string]int        // of pools and tasks, as somebody has set them
	paused      map[string]bool       // of tasks that somebody has named since all were paused or resumed
	allPaused   bool                  // all others are
	totals      map[string]*JobTotals // by task
	limitMemory func()                // lets mem hold for all processes of a job, once a task has it
	tally       Reconciles
	labels      *labels
	only        *selection // nil: everything
	saver       *saver     // nil: no task has anything to save

	keepGoing   bool
	maxFailures int64 // 0: any number
	failing     bool  // jobs have failed, and no new one may start
	stopping    bool  // somebody asked for the end
	killed      bool  // at once
	sick        error // the machine's or the data's fault
	runID       string
	begun       uint64 // the batch that says that the run has begun
	saidState   RunState
	failures    failures
	lastTick    time.Time
	logs        string
}

// batchJobs is how many jobs a batch holds.
type batchJobs struct {
	number uint64
	jobs   int
}

// maxAhead is how many finished jobs may be ahead of the data writer before the
// loop starts no more.
const maxAhead = 32 << 10

// run runs the loop to its end.
func (l *loop) run(ctx context.Context, requests <-chan request) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	l.tell(time.Now(), true)
	for {
		l.makeHoles()
		l.commit(false) // first: a job that starts must find what it takes
		l.save()
		l.dispatch()
		l.answer()
		l.settleDeferred()
		l.tell(time.Now(), false)
		l.crew.watch()
		if l.ended() {
			return l.sick
		}
		timer.Reset(l.untilNext())
		select {
		case r := <-l.crew.responses:
			l.hear(r)
			l.drain()
		case r := <-requests:
			l.request(r)
		case <-l.commits.wake:
			l.committed()
		case <-timer.C:
			l.retryDue(time.Now())
		case <-ctx.Done():
			l.kill()
			ctx = context.WithoutCancel(ctx) // heard; running jobs still answer
		}
	}
}

// maxDrain is how many responses a turn takes at most.
const maxDrain = 1 << 10

// drain takes the responses that have arrived meanwhile.
func (l *loop) drain() {
	for range maxDrain {
		select {
		case r := <-l.crew.responses:
			l.hear(r)
		default:
			return
		}
	}
}

// ended reports whether nothing runs and nothing more is to start.
func (l *loop) ended() bool {
	if l.running > 0 || len(l.holed) > 0 && l.sick == nil {
		return false
	}
	if l.halted() {
		return true
	}
	if l.wantedComplete() {
		return len(l.frozen) == 0
	}
	if l.timers.wanted() || l.aheadJobs > maxAhead {
		return false
	}
	for _, f := range l.active {
		if f.wanted {
			return false // paused: somebody may resume it
		}
	}
	return len(l.frozen) == 0
}

// halted reports whether no new job may start.
func (l *loop) halted() bool { return l.failing || l.stopping || l.sick != nil }

func (l *loop) wantedComplete() bool {
	for n, f := range l.flows {
		if f.wanted && !l.table.Counts(n).Complete() {
			return false
		}
	}
	return true
}

// dispatch fills the free slots from the ready queues.
func (l *loop) dispatch() {
	l.nextStart = 0
	for l.room.free > 0 && l.mayStart() {
		room := l.room
		room.free = min(room.free, l.crew.free())
		now := time.Now()
		e := l.entries()
		n, jobs, wait := pick(e.limits, room, now)
		if l.nextStart = wait; n < 0 {
			break
		}
		f, pin := l.flows[e.limits[n].flow], e.pins[n]
		if l.makeRoom(f, pin, e.kept) {
			continue
		}
		batch := l.takeJobs(f, pin, jobs)
		o := l.occupy(f, batch, pin, e.kept)
		l.passOver(e, n, now)
		l.crew.run(o, batch)
	}
	l.topUp()
}

// mayStart reports whether new jobs may start at all.
func (l *loop) mayStart() bool { return !l.halted() && l.aheadJobs <= maxAhead }

// takeJobs takes up to n ready jobs of f: those of pin, if there is one.
func (l *loop) takeJobs(f *flow, pin *pinned, n int) (batch []worker.Job) {
	if pin != nil {
		batch = f.takePinned(pin, n)
	} else {
		batch = f.take(n)
	}
	if f.ready() == 0 {
		l.active = slices.DeleteFunc(l.active, func(a *flow) bool { return a == f })
	}
	return batch
}

// push makes jobs ready, but for those of dataflows that were dropped: these are
// for another run.
func (l *loop) push(ranges []ticket.Range) {
	for _, r := range ranges {
		f := l.flows[r.Task]
		f.changed = true
		if f.frozen {
			continue
		}
		for _, r := range l.choose(f, r) {
			if r.Hole {
				l.pushHole(f, r)
				continue
			}
			l.activate(f)
			f.queue.push(r)
		}
	}
}

// activate puts f among the flows with ready jobs, in its place.
func (l *loop) activate(f *flow) {
	if f.ready() > 0 {
		return
	}
	at := 0
	for at < len(l.active) && l.active[at].task.Index < f.task.Index {
		at++
	}
	l.active = append(l.active, nil)
	copy(l.active[at+1:], l.active[at:])
	l.active[at] = f
}

// untilNext is how long the loop may wait with nothing happening.
func (l *loop) untilNext() time.Duration {
	if len(l.holed) > 0 && l.aheadJobs <= maxAhead {
		return 0
	}
	wait := tellEvery
	if len(l.timers) > 0 {
		wait = min(wait, time.Until(l.timers[0].at))
	}
	if l.nextStart > 0 {
		wait = min(wait, l.nextStart)
	}
	return max(wait, 0)
}
