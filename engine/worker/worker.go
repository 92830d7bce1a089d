package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"operon/engine/body"
	"operon/engine/frontier"
	"operon/storage"
)

// Config is what a worker is made with.
type Config struct {
	Index       int    // from 0
	Incarnation uint64 // of this worker: one that died is followed by a later one
	Slots       int    // how many commands it runs at once
	FirstSlot   int    // number of its first slot; no other worker has a slot of that number
	// Next is the first id that is new to it, as the scheduler's view has it. Holds
	// are the older ones that this incarnation goes on with.
	Next  uint64
	Holds []uint64

	Store   *storage.Store
	Caches  *Caches // shared by the workers of an engine; nil: its own
	Logs    string  // folder for the jobs' standard error
	Dir     string  // the pipeline file's folder, absolute
	Scratch string  // folder for the jobs' own folders
	Running *body.Running
	Token   string // what every OPERON_JOB of this state directory begins with
	RunID   string

	// Fault is called at each of the points below, for tests: it may block or
	// panic there. nil: nothing.
	Fault func(point string)
}

// Points at which Config.Fault is called.
const (
	PointCommand = "command" // a command was taken, and nothing was done about it
	PointInstall = "install" // an id was taken, and nothing was built
	PointJob     = "job"     // on a slot, before a job begins
	PointRetract = "retract" // a dataflow is over here, and nobody was told
)

// Worker runs jobs of the dataflows that it is told to install.
type Worker struct {
	cfg       Config
	ctx       context.Context
	cancel    context.CancelCauseFunc
	inbox     *inbox
	responses chan<- Response
	*Caches

	stopping chan struct{}
	stopOnce sync.Once
	fence    atomic.Pointer[Died] // what it dies of, once it does
	ended    chan struct{}        // no slot takes another command
	endOnce  sync.Once
	work     chan *task
	slots    sync.WaitGroup
	quiet    sync.WaitGroup // slots that may still run something
	over     chan struct{}  // closed when no process that stays needs its slot's thread
	gone     chan struct{}  // closed when nobody reads the responses any more
	loop     sync.WaitGroup // the loop alone: it may stall
	closing  sync.WaitGroup // processes that are being ended
	aside    sync.WaitGroup // what nobody waits for in its turn

	speaking sync.RWMutex // held for writing by who says the last word
	silent   bool         // Died was said, or nobody listens any more

	mu      sync.Mutex           // of what slots and the loop both count
	runners map[*served]struct{} // nil: no process is to be kept any more

	// What follows is the loop's own.
	session   session
	installed map[uint64]*installed
	condemned map[uint64]struct{} // ids to come that are known to be dropped
	holds     map[uint64]struct{} // ids that it goes on with, until they are installed again
	next      uint64
	stash     map[uint64][]RunJobs // of dataflows that are not scheduled yet
	stashSize int
	backlog   []*task
	unsaid    frontier.ChangeBatch
	reason    error
	seq       uint64
	index     uint64 // lifecycle commands taken
	saidIndex uint64
	discarded uint64
	stashed   uint64
	peeks     map[string]context.CancelFunc
}

// New starts a worker that answers on responses, which somebody must read until
// Close returns. It is cut short when ctx ends.
func New(ctx context.Context, cfg Config, responses chan<- Response) (*Worker, error) {
	w := &Worker{
		cfg: cfg, inbox: newInbox(), responses: responses, Caches: cfg.Caches,
		stopping: make(chan struct{}), ended: make(chan struct{}), over: make(chan struct{}), gone: make(chan struct{}),
		work: make(chan *task), runners: map[*served]struct{}{},
		installed: map[uint64]*installed{}, condemned: map[uint64]struct{}{}, holds: map[uint64]struct{}{},
		next: cfg.Next, stash: map[uint64][]RunJobs{}, peeks: map[string]context.CancelFunc{},
	}
	if w.Caches == nil {
		w.Caches = NewCaches()
	}
	for _, id := range cfg.Holds {
		w.holds[id] = struct{}{}
	}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	started := make(chan error)
	w.quiet.Add(cfg.Slots)
	for n := range cfg.Slots {
		w.slots.Go(func() { w.serve(cfg.FirstSlot+n, started) })
	}
	var err error
	for range cfg.Slots {
		err = errors.Join(err, <-started)
	}
	if err != nil {
		w.end()
		w.cancel(nil)
		return nil, err
	}
	w.loop.Go(w.live)
	return w, nil
}

// Send hands the worker a command. It never waits.
func (w *Worker) Send(c Command) { w.inbox.put(c) }

// Behind is how long the oldest command has waited for the worker to carry it out.
func (w *Worker) Behind() time.Duration { return w.inbox.behind() }

// Stop makes the worker begin no further job of the commands that it has.
func (w *Worker) Stop() { w.stopOnce.Do(func() { close(w.stopping) }) }

// Kill ends every running job at once.
func (w *Worker) Kill() {
	w.Stop()
	w.cancel(body.ErrKill)
}

// Fence takes a worker out that does not answer, or can't go on: it begins
// nothing more, whatever it was told, its jobs are killed, and once nothing of it
// is left running it says that it Died. Fence does not wait for that.
func (w *Worker) Fence(why error) { w.die(Died{Err: why}) }

func (w *Worker) die(of Died) {
	if !w.fence.CompareAndSwap(nil, &of) {
		return
	}
	w.Kill()
	w.aside.Go(func() {
		w.end()
		w.speaking.Lock()
		defer w.speaking.Unlock()
		w.send(of)
		w.silent = true
	})
}

