package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"operon/engine/body"
	"operon/engine/frontier"
)

// installed is a dataflow as one worker has it.
type installed struct {
	id        uint64
	now       *configured
	scheduled bool
	frozen    bool // the loop alone sets it, under mu
	ending    bool // no command is under way any more; it is retracted once its processes have ended
	closing   int  // bodies whose processes are being ended
	rests     int  // Rests to be answered once they have
	outcome   frontier.Outcome
	ctx       context.Context // of its jobs
	cancel    context.CancelFunc
	active    int // commands that were not answered to their end; under mu
	cancels   map[uint64]context.CancelFunc
	intakes   map[uint64]*intake // of open commands; under mu
}

// configured is one configuration of it: jobs end under the one they began with.
type configured struct {
	df *Dataflow
	*served
}

// served is a body with the processes that it keeps, which may serve one
// configuration after another.
type served struct {
	runner   body.Runner // this worker's own
	of       *installed
	active   int  // commands under way, of all configurations; under mu
	replaced bool // by another body; under mu
}

// What the loop hears of its own, in the order of everything else.
type (
	drained struct{ of *installed } // frozen, and no command is under way
	closed  struct{ of *installed } // the processes of one body have ended
	unused  struct{ body *served }  // replaced, and no command is under way
)

func (drained) command() {}
func (closed) command()  {}
func (unused) command()  {}

// install takes a dataflow in. It speaks of the id before it builds anything.
func (w *Worker) install(d *Dataflow) {
	_, held := w.holds[d.ID]
	switch {
	case w.installed[d.ID] != nil:
		w.refuse("CreateDataflow of %d, which is installed", d.ID)
		return
	case held:
		delete(w.holds, d.ID)
	case d.ID < w.next:
		w.refuse("CreateDataflow of %d, and ids below %d have been passed: none is used again", d.ID, w.next)
		return
	default:
		w.pass(d.ID)
		if _, dropped := w.condemned[d.ID]; dropped {
			w.pass(d.ID + 1)
			return
		}
		w.unsaid.Merge(frontier.InstallAs(d.ID, d.Task.Fingerprint.String()))
		w.next = d.ID + 1
	}
	in := &installed{id: d.ID, cancels: map[uint64]context.CancelFunc{}, intakes: map[uint64]*intake{}}
	in.ctx, in.cancel = context.WithCancel(w.ctx)
	w.installed[d.ID] = in
	w.fault(PointInstall)
	if err := w.build(in, d); err != nil {
		w.reason = errors.Join(w.reason, fmt.Errorf("install dataflow %d of task %s: %w", d.ID, d.Task.Name, err))
		w.freeze(in, frontier.Failed)
	}
}

// pass goes by all ids below next: what is known to be dropped as such, the rest
// as not placed here.
func (w *Worker) pass(next uint64) {
	for _, id := range slices.Sorted(maps.Keys(w.condemned)) {
		if id >= next {
			break
		}
		w.skip(id)
		w.unsaid.Merge(frontier.Install(id))
		w.unsaid.Merge(frontier.Retract(id, frontier.Dropped))
		w.next = id + 1
		delete(w.condemned, id)
	}
	w.skip(next)
	for id := range w.stash {
		if id < w.next && w.installed[id] == nil {
			if _, held := w.holds[id]; !held {
				w.unstashAll(id)
			}
		}
	}
}

func (w *Worker) skip(next uint64) {
	if w.next < next {
		w.unsaid.Update(frontier.Future(w.next), -1)
		w.unsaid.Update(frontier.Future(next), 1)
		w.next = next
	}
}

// build makes what the dataflow's jobs need here.
func (w *Worker) build(in *installed, d *Dataflow) error {
	if d.Runner == nil {
		return errors.New("it has no body")
	}
	d.compile()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runners == nil {
		return errors.New("the worker has ended")
	}
	s := &served{runner: d.Runner, of: in}
	if shared, ok := d.Runner.(body.Sharer); ok {
		s.runner = shared.Share()
	}
	in.now = &configured{d, s}
	w.runners[s] = struct{}{}
	return nil
}

// reconfigure lets the jobs to come run under another configuration.
func (w *Worker) reconfigure(d *Dataflow) {
	in := w.installed[d.ID]
	switch {
	case in == nil || in.frozen:
		w.refuse("a configuration of dataflow %d, which is not running here", d.ID)
		return
	case in.now.df == d:
		return
	case in.now.df.Task.Fingerprint != d.Task.Fingerprint:
		w.refuse("a configuration of dataflow %d with the fingerprint %v, and it was installed with %v", d.ID, d.Task.Fingerprint, in.now.df.Task.Fingerprint)
		return
	}
	old := in.now
	if sameBody(old.df.Runner, d.Runner) {
		d.compile()
		in.now = &configured{d, old.served} // its processes go on
		return
	}
	if err := w.build(in, d); err != nil {
		w.refuse("configure dataflow %d: %w", d.ID, err)
		return
	}
	w.mu.Lock()
	old.replaced = true
	idle := old.active == 0
	w.mu.Unlock()
	if idle {
		w.endProcesses(old.served)
	}
}

