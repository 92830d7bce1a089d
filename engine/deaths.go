package engine

import (
	"fmt"
	"time"

	"operon/engine/body"
	"operon/engine/worker"
	"operon/spec/coord"
)

// bury goes on without a worker that died: its dataflows pass to one that takes
// its place, and what it was at is run again.
func (l *loop) bury(h *hand, died worker.Died) {
	why := died.Err
	l.log.Warn("a worker died", "worker", h.config.Index, "why", why)
	l.crew.deaths++
	for _, f := range l.resting {
		l.rested(f, h)
	}
	orders := l.crew.of(h)
	for _, o := range orders {
		l.lost(o, why, o.cmd.Command == died.Command)
	}
	switch {
	case l.halted():
		h.dead = true // nothing more is to start
	case l.crew.deaths > maxDeaths:
		l.fault(fmt.Errorf("%d workers died, one after another: %w", l.crew.deaths, why))
	default:
		if err := l.crew.replace(h); err != nil {
			l.fault(&MachineError{Doing: "start a worker in the place of one that died", Err: err})
			return
		}
		l.letGo()
	}
}

// maxWitnessed is how many workers may die at one job.
const maxWitnessed = 3

// lost puts the jobs of a command back that nobody will answer any more. One that
// is to blame counts the death against its jobs: those run alone from then on, and
// where that is not the last of it, fail.
func (l *loop) lost(o *order, why error, blame bool) {
	f := o.flow
	done := worker.JobsDone{Command: o.cmd.Command, Dataflow: f.id, Results: o.unanswered()}
	l.vacate(o, &done)
	if f.frozen {
		return
	}
	if f.df.Memo != nil {
		f.df.Memo.Abandon(o.cmd.Command)
		for key := range f.parked {
			if !f.df.Memo.Claimed(key) {
				l.unpark(f, key)
			}
		}
	}
	for i := range done.Results {
		r := &done.Results[i]
		if !blame {
			l.putBack(f, r.Job)
			continue
		}
		if f.deaths == nil {
			f.deaths = map[coord.Coord]int{}
		}
		if f.deaths[r.Job.Coord]++; f.deaths[r.Job.Coord] < maxWitnessed {
			l.putBack(f, r.Job)
			continue
		}
		now := time.Now()
		r.Failure = &body.Failure{Kind: body.KindInternal, Message: fmt.Sprintf("%d workers died while it ran, the last one of: %v", maxWitnessed, why), Err: why, Usage: body.Usage{Start: now}}
		l.gaveUp(f, r)
	}
}

// has notes which jobs of a command are answered while it goes on. A job may come
// back to it later.
func (o *order) has(results []worker.Result) {
	answered := make(map[coord.Coord]struct{}, len(results))
	for i := range results {
		answered[results[i].Job.Coord] = struct{}{}
		if results[i].Failure != nil {
			o.failures++
		}
	}
	left := make([]worker.Job, 0, len(o.jobs)) // the worker has the other
	for _, job := range o.jobs {
		if _, gone := answered[job.Coord]; !gone {
			left = append(left, job)
		}
	}
	o.jobs = left
}