// end lets the slots end, with the processes that stay, and waits for them.
func (w *Worker) end() {
	w.endOnce.Do(func() {
		close(w.ended)
		w.quiet.Wait()
		w.closeRunners() // a process that stays dies with the thread that started it
		close(w.over)
		w.slots.Wait()
	})
}

// Close lets the worker take the commands that it has, lets what runs end, and
// waits for all of it. It retracts nothing: the worker just leaves. A loop that is
// at a command for as long as patience is left behind, fenced, with its one
// goroutine; that is the error.
func (w *Worker) Close(patience time.Duration) error {
	w.inbox.close()
	done := make(chan struct{})
	go func() { // ends with the loop
		w.loop.Wait()
		close(done)
	}()
	var err error
	timer := time.NewTimer(max(0, patience-w.Behind()))
	defer timer.Stop()
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case <-timer.C:
			if behind := w.Behind(); behind < patience {
				timer.Reset(patience - behind)
				continue
			}
			err = fmt.Errorf("worker %d took no command for %v, and was left behind", w.cfg.Index, w.Behind().Round(time.Millisecond))
			waiting = false
		}
	}
	if err != nil {
		w.fence.CompareAndSwap(nil, &Died{Err: err}) // when it wakes up it does nothing
		w.Kill()
	}
	w.end()
	w.aside.Wait()
	w.cancel(nil)
	close(w.gone)
	w.speaking.Lock()
	defer w.speaking.Unlock()
	w.silent = true
	return err
}

// live is the worker's loop: it takes commands in their order, hands jobs to the
// slots, and says what it may still schedule.
func (w *Worker) live() {
	defer w.inbox.abandon()
	defer w.recover("its loop", 0)
	for {
		c, ok, last := w.inbox.take()
		switch {
		case ok:
			w.fault(PointCommand)
			if w.fence.Load() != nil {
				return // it woke up too late: somebody else goes on with its work
			}
			w.handle(c)
			w.handOut()
			continue
		case last && len(w.backlog) == 0:
			for id := range w.stash {
				w.unstashAll(id)
			}
			w.say()
			return
		}
		w.say()
		var work chan<- *task
		var first *task
		if len(w.backlog) > 0 {
			work, first = w.work, w.backlog[0]
		}
		select {
		case <-w.inbox.ready:
		case work <- first:
			w.backlog = w.backlog[1:]
		case <-w.ended:
			return
		}
	}
}

// handle carries out a command.
func (w *Worker) handle(c Command) {
	switch c := c.(type) {
	case RunJobs:
		w.say()
		w.runJobs(c)
	case AddJobs:
		w.addJobs(c)
	case CancelJobs:
		w.cancelJobs(c)
	case Rest:
		w.rest(c.Dataflow)
	case Peek:
		w.peek(c)
	case CancelPeek:
		w.cancelPeek(c.ID)
	case drained:
		w.closeDown(c.of)
	case closed:
		c.of.closing--
		w.retractClosed(c.of)
	case unused:
		w.endProcesses(c.body)
	case peeked:
		w.answerPeek(c.answer)
	default:
		w.index++
		w.lifecycle(c)
	}
}

// handOut gives what waits to slots that are free now.
func (w *Worker) handOut() {
	for len(w.backlog) > 0 {
		select {
		case w.work <- w.backlog[0]:
			w.backlog = w.backlog[1:]
		default:
			return
		}
	}
}

// say tells what has changed of what may be scheduled here. Changes that nobody
// was told add up: who was told less holds on to more.
func (w *Worker) say() {
	if w.unsaid.IsEmpty() && w.index == w.saidIndex {
		return
	}
	f := Frontiers{Seq: w.seq, Batch: w.unsaid, Index: w.index, Reason: w.reason, Discarded: w.discarded, Stashed: w.stashed}
	w.seq++
	w.unsaid, w.reason, w.saidIndex = frontier.ChangeBatch{}, nil, w.index
	w.respond(f)
}

// respond says something, unless the last word was spoken: the loop may stall in
// the middle of a command, and wake up when another worker is in its place.
func (w *Worker) respond(a Answer) {
	w.speaking.RLock()
	defer w.speaking.RUnlock()
	if !w.silent {
		w.send(a)
	}
}

func (w *Worker) send(a Answer) {
	select {
	case w.responses <- Response{Worker: w.cfg.Index, Incarnation: w.cfg.Incarnation, Body: a}:
	case <-w.gone: // its loop was left behind, and woke up
	}
}

// refuse says what is wrong with a command that is not carried out.
func (w *Worker) refuse(format string, args ...any) { w.status(fmt.Errorf(format, args...)) }

func (w *Worker) status(refused error) {
	w.respond(Status{Session: w.session.name, Refused: refused})
}

func (w *Worker) fault(point string) {
	if w.cfg.Fault != nil {
		w.cfg.Fault(point)
	}
}

// recover makes of a panic the end of this worker, not of the engine.
func (w *Worker) recover(where string, command uint64) {
	if p := recover(); p != nil {
		w.die(Died{fmt.Errorf("worker %d: panic in %s: %v\n%s", w.cfg.Index, where, p, debug.Stack()), command})
	}
}

// stopped reports whether no further job may begin.
func (w *Worker) stopped() bool {
	select {
	case <-w.stopping:
		return true
	default:
		return w.ctx.Err() != nil
	}
}
