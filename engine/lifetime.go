package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"operon/engine/frontier"
	"operon/engine/ticket"
	"operon/engine/worker"
	"operon/meta"
	"operon/spec/coord"
	"operon/storage"
)

// lifetime is where a dataflow is on its way from its installation to its end:
// installed, scheduled, frozen, over. None of these is ever undone.
type lifetime struct {
	installed bool
	scheduled bool
	frozen    bool // it was dropped or is done: no worker begins anything of it
	over      bool // no worker can schedule it any more; what it shared is gone
	outcome   frontier.Outcome
	since     time.Time           // when it was frozen
	gone      bool                // it is no task's any more
	deaths    map[coord.Coord]int // of workers, by the job that they could not go on at
}

// completed reports whether the dataflow is over and did all of its share: only
// then may others take it for done.
func (t *lifetime) completed() bool { return t.over && t.outcome == frontier.Completed }

// state is the dataflow's state as a person is told it.
func (f *flow) state(c ticket.Counts) DataflowState {
	switch {
	case f.frozen && !f.over:
		return DataflowFrozen
	case f.over && f.outcome != frontier.Completed:
		return DataflowDropped
	}
	return dataflowState(c, f.jobs)
}

// lastState is the state that is noted when the run ends. What a worker still
// pinned is no more once the workers are gone.
func (f *flow) lastState(c ticket.Counts) DataflowState {
	if f.cut() {
		return DataflowDropped
	}
	return dataflowState(c, 0)
}

// hear takes in what a worker says.
func (l *loop) hear(r worker.Response) {
	h := l.crew.from(r)
	switch a := r.Body.(type) {
	case worker.JobsDone:
		l.apply(a)
	case worker.Rested:
		if f := l.resting[a.Dataflow]; f != nil && h != nil {
			l.rested(f, h)
		}
	case worker.Frontiers:
		if h != nil {
			l.learn(h, a)
		}
	case worker.Status:
		if a.Refused != nil {
			l.fault(fmt.Errorf("this is a bug: worker %d refused a command: %w", r.Worker, a.Refused))
		}
	case worker.Died:
		if h != nil {
			l.bury(h, a)
		}
	}
}

// learn takes in what a worker may still schedule, and lets go of what nobody may
// any more: consumers before what they consume.
func (l *loop) learn(h *hand, a worker.Frontiers) {
	if err := l.crew.learn(h, a); err != nil {
		l.fault(fmt.Errorf("this is a bug: %w", err))
		return
	}
	if a.Reason != nil {
		l.fault(a.Reason)
	}
	l.letGo()
}

func (l *loop) letGo() {
	var flows []*flow
	for _, id := range l.crew.view.Released() {
		l.crew.history.Over(id)
		if f := l.frozen[id]; f != nil {
			flows = append(flows, f)
		}
	}
	slices.SortFunc(flows, func(a, b *flow) int { return b.rank - a.rank })
	for _, f := range flows {
		l.end(f)
	}
}

// schedule lets a dataflow's jobs run, once all that its task had before is over,
// and the logs of that are gone: no two writers, ever.
func (l *loop) schedule(f *flow) {
	if !f.installed || f.scheduled || f.frozen || !f.wanted || l.leaving[f.task.Name] > 0 {
		return
	}
	f.scheduled = true
	l.crew.broadcast(worker.Schedule{ID: f.id})
}

// conclude freezes a dataflow that is done. It is so if all its jobs are and
// everything it takes is over and completed: an upstream that was dropped, or
// that some worker may still run, says nothing about what it would have made.
func (l *loop) conclude(f *flow) {
	if !f.installed || f.frozen || f.running > 0 || !l.table.Counts(f.task.Index).Complete() {
		return
	}
	for _, up := range f.task.Upstream() {
		if !l.flows[up.Index].completed() {
			return
		}
	}
	l.freeze(f, frontier.Completed)
}

// freeze drops a dataflow: every worker ends what it runs of it, if anything,
// frees what it has for it alone, and says so.
func (l *loop) freeze(f *flow, o frontier.Outcome) {
	f.frozen, f.since, f.outcome, f.changed = true, time.Now(), o, true
	f.empty()
	if n := slices.Index(l.active, f); n >= 0 {
		l.active = slices.Delete(l.active, n, n+1)
	}
	l.timers.forget(f)
	l.holed = slices.DeleteFunc(l.holed, func(r ticket.Range) bool { return r.Task == f.task.Index })
	l.frozen[f.id] = f
	l.crew.broadcast(worker.AllowCompaction{ID: f.id, Outcome: o})
}

