package engine

import (
	"context"
	"errors"
	"slices"

	"operon/spec"
)

// ErrNotRunning is what a request meets when the loop has ended, or has not
// begun.
var ErrNotRunning = errors.New("the engine is not running")

// request is something that somebody outside asks of the loop. It is an event
// like any other: act runs on the loop, and what it returns is handed back once
// everything that the loop did before is durable.
type request struct {
	act   func(*loop) any
	reply chan any // has room for one
}

// answer is a reply that waits for a commit.
type answer struct {
	request
	value any
	batch uint64
}

// ask sends a request to the loop and waits for the answer.
func (e *Engine) ask(ctx context.Context, act func(*loop) any) (any, error) {
	r := request{act: act, reply: make(chan any, 1)}
	select {
	case e.requests <- r:
	case <-e.ended:
		return nil, ErrNotRunning
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case v := <-r.reply:
		return v, nil
	case <-e.ended:
		// The loop answers whom it can before it ends.
		select {
		case v := <-r.reply:
			return v, nil
		default:
			return nil, ErrNotRunning
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// begun waits until the loop runs: before that the stores may be made anew.
func (e *Engine) begun(ctx context.Context) error {
	_, err := e.ask(ctx, func(*loop) any { return nil })
	return err
}

// unwritten is why what was answered did not become durable, nil if it did.
func (e *Engine) unwritten() error {
	if err := errors.Join(e.stores.data.Failed(), e.stores.meta.Failed()); err != nil {
		return &MachineError{Doing: "write the state", Err: err}
	}
	return nil
}

// request runs what was asked for, and keeps the answer until it may be said.
func (l *loop) request(r request) {
	v := r.act(l)
	l.commit(true)
	l.answers = append(l.answers, answer{r, v, l.commits.submitted})
}

// answer hands back what has become durable, or what never will.
func (l *loop) answer() {
	_, durable, err := l.commits.state()
	l.answers = slices.DeleteFunc(l.answers, func(a answer) bool {
		if a.batch > durable && err == nil {
			return false
		}
		a.reply <- a.value
		return true
	})
}

// status is where the run stands.
func (l *loop) status() *Status {
	s := &Status{Pipeline: l.p.Name, Run: l.runID, State: l.state(), Params: givenParams(l.p)}
	var blocked []int64
	for n, f := range l.flows {
		c := l.table.Counts(n)
		if c.Failed > 0 && blocked == nil {
			blocked = l.table.Blocked()
		}
		s.Tasks = append(s.Tasks, f.status(c))
	}
	for n, b := range blocked {
		s.Tasks[n].Blocked = b
		s.Tasks[n].Waiting -= b
	}
	l.crew.status(s, l.frozen)
	return s
}

func (l *loop) state() RunState {
	if l.running == 0 && slices.ContainsFunc(l.flows, func(f *flow) bool { return f.paused }) {
		return StatePaused
	}
	return StateRunning
}

// pause holds or releases tasks: the named ones, or all.
func (l *loop) pause(names []string, cascade, held bool) error {
	if len(names) == 0 {
		clear(l.paused)
		l.allPaused = held
		for _, f := range l.flows {
			f.paused, f.changed = held, true
		}
		return nil
	}
	var tasks []*spec.TaskSpec
	for _, name := range names {
		t := l.p.Task(name)
		if t == nil {
			return unknownTask(l.p, name)
		}
		tasks = append(tasks, t)
		if cascade {
			tasks = append(tasks, t.AllUpstreamTasks()...)
		}
	}
	for _, t := range tasks {
		f := l.flows[t.Index]
		f.paused, f.changed = held, true
		l.paused[t.Name] = held
	}
	return nil
}

// isPaused reports whether somebody has paused a task, or all tasks: also before it
// was one, or while it was none.
func (l *loop) isPaused(task string) bool {
	if paused, named := l.paused[task]; named {
		return paused
	}
	return l.allPaused
}

func unknownTask(p *spec.Pipeline, name string) error {
	var known []string
	for _, t := range p.Tasks {
		known = append(known, t.Name)
	}
	return &UnknownError{What: "task", Name: name, Nearest: spec.Nearest(name, known), Known: known}
}
