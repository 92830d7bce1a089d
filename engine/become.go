package engine

import (
	"operon/engine/frontier"
	"operon/engine/worker"
	"operon/storage"
)

// become makes the engine that of another version of its pipeline.
func (e *Engine) become(next *Engine) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.p, e.o, e.bodies = next.p, next.o, next.bodies
}

// become carries out a change of what is wanted: first what is dropped, then what
// is kept and what is new, in one session for all workers.
func (l *loop) become(t *turn, next *Engine) *Reconciled {
	was := l.flows
	kept := map[*flow]bool{}
	for _, f := range t.kept {
		kept[f] = true
	}
	var gone []string // of these tasks a dataflow is over with the commit
	for _, f := range was {
		if !kept[f] && l.dismiss(f) {
			gone = append(gone, f.task.Name)
		}
	}
	l.p, l.pl, l.table, l.labels, l.only = next.p, t.plan, t.restored.table, t.labels, t.only
	l.takers, l.transient = consumers(next.p), newTransients(next.p)
	l.succeed(t.saver)
	l.limitMemory()
	l.keepGoing, l.maxFailures = next.o.KeepGoing || next.o.MaxFailures > 0, next.o.MaxFailures
	l.failures, l.failing, l.holed = failures{}, false, nil
	pools := l.remapPools()
	busy := l.busyJobs()
	l.flows = nil
	wanted := next.wanted()
	for n, task := range next.p.Tasks {
		f := t.kept[n]
		if f == nil {
			f = &flow{id: t.plan.ids[n], said: DataflowWaiting}
		}
		f.configure(next.p, task, t.flows[n])
		f.wanted, f.paused = wanted[n], l.isPaused(task.Name)
		if size, set := l.sizes[task.Name]; set {
			f.pool = size
		}
		l.flows = append(l.flows, f)
	}
	l.rank()
	l.room.pools = pools
	l.requeue(t.restored.runnable, busy)
	rec := l.install(t)
	footprints(t.plan.foot, l.data, l.meta)
	for n, d := range t.plan.decisions {
		l.writeDown(l.flows[n], d, t.restored)
	}
	l.commit(true)
	for _, task := range gone {
		l.whenDurable(func() { l.left(task) })
	}
	return rec
}

// dismiss ends a dataflow that no task has any more, and reports whether it is
// over already. What has ended of it stays as memo.
func (l *loop) dismiss(f *flow) (over bool) {
	l.leaving[f.task.Name]++
	l.data.SetState(f.id, storage.Retired)
	l.meta.PutDataflow(f.noted(DataflowFrozen))
	switch {
	case f.frozen && !f.over:
		f.gone = true
	case f.over || !f.installed:
		l.meta.DropDataflow(f.id) // no worker has it
		l.dropEmpty(f.id)
		return true
	default:
		f.gone = true
		l.freeze(f, frontier.Dropped)
	}
	return false
}

// install tells the workers what is wanted now.
func (l *loop) install(t *turn) *Reconciled {
	rec := &Reconciled{Run: l.runID}
	var flows []*worker.Dataflow
	for n, d := range t.plan.decisions {
		f := l.flows[n]
		out := Decision{Task: f.task.Name, Action: string(d.Action), Rule: string(d.Rule), Reason: d.Reason, Old: d.Old, New: f.id}
		switch d.Action {
		case actionKeep:
			rec.Kept++
			if f.installed && !f.frozen {
				flows = append(flows, f.df)
			}
		default:
			out.Reason = rootCause(f.task, t.plan.decisions)
			f.installed = true
			if d.Action == actionReplace {
				rec.Replaced++
			} else {
				rec.Created++
			}
			flows = append(flows, f.df)
		}
		rec.Tasks = append(rec.Tasks, out)
	}
	for _, o := range t.plan.orphans {
		rec.Dropped++
		rec.Tasks = append(rec.Tasks, Decision{Task: o.Task, Action: "drop", Reason: "the pipeline has it no more", Old: o.ID})
	}
	l.tally.add(t.plan.decisions, len(t.plan.orphans))
	l.log.Info("told what is wanted anew", "kept", rec.Kept, "replaced", rec.Replaced, "created", rec.Created, "dropped", rec.Dropped)
	for _, d := range rec.Tasks {
		if d.Action != string(actionKeep) {
			l.log.Info("task "+d.Action, "task", d.Task, "why", d.Reason)
		}
	}
	l.crew.greet(flows)
	for _, f := range l.flows {
		l.schedule(f)
		l.conclude(f)
	}
	return rec
}
