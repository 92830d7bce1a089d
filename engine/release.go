package engine

import (
	"fmt"
	"slices"

	"operon/spec"
)

// ReleasedError is what asking for values meets that were deleted because the
// task says keep: false and everything that takes them is done.
type ReleasedError struct{ Entity, Task string }

// Error says why and how to get them back.
func (e *ReleasedError) Error() string {
	return fmt.Sprintf("the values of %s were released: task %s says keep: false, and what takes them is done; without that they are made again by the next run", e.Entity, e.Task)
}

// transients are the tasks whose values go once every consumer is done. An
// entity that no task takes is always kept.
type transients struct {
	takers [][]*spec.TaskSpec // of each task that is one: its consumers
	namers [][]*spec.TaskSpec // of each task: those whose files its labels name
	about  [][]*spec.TaskSpec // of each task: those that its end may concern
}

func newTransients(p *spec.Pipeline) *transients {
	out := &transients{namers: namers(p), takers: make([][]*spec.TaskSpec, len(p.Tasks)), about: make([][]*spec.TaskSpec, len(p.Tasks))}
	for i, takers := range consumers(p) {
		t := p.Tasks[i]
		if t.Keep || len(takers) == 0 {
			continue
		}
		out.takers[i] = takers
		for _, c := range append([]*spec.TaskSpec{t}, takers...) {
			out.about[c.Index] = append(out.about[c.Index], t)
		}
	}
	return out
}

// consumers are, of each task, the tasks that take what it makes.
func consumers(p *spec.Pipeline) [][]*spec.TaskSpec {
	out := make([][]*spec.TaskSpec, len(p.Tasks))
	for _, c := range p.Tasks {
		for _, in := range c.In {
			i := in.Entity.Producer.Index
			if n := len(out[i]); n == 0 || out[i][n-1] != c {
				out[i] = append(out[i], c)
			}
		}
	}
	return out
}

// release deletes the values that nobody needs any more now that a task's dataflow
// is over: no worker will read them for it. The batch that does comes after those
// with the consumers' records.
func (l *loop) release(done *spec.TaskSpec) {
	for _, t := range l.transient.about[done.Index] {
		f := l.flows[t.Index]
		if f.released || !f.completed() || l.saver.holds(t) || l.takes(t) || slices.ContainsFunc(l.transient.namers[t.Index], l.saver.holds) {
			continue
		}
		f.released = true
		l.data.DropValues(f.id)
		l.puts++
	}
}

// takes reports whether a consumer of t is not over, one that is no task's any more
// included: its jobs may still be reading.
func (l *loop) takes(t *spec.TaskSpec) bool {
	for _, f := range l.frozen {
		if f.gone && slices.Contains(f.df.Producers, l.flows[t.Index].id) {
			return true
		}
	}
	for _, c := range l.transient.takers[t.Index] {
		if !l.flows[c.Index].completed() {
			return true
		}
	}
	return false
}

// recall decides which released dataflows are made again: those whose values a
// consumer needs that is not kept, or not done. Their consumers then follow, and
// find their own results by key.
func recall(p *spec.Pipeline, f facts, decisions []decision) {
	takers, names := consumers(p), namers(p)
	for again := true; again; {
		again = false
		for _, t := range p.Tasks {
			old := f.old[t.Name]
			if d := decisions[t.Index]; d.Action != actionKeep || !old.Released {
				continue
			}
			reason := missed(t, takers[t.Index], f, decisions)
			for _, c := range names[t.Index] {
				if reason == "" && (decisions[c.Index].Action != actionKeep || f.unfinished[c.Name] || !f.saves.of(p, c)) {
					reason = "its values were released, and the files of " + c.Name + " are named by them"
				}
			}
			if reason == "" {
				continue
			}
			decisions[t.Index] = decision{Action: actionReplace, Old: old.ID, Rule: ruleReleased, Reason: reason}
			again = true
		}
		if again {
			for _, t := range p.Topo {
				if d := decisions[t.Index]; d.Action == actionKeep {
					decisions[t.Index] = decide(t, f, decisions)
				}
			}
		}
	}
}

// missed says why the released values of t are needed after all, or nothing.
func missed(t *spec.TaskSpec, takers []*spec.TaskSpec, f facts, decisions []decision) string {
	if t.Keep || len(takers) == 0 {
		return "its values were released, and are to be kept"
	}
	if f.unfinished[t.Name] {
		return "its values were released, and it is not done"
	}
	for _, c := range takers {
		if decisions[c.Index].Action != actionKeep || f.unfinished[c.Name] {
			return "its values were released, and " + c.Name + " needs them"
		}
	}
	return ""
}