// end frees what workers shared of a dataflow that none can schedule any more.
// It comes once for each.
func (l *loop) end(f *flow) {
	delete(l.frozen, f.id)
	f.over, f.changed = true, true
	f.outcome, _ = l.crew.view.Outcome(f.id)
	l.crew.view.Forget(f.id)
	l.caches.Drop(f.id)
	if f.df.Memo != nil {
		f.df.Memo.Drop()
	}
	f.attempts, f.parked, f.deaths = nil, nil, nil
	if f.gone {
		l.retire(f)
		for _, up := range l.flows {
			if slices.Contains(f.df.Producers, up.id) {
				l.release(up.task) // perhaps it was the last to read them
			}
		}
		return
	}
	if f.outcome == frontier.Completed {
		l.release(f.task)
		for _, c := range l.takers[f.task.Index] {
			l.conclude(l.flows[c.Index])
		}
	}
}

// unanswered are the jobs that nobody will answer any more, as never begun.
func (o *order) unanswered() (out []worker.Result) {
	for _, job := range o.jobs {
		out = append(out, worker.Result{Job: job})
	}
	return out
}

// errDropped is what Drop says of tasks that are done.
var errDropped = errors.New("its jobs are all done")

// drop ends the dataflows of tasks, and of all that hangs on them: what is cut
// short must never look like what has ended.
func (l *loop) drop(names []string) error {
	cut := make([]bool, len(l.flows))
	for _, name := range names {
		t := l.p.Task(name)
		if t == nil {
			return unknownTask(l.p, name)
		}
		if l.table.Counts(t.Index).Complete() {
			return fmt.Errorf("drop task %s: %w", name, errDropped)
		}
		cut[t.Index] = true
	}
	for _, t := range l.p.Topo {
		for _, up := range t.Upstream() {
			cut[t.Index] = cut[t.Index] || cut[up.Index]
		}
	}
	var ids []uint64
	for n, f := range l.flows {
		if cut[n] && !f.frozen && !f.over && !l.table.Counts(n).Complete() {
			l.freeze(f, frontier.Dropped)
			l.meta.PutDataflow(f.noted(DataflowDropped))
			ids = append(ids, f.id)
		}
	}
	// Nobody runs them again under their ids, whatever becomes of us.
	a := decodeAsked(l.pl.foot.Asked)
	a.Dropped = append(a.Dropped, ids...)
	l.pl.foot.Asked = a.encode()
	footprints(l.pl.foot, l.data, l.meta)
	return nil
}

// retire lets go of a dataflow that is no task's any more: its tickets, and, once
// it is certain that it is retired, its logs. Its records and values stay as memo,
// if it has any.
func (l *loop) retire(f *flow) {
	l.meta.DropDataflow(f.id)
	l.dropEmpty(f.id)
	l.commit(true)
	l.whenDurable(func() { l.left(f.task.Name) })
}

// dropEmpty drops those of retired dataflows of which nothing has ended: they are
// no memo, and every later run would meet them.
func (l *loop) dropEmpty(ids ...uint64) {
	_ = l.commits.data.View(func(r *storage.Reader) error { // what can't be read is told where it matters
		for _, id := range ids {
			if r.Empty(id) {
				l.data.DropInstance(id)
			}
		}
		return nil
	})
}

// left takes in that a dataflow that was a task's is over, and that this is
// durable. With the last one the logs go, and what the task has now may run.
func (l *loop) left(task string) {
	if l.leaving[task]--; l.leaving[task] > 0 {
		return
	}
	delete(l.leaving, task)
	l.pruneLogs(task)
	if t := l.p.Task(task); t != nil {
		l.schedule(l.flows[t.Index])
	}
}

// cut reports whether the dataflow was ended before it was done.
func (f *flow) cut() bool { return (f.frozen || f.over) && f.outcome != frontier.Completed }

// noted is the dataflow as the metadata has it.
func (f *flow) noted(state DataflowState) meta.Dataflow {
	return meta.Dataflow{ID: f.id, Task: f.task.Name, Fingerprint: f.task.Fingerprint, Dims: f.task.ContextNames(), Spawn: spawnName(f.task), State: string(state)}
}

// header is the dataflow as the data has it.
func (f *flow) header(created time.Time) storage.Header {
	return storage.Header{
		ID: f.id, Task: f.task.Name, Entity: f.task.Out.Name, Fingerprint: f.task.Fingerprint,
		Dims: f.task.ContextNames(), Spawn: spawnName(f.task), State: storage.Current, Created: created,
	}
}