// sameBody reports whether two configurations are run by the very same body.
func sameBody(a, b body.Runner) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// schedule lets a dataflow's jobs run.
func (w *Worker) schedule(id uint64) {
	in := w.installed[id]
	if in == nil || in.frozen || in.scheduled {
		return // it was dropped in the meantime, or it runs
	}
	in.scheduled = true
	for _, c := range w.forget(id) {
		w.enqueue(in, c)
	}
}

// allowCompaction freezes a dataflow; one to come will be passed. It is total: of
// every id exactly one of pass, end and freeze comes true, once.
func (w *Worker) allowCompaction(c AllowCompaction) {
	in := w.installed[c.ID]
	_, held := w.holds[c.ID]
	switch {
	case in != nil:
		w.freeze(in, c.Outcome)
	case held:
		w.giveUp(c.ID, c.Outcome)
	case c.ID >= w.next:
		w.condemned[c.ID] = struct{}{}
		w.unstashAll(c.ID)
	}
}

// giveUp retracts a dataflow that was to be gone on with, and is not installed.
func (w *Worker) giveUp(id uint64, o frontier.Outcome) {
	delete(w.holds, id)
	w.unsaid.Merge(frontier.Retract(id, o))
	w.unstashAll(id)
}

// freeze closes a dataflow's door: nothing of it begins any more, and unless it
// is completed, what runs is ended.
func (w *Worker) freeze(in *installed, o frontier.Outcome) {
	if in.frozen {
		return
	}
	w.mu.Lock()
	in.frozen, in.outcome = true, o
	w.mu.Unlock()
	if o != frontier.Completed {
		in.cancel()
	}
	w.unstashAll(in.id)
	var rest []*task
	for _, t := range w.backlog {
		if t.conf.of != in {
			rest = append(rest, t)
			continue
		}
		w.answerUnbegun(t.cmd)
		w.done(t)
	}
	w.backlog = rest
	w.mu.Lock()
	idle := in.active == 0
	w.mu.Unlock()
	if idle {
		w.closeDown(in)
	}
}

// closeDown ends a frozen dataflow's processes, which may take their grace, and
// then retracts it, once the last command was answered.
func (w *Worker) closeDown(in *installed) {
	if in.ending {
		return
	}
	in.ending = true
	for _, s := range w.bodiesOf(in) {
		w.endProcesses(s)
	}
	w.retractClosed(in)
}

// bodiesOf are a dataflow's bodies that may keep processes.
func (w *Worker) bodiesOf(in *installed) (out []*served) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.runners {
		if s.of == in {
			out = append(out, s)
		}
	}
	return out
}

// retractClosed retracts a dataflow that ends, unless processes of it are left.
func (w *Worker) retractClosed(in *installed) {
	if in.ending && in.closing == 0 {
		w.retract(in)
	}
}

// retract says that the dataflow will never run here again.
func (w *Worker) retract(in *installed) {
	if w.installed[in.id] != in {
		return // it has said so
	}
	w.fault(PointRetract)
	for ; in.rests > 0; in.rests-- {
		w.respond(Rested{in.id})
	}
	in.cancel()
	delete(w.installed, in.id)
	w.unsaid.Merge(frontier.Retract(in.id, in.outcome))
}

// endProcesses ends those of a body that runs nothing any more. If the
// worker is coming to its end, they end with it.
func (w *Worker) endProcesses(c *served) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, kept := w.runners[c]; !kept {
		return
	}
	delete(w.runners, c)
	if b, ok := c.runner.(body.BatchRunner); ok {
		c.of.closing++
		w.closing.Go(func() {
			b.Close(w.ctx)
			w.inbox.put(closed{c.of})
		})
	}
}

// rest ends the processes that a dataflow keeps here.
func (w *Worker) rest(id uint64) {
	in := w.installed[id]
	if in != nil && in.frozen {
		in.rests++ // they are on their way out
		return
	}
	if in != nil && w.closeBeside(in.now.served, func() { w.respond(Rested{id}) }) {
		return
	}
	w.respond(Rested{id}) // it has none
}

// closeBeside ends the processes of a body while the loop goes on, and then does
// something; it is false if there are none, or they end with the worker.
func (w *Worker) closeBeside(s *served, then func()) bool {
	b, stays := s.runner.(body.BatchRunner)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !stays || w.runners == nil {
		return false
	}
	w.closing.Go(func() {
		b.Close(w.ctx)
		then()
	})
	return true
}

// closeRunners ends the processes of all dataflows, and waits for all that are
// being ended.
func (w *Worker) closeRunners() {
	w.mu.Lock()
	for c := range w.runners {
		if b, ok := c.runner.(body.BatchRunner); ok {
			w.closing.Go(func() { b.Close(w.ctx) })
		}
	}
	w.runners = nil
	w.mu.Unlock()
	w.closing.Wait()
}
