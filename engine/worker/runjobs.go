package worker

import (
	"context"
	"math"

	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// maxStash bounds the commands that wait for their dataflow to be scheduled. One
// beyond is answered at once as not begun: nothing is lost, and who sends too
// early hears of it.
const maxStash = 1 << 10

// task is a command on its way to a slot.
type task struct {
	cmd    RunJobs
	conf   *configured
	ctx    context.Context
	intake *intake // of an open one, else nil
}

// runJobs takes in jobs: for a slot, for later, or not at all.
func (w *Worker) runJobs(c RunJobs) {
	in := w.installed[c.Dataflow]
	_, held := w.holds[c.Dataflow]
	_, dropped := w.condemned[c.Dataflow]
	switch {
	case in != nil && !in.frozen && in.scheduled:
		w.enqueue(in, c)
	case in != nil && !in.frozen, in == nil && !dropped && (held || c.Dataflow >= w.next):
		if w.stashSize == maxStash {
			w.answerUnbegun(c)
			return
		}
		w.stash[c.Dataflow] = append(w.stash[c.Dataflow], c)
		w.stashSize++
		w.stashed++
	default:
		w.discarded++
		w.answerUnbegun(c)
	}
}

// enqueue lets the next free slot run a command.
func (w *Worker) enqueue(in *installed, c RunJobs) {
	t := &task{cmd: c, conf: in.now}
	if c.Open {
		t.intake = &intake{}
	}
	w.mu.Lock()
	if c.Open {
		in.intakes[c.Command] = t.intake
	}
	t.ctx, in.cancels[c.Command] = context.WithCancel(in.ctx)
	in.active++
	in.now.active++
	w.mu.Unlock()
	w.backlog = append(w.backlog, t)
}

// done takes a command off what is under way, once it was answered to its end.
func (w *Worker) done(t *task) {
	in := t.conf.of
	w.mu.Lock()
	in.cancels[t.cmd.Command]()
	delete(in.cancels, t.cmd.Command)
	delete(in.intakes, t.cmd.Command)
	in.active--
	t.conf.active--
	unusedNow := t.conf.replaced && t.conf.active == 0
	drainedNow := in.frozen && in.active == 0
	w.mu.Unlock()
	if unusedNow {
		w.inbox.put(unused{t.conf.served})
	}
	if drainedNow {
		w.inbox.put(drained{in})
	}
}

// cancelJobs ends jobs that are under way, and answers those that wait for their
// dataflow.
func (w *Worker) cancelJobs(c CancelJobs) {
	w.unstash(c.Dataflow, func(r RunJobs) bool { return c.Command == 0 || c.Command == r.Command })
	in := w.installed[c.Dataflow]
	if in == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for command, cancel := range in.cancels {
		if c.Command == 0 || c.Command == command {
			cancel()
		}
	}
}

// answerUnbegun answers a command of which nothing was begun.
func (w *Worker) answerUnbegun(c RunJobs) {
	done := JobsDone{Command: c.Command, Dataflow: c.Dataflow}
	done.leave(c.Jobs)
	w.respond(done)
}

// unstash answers those commands that wait for a dataflow and will not run.
func (w *Worker) unstash(id uint64, which func(RunJobs) bool) {
	var rest []RunJobs
	for _, c := range w.forget(id) {
		if !which(c) {
			rest = append(rest, c)
			continue
		}
		w.discarded++
		w.answerUnbegun(c)
	}
	if len(rest) > 0 {
		w.stash[id] = rest
		w.stashSize += len(rest)
	}
}

// unstashAll is unstash of all commands for a dataflow that will not be scheduled.
func (w *Worker) unstashAll(id uint64) { w.unstash(id, func(RunJobs) bool { return true }) }

// forget takes out what waits for a dataflow.
func (w *Worker) forget(id uint64) []RunJobs {
	waiting := w.stash[id]
	w.stashSize -= len(waiting)
	delete(w.stash, id)
	return waiting
}

// peek reads a job's values, beside the loop: they may be many.
func (w *Worker) peek(c Peek) {
	if w.fence.Load() != nil {
		return // nobody hears of it any more
	}
	ctx, cancel := context.WithCancel(w.ctx)
	w.peeks[c.ID] = cancel
	session := w.session.name
	w.aside.Go(func() {
		values, err := w.read(ctx, c.Dataflow, c.At)
		w.inbox.put(peeked{PeekResponse{Session: session, ID: c.ID, Values: values, Err: err}})
	})
}

// peeked is a question that is answered.
type peeked struct{ answer PeekResponse }

func (peeked) command() {}

func (w *Worker) read(ctx context.Context, id uint64, at coord.Coord) (values []value.Value, err error) {
	err = w.cfg.Store.View(func(r *storage.Reader) error {
		return r.Values(id, at, 0, math.MaxUint32, func(_ uint32, v value.Value) error {
			values = append(values, v)
			return context.Cause(ctx)
		})
	})
	return values, err
}

// answerPeek hands on an answer, once, if somebody still waits for it.
func (w *Worker) answerPeek(p PeekResponse) {
	cancel, waits := w.peeks[p.ID]
	if !waits || p.Session != w.session.name {
		return
	}
	cancel()
	delete(w.peeks, p.ID)
	w.respond(p)
}

func (w *Worker) cancelPeek(id string) {
	if _, waits := w.peeks[id]; waits {
		w.answerPeek(PeekResponse{Session: w.session.name, ID: id, Cancelled: true})
	}
}

// dropPeeks forgets the questions of a session that is over.
func (w *Worker) dropPeeks() {
	for id, cancel := range w.peeks {
		cancel()
		delete(w.peeks, id)
	}
}
