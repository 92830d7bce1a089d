package live

import (
	"time"

	"operon/engine"
)

// model is the picture that events are folded into.
type model struct {
	start time.Time
	state engine.RunState
	tasks []*task // in the order of the file
	named map[string]*task
	heard bool // of anything
}

// task is where one task stands.
type task struct {
	engine.TaskStatus
	speed speed
	told  int // failures and retries shown one by one
}

func newModel(start time.Time, tasks []string) *model {
	m := &model{start: start, named: map[string]*task{}}
	for _, name := range tasks {
		m.task(name)
	}
	return m
}

// apply folds one event in, and returns the task that it is about, if any.
func (m *model) apply(e engine.Event) *task {
	m.heard = true
	switch e.Kind {
	case engine.EventRun:
		m.state = e.State
	case engine.EventTask:
		if e.Task == nil {
			return nil
		}
		t := m.task(e.Task.Task)
		t.TaskStatus = *e.Task
		t.speed.note(e.Time, t.Done+t.Failed+t.Holes)
		return t
	case engine.EventFailure, engine.EventRetry:
		if e.Failed != nil {
			return m.task(e.Failed.Task)
		}
	}
	return nil
}

func (m *model) task(name string) *task {
	t := m.named[name]
	if t == nil {
		t = &task{TaskStatus: engine.TaskStatus{Task: name, DataflowState: engine.DataflowWaiting}}
		m.named[name] = t
		m.tasks = append(m.tasks, t)
	}
	return t
}

// word says in one word where the task stands.
func (t *task) word() string {
	switch {
	case t.Paused && t.left() > 0:
		return "paused"
	case t.DataflowState == engine.DataflowComplete, t.DataflowState == engine.DataflowFrozen && t.left() == 0:
		return "done"
	case t.DataflowState == engine.DataflowDropped, t.DataflowState == engine.DataflowFrozen:
		return "dropped"
	case t.Failed > 0 || t.DataflowState == engine.DataflowFailed:
		return "failed"
	case t.Running > 0:
		return "running"
	case t.Queued > 0:
		return "queued"
	case t.Blocked > 0 && t.Waiting == 0:
		return "blocked"
	}
	return "waiting"
}

// left is how many jobs of the task may still run.
func (t *task) left() int64 { return t.Waiting + t.Queued + t.Running }

// all is how many jobs the task has, as far as is known.
func (t *task) all() int64 { return t.left() + t.Done + t.Failed + t.Blocked + t.Holes }

// span is the time over which a speed is taken.
const span = 10 * time.Second

// speed measures how fast jobs end.
type speed struct{ samples []sample }

type sample struct {
	at    time.Time
	ended int64
}

// note adds what was counted at a moment. Moments closer than a twentieth of
// the span are one.
func (s *speed) note(at time.Time, ended int64) {
	if n := len(s.samples); n > 1 && at.Sub(s.samples[n-2].at) < span/20 {
		s.samples[n-1] = sample{at, ended}
		return
	}
	s.samples = append(s.samples, sample{at, ended})
	for len(s.samples) > 2 && at.Sub(s.samples[1].at) >= span {
		s.samples = s.samples[1:]
	}
}

// perSecond is the speed, 0 if there is not enough to tell.
func (s *speed) perSecond(now time.Time) float64 {
	if len(s.samples) < 2 {
		return 0
	}
	first, last := s.samples[0], s.samples[len(s.samples)-1]
	took := now.Sub(first.at).Seconds()
	if took < 0.5 || last.ended <= first.ended {
		return 0
	}
	return float64(last.ended-first.ended) / took
}

// timeLeft is how long the task still takes at its speed, 0 if unknown.
func (t *task) timeLeft(now time.Time) time.Duration {
	rate := t.speed.perSecond(now)
	if rate == 0 || t.left() == 0 {
		return 0
	}
	return time.Duration(float64(t.left()) / rate * float64(time.Second))
}
