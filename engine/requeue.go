package engine

import (
	"slices"

	"operon/engine/ticket"
	"operon/engine/worker"
	"operon/spec/coord"
)

// busyJobs are the jobs that the loop knows one by one: those under way, those
// that wait for their next attempt, until somebody asks for it, or for another job
// with their key.
func (l *loop) busyJobs() map[*flow]map[coord.Coord]struct{} {
	out := map[*flow]map[coord.Coord]struct{}{}
	add := func(f *flow, c coord.Coord) {
		if out[f] == nil {
			out[f] = map[coord.Coord]struct{}{}
		}
		out[f][c] = struct{}{}
	}
	for _, o := range l.crew.orders {
		for _, job := range o.jobs {
			add(o.flow, job.Coord)
		}
	}
	for _, d := range l.timers {
		add(d.flow, d.job.Coord)
	}
	for _, f := range l.flows {
		for _, job := range append(f.pinnedJobs(), f.again...) {
			add(f, job.Coord)
		}
		for _, d := range f.unasked {
			add(f, d.job.Coord)
		}
		for _, jobs := range f.parked {
			for _, job := range jobs {
				add(f, job.Coord)
			}
		}
	}
	return out
}

// requeue makes ready again what may run, but for jobs that are busy.
func (l *loop) requeue(runnable []ticket.Range, busy map[*flow]map[coord.Coord]struct{}) {
	l.active = nil
	again := make([][]worker.Job, len(l.flows))
	pins := make([][]*pinned, len(l.flows))
	attempts := l.timers
	l.timers = nil
	for n, f := range l.flows {
		f.queue, f.skipped, f.retrying = newQueue(f.task), 0, 0
		attempts = append(attempts, f.unasked...)
		f.unasked = nil
		if len(f.pins) > 0 && len(f.pins[0].gpus) != f.needs.gpus {
			f.again, f.pins = append(f.again, f.pinnedJobs()...), nil // it takes another number now
		}
		again[n], f.again = f.again, nil
		pins[n], f.pins = f.pins, nil
	}
	for _, r := range runnable {
		f := l.flows[r.Task]
		if len(busy[f]) == 0 {
			l.push([]ticket.Range{r})
			continue
		}
		for i := r.Lo; i < r.Hi; i++ {
			if _, under := busy[f][ticket.At(len(f.task.Context), r.Prefix, i)]; !under {
				l.push([]ticket.Range{{Task: r.Task, Prefix: r.Prefix, Lo: i, Hi: i + 1, Hole: r.Hole}})
			}
		}
	}
	for n, jobs := range again {
		for _, job := range jobs {
			l.putBack(l.flows[n], job)
		}
		if kept := l.selectedPins(l.flows[n], pins[n]); len(kept) > 0 {
			l.activate(l.flows[n])
			l.flows[n].pins = kept
		}
	}
	for _, d := range attempts {
		if d.at.IsZero() {
			l.putBack(d.flow, d.job)
			continue
		}
		l.later(d)
	}
}

// selectedPins are the retries that wait for their GPUs, without those that the run
// is not asked for any more.
func (l *loop) selectedPins(f *flow, pins []*pinned) (out []*pinned) {
	for _, p := range pins {
		var jobs []pin
		for _, w := range p.jobs {
			if l.selected(f.task, w.job.Coord) {
				jobs = append(jobs, w)
				continue
			}
			f.setAside(due{flow: f, job: w.job})
		}
		if p.jobs = jobs; len(jobs) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// remapPools makes the pools of the new version, with what runs in them. Of one
// whose rate is as before the starts count on.
func (l *loop) remapPools() []pool {
	out := newPools(l.p)
	for _, o := range l.crew.orders {
		if o.shared == noPool {
			continue
		}
		name := l.room.pools[o.shared].name
		o.shared = slices.IndexFunc(out, func(p pool) bool { return p.name == name })
		if o.shared != noPool {
			out[o.shared].running++
		}
	}
	for n := range out {
		if size, set := l.sizes[out[n].name]; set {
			out[n].size = size
		}
		for _, old := range l.room.pools {
			if old.name == out[n].name && old.starts.same(out[n].starts) {
				out[n].starts = old.starts
			}
		}
	}
	return out
}
