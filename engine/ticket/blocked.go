package ticket

import (
	"fmt"
	"strings"

	"operon/spec/coord"
)

// unbound stands for an unresolved slot in the coordinate of a family.
const unbound = coord.MaxExtent

// Blocked counts, for each task, the waiting tickets that can't run because of
// failed jobs: those that need one, directly or through others that are
// blocked. A family that waits for a length which will not come counts 1.
//
// It looks at every ticket once, and is meant for the end of a run.
func (t *Table) Blocked() []int64 {
	out := make([]int64, len(t.tasks))
	bad := make([][]coord.Coord, len(t.tasks)) // failed or blocked, with unbound slots
	lost := make([]map[coord.Coord]bool, len(t.tasks))
	for _, s := range t.p.Topo {
		tk := t.tasks[s.Index]
		refs := make([]map[coord.Coord]bool, len(tk.refs))
		for i, r := range tk.refs {
			refs[i] = map[coord.Coord]bool{}
			for _, c := range bad[r.up.index] {
				refs[i][c.Project(r.pinsUp)] = true
			}
		}
		lost[tk.index] = map[coord.Coord]bool{}
		t.families(tk, func(c coord.Coord) {
			switch t.Status(tk.index, c) {
			case Done, Hole, Queued:
				return
			case Waiting:
				if !t.needs(tk, c, refs, lost) {
					return
				}
				out[tk.index]++
			}
			bad[tk.index] = append(bad[tk.index], c)
			lost[tk.index][c] = true
		})
	}
	return out
}

// needs reports whether the ticket at c, a family if a slot is unbound, needs a
// job that is lost: for an input, or for the length of a dimension.
func (t *Table) needs(tk *task, c coord.Coord, refs []map[coord.Coord]bool, lost []map[coord.Coord]bool) bool {
	for i, r := range tk.refs {
		if refs[i][c.Project(r.pinsHere)] || t.shapeLost(r, c, lost) {
			return true
		}
	}
	for pos, d := range tk.ctx {
		if c.At(pos) == unbound && lost[d.spawner.index][c.Project(tk.prec[pos])] {
			return true
		}
	}
	return false
}

// shapeLost reports whether the shape of a slice rests at a length that a lost
// job would have told.
func (t *Table) shapeLost(r *ref, c coord.Coord, lost []map[coord.Coord]bool) bool {
	if r.shares == nil {
		return false
	}
	pins := c.Project(r.pinsHere)
	for n := range pins.Len() {
		if pins.At(n) == unbound {
			return false
		}
	}
	s := t.share(r, pins)
	if s.shaped {
		return false
	}
	level := len(s.index)
	return lost[r.slice[level].dim.spawner.index][r.lengthAt(level, pins, s.index)]
}

// families calls fn for every ticket of tk, bound or not.
func (t *Table) families(tk *task, fn func(coord.Coord)) {
	t.familiesFrom(tk, 0, &binding{}, fn)
}

func (t *Table) familiesFrom(tk *task, pos int, b *binding, fn func(coord.Coord)) {
	if pos == len(tk.ctx) {
		fn(b.pick(identity[:pos]))
		return
	}
	n, open := t.length(tk, pos, b)
	if open {
		b.index[pos] = unbound
		t.familiesFrom(tk, pos+1, b, fn)
		return
	}
	for i := range n {
		b.set(pos, i)
		t.familiesFrom(tk, pos+1, b, fn)
	}
	b.bound[pos] = false
}

// Waits describes the first ticket that waits, in topological order of the
// tasks, and what it waits for. It is empty if none does.
func (t *Table) Waits() string {
	for _, s := range t.p.Topo {
		tk := t.tasks[s.Index]
		if tk.counts.Waiting() == 0 {
			continue
		}
		found := ""
		t.families(tk, func(c coord.Coord) {
			if found == "" && t.Status(tk.index, c) == Waiting {
				found = t.describe(tk, c)
			}
		})
		if found != "" {
			return found
		}
	}
	return ""
}

func (t *Table) describe(tk *task, c coord.Coord) string {
	var why []string
	bound := true
	for pos, d := range tk.ctx {
		if c.At(pos) == unbound {
			bound = false
			why = append(why, "the length of "+d.spec.Name)
		}
	}
	prefix, last := tk.split(c)
	for i, r := range tk.refs {
		if bound && t.satisfied(r, prefix, last) {
			continue
		}
		text := "input " + tk.spec.In[i].String()
		if r.shares != nil && bound {
			s := t.share(r, c.Project(r.pinsHere))
			text += fmt.Sprintf(" (%d of %d done, shape known: %v)", s.done, s.quota, s.shaped)
		}
		why = append(why, text)
	}
	at := strings.ReplaceAll(c.Format(tk.spec.ContextNames()), fmt.Sprint(unbound), "?")
	return fmt.Sprintf("task %s at %q waits for %s", tk.spec.Name, at, strings.Join(why, ", "))
}

// EachWaiting calls fn for each of a task's waiting tickets; slots that are not
// bound have the index coord.MaxExtent.
func (t *Table) EachWaiting(task int, fn func(coord.Coord)) {
	tk := t.tasks[task]
	if tk.counts.Waiting() == 0 {
		return
	}
	t.families(tk, func(c coord.Coord) {
		if t.Status(task, c) == Waiting {
			fn(c)
		}
	})
}

// Waiting counts a task's waiting tickets: those with every slot bound, and the
// families that wait for a length.
func (t *Table) Waiting(task int) (bound, families int64) {
	tk := t.tasks[task]
	if tk.counts.Waiting() == 0 {
		return 0, 0
	}
	t.families(tk, func(c coord.Coord) {
		for pos := range tk.ctx {
			if c.At(pos) == unbound {
				families++
				return
			}
		}
		if t.Status(task, c) == Waiting {
			bound++
		}
	})
	return bound, families
}
