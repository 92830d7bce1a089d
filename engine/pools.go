package engine

import (
	"context"
	"fmt"

	"operon/engine/worker"
	"operon/spec"
)

// newPools are the pipeline's pools, empty.
func newPools(p *spec.Pipeline) []pool {
	var out []pool
	for _, s := range p.Pools {
		out = append(out, pool{name: s.Name, size: s.Size, starts: newBucket(s.Rate.N, s.Rate.Per)})
	}
	return out
}

// sharedPool is which of the pipeline's pools the task is in, or noPool.
func sharedPool(p *spec.Pipeline, t *spec.TaskSpec) int {
	for n, s := range p.Pools {
		if s == t.SharedPool {
			return n
		}
	}
	return noPool
}

// occupy takes what a command of these jobs needs: the GPUs of pin, if there is
// one; kept are those that it must not have.
func (l *loop) occupy(f *flow, jobs []worker.Job, pin *pinned, kept []string) *order {
	o := &order{flow: f, df: f.df, shared: f.shared, needs: f.needs}
	l.running++
	l.room.free--
	f.running++
	if f.shared != noPool {
		l.room.pools[f.shared].running++
	}
	l.begin(o, len(jobs))
	l.room.left = l.room.left.minus(f.needs)
	if pin != nil {
		o.gpus = pin.gpus
	}
	l.handOut(o, jobs, kept)
	f.keep(o)
	return o
}

// begin counts jobs of a command that are to begin.
func (l *loop) begin(o *order, jobs int) {
	f := o.flow
	f.jobs += int64(jobs)
	f.changed = true
	if o.shared != noPool {
		if p := &l.room.pools[o.shared]; p.starts != nil {
			p.starts.take(jobs)
		}
	}
}

// vacate gives back what a command had, once it has ended.
func (l *loop) vacate(o *order, done *worker.JobsDone) {
	f := o.flow
	f.jobs -= int64(len(done.Results))
	f.changed = true
	if done.More {
		return
	}
	if o.shared != noPool {
		l.room.pools[o.shared].running--
	}
	l.crew.ended(o)
	l.running--
	l.room.free++
	f.running--
	l.room.left = l.room.left.plus(o.needs)
	l.gpus = append(l.gpus, o.gpus...)
}

// giveBack gives back the starts of jobs that did not call their body.
func (l *loop) giveBack(o *order, done *worker.JobsDone) {
	if o.shared == noPool {
		return
	}
	if starts := l.room.pools[o.shared].starts; starts != nil {
		starts.giveBack(notStarted(done))
	}
}

func notStarted(done *worker.JobsDone) (n int) {
	for i := range done.Results {
		if r := &done.Results[i]; r.NotRun() || r.Waits || r.Reused {
			n++
		}
	}
	return n
}

// CheckPoolSize refuses a size that a pool can't have.
func CheckPoolSize(size int) error {
	if size < 1 {
		return fmt.Errorf("a pool of %d: it needs at least 1; pause a task to start no more jobs of it", size)
	}
	return nil
}

// SetPool changes how many jobs of a shared pool, or of a task, run at once.
// Those that run go on. It holds until the engine ends. A name that is neither
// is an *UnknownError; a size must be at least 1.
func (e *Engine) SetPool(ctx context.Context, name string, size int) error {
	if err := CheckPoolSize(size); err != nil {
		return err
	}
	v, err := e.ask(ctx, func(l *loop) any { return l.setPool(name, size) })
	if err != nil || v == nil {
		return err
	}
	return v.(error)
}

func (l *loop) setPool(name string, size int) error {
	var known []string
	for n := range l.room.pools {
		if l.room.pools[n].name == name {
			l.room.pools[n].size, l.sizes[name] = size, size
			return nil
		}
		known = append(known, l.room.pools[n].name)
	}
	for _, f := range l.flows {
		if f.task.Name == name {
			f.pool, l.sizes[name] = size, size
			return nil
		}
		known = append(known, f.task.Name)
	}
	return &UnknownError{What: "pool or task", Name: name, Nearest: spec.Nearest(name, known), Known: known}
}
