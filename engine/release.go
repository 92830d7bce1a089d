package engine

import (
	"fmt"

	"operon/spec"
)

// ReleasedError is what asking for values meets that were deleted because the
// task says keep: false and everything that takes them is done.
type ReleasedError struct{ Entity, Task string }

// Error says why and how to get them back.
func (e *ReleasedError) Error() string {
	return fmt.Sprintf("the values of %s were released: task %s says keep: false, and what takes them is done; without that they are made again by the next run", e.Entity, e.Task)
}

// transient are the tasks whose values go once every consumer is done. An entity
// that no task takes is always kept.
func transient(p *spec.Pipeline) []*spec.TaskSpec {
	var out []*spec.TaskSpec
	for _, t := range p.Tasks {
		if !t.Keep && len(consumers(p, t)) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// consumers are the tasks that take what t makes.
func consumers(p *spec.Pipeline, t *spec.TaskSpec) []*spec.TaskSpec {
	var out []*spec.TaskSpec
	for _, c := range p.Tasks {
		for _, in := range c.In {
			if in.Entity.Producer == t {
				out = append(out, c)
				break
			}
		}
	}
	return out
}

// release deletes the values that nobody needs any more. The batch that does is
// that of the last consumer's record, or a later one.
func (l *loop) release() {
	for _, t := range l.transient {
		f := l.flows[t.Index]
		if f.released || !l.table.Counts(t.Index).Complete() {
			continue
		}
		needed := l.saver.holds(t)
		for _, c := range consumers(l.p, t) {
			needed = needed || !l.table.Counts(c.Index).Complete()
		}
		if needed {
			continue
		}
		f.released = true
		l.data.DropValues(f.id)
		l.puts++
	}
}

// recall decides which released dataflows are made again: those whose values a
// consumer needs that is not kept, or not done. Their consumers then follow, and
// find their own results by key.
func recall(p *spec.Pipeline, f facts, decisions []decision) {
	for again := true; again; {
		again = false
		for _, t := range p.Tasks {
			old := f.old[t.Name]
			if d := decisions[t.Index]; d.Action != actionKeep || !old.Released {
				continue
			}
			for _, c := range consumers(p, t) {
				if decisions[c.Index].Action == actionKeep && !f.unfinished[c.Name] {
					continue
				}
				decisions[t.Index] = decision{Action: actionReplace, Old: old.ID, Reason: "its values were released, and " + c.Name + " needs them"}
				again = true
				break
			}
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
