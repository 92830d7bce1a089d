package ticket

import (
	"fmt"

	"operon/spec/coord"
)

// OnJob applies the end of a job: the ticket at c of a task is done, and if the
// task spawns a dimension, its list has extent items. The resolution is handled
// first: it explodes every ticket under c in every table before anybody hears
// that the job is done. Runnable are the tickets that may run now.
func (t *Table) OnJob(task int, c coord.Coord, extent uint32) (runnable []Range, err error) {
	tk := t.tasks[task]
	row, last, err := t.open(tk, c)
	if err != nil {
		return nil, err
	}
	if t.holed && t.TakesHole(task, c) {
		return nil, fmt.Errorf("ticket of task %s at %q: takes a hole, so that it can't have run", tk.spec.Name, c.Format(tk.spec.ContextNames()))
	}
	if tk.spec.Spawn != nil {
		if err := t.OnResolution(tk.spec.Spawn.Index, c, extent); err != nil {
			return nil, err
		}
	}
	row.done.add(last)
	tk.counts.Done++
	t.ended(tk, row, last, c)
	return t.take(), nil
}

// ended applies what the end of a job and a hole have in common.
func (t *Table) ended(tk *task, row *row, last uint32, c coord.Coord) {
	if row.failed.remove(last) {
		tk.counts.Failed--
	}
	t.touchTicket(tk, row, last)
	t.tellConsumers(tk, c, row.holes.has(last))
}

// OnFailed applies that the job at c failed for good: its ticket stays where it
// is, and nothing that needs it can run.
func (t *Table) OnFailed(task int, c coord.Coord) error {
	tk := t.tasks[task]
	row, last, err := t.open(tk, c)
	if err != nil {
		return err
	}
	if row.failed.add(last) {
		tk.counts.Failed++
		t.touchTicket(tk, row, last)
	}
	return nil
}

// Touch makes the next Changes write the page of the ticket at c as it is now,
// if there is such a ticket.
func (t *Table) Touch(task int, c coord.Coord) {
	tk := t.tasks[task]
	prefix, last := tk.split(c)
	if row := tk.rows[prefix]; row != nil && last < row.n {
		t.touchTicket(tk, row, last)
	}
}

// open is the row of a ticket that may end, or the error that it may not.
func (t *Table) open(tk *task, c coord.Coord) (*row, uint32, error) {
	prefix, last := tk.split(c)
	row := tk.rows[prefix]
	switch {
	case c.Len() != len(tk.ctx):
		return nil, 0, fmt.Errorf("ticket of task %s: coordinate of %d dimensions, want %d", tk.spec.Name, c.Len(), len(tk.ctx))
	case row == nil || !row.promoted.has(last):
		return nil, 0, fmt.Errorf("ticket of task %s at %q: not runnable", tk.spec.Name, c.Format(tk.spec.ContextNames()))
	case row.done.has(last) || row.holes.has(last):
		return nil, 0, fmt.Errorf("ticket of task %s at %q: done before", tk.spec.Name, c.Format(tk.spec.ContextNames()))
	}
	return row, last, nil
}

// tellConsumers counts a finished job, or a hole, at every reference that takes
// its entity.
func (t *Table) tellConsumers(tk *task, c coord.Coord, hole bool) {
	for _, r := range tk.consumers {
		pins := c.Project(r.pinsUp)
		if r.shares == nil {
			t.promoteAgreeing(r, pins)
			continue
		}
		s := t.share(r, pins)
		s.done++
		if hole {
			s.noteItem(tk, c)
		}
		t.updates++
		t.touch(s)
		t.settle(s)
	}
}

// OnResolution applies that the list of dimension dim at c of its precedents has
// n items. Every table sees it in one step: tickets explode and quotas rise or
// fall, then children are born, then shapes that waited for this length go on.
// What may run now is returned by the OnJob that caused it.
func (t *Table) OnResolution(dim int, c coord.Coord, n uint32) error {
	d := t.dims[dim]
	prefix, last := d.spawner.split(c)
	row := t.row(d.spawner, prefix)
	if _, known := row.extent(last); known {
		return fmt.Errorf("dimension %s at %q: resolved before", d.spec.Name, c.Format(d.spawner.spec.ContextNames()))
	}
	if n == coord.MaxExtent {
		return fmt.Errorf("dimension %s at %q: more than %d items", d.spec.Name, c.Format(d.spawner.spec.ContextNames()), n-1)
	}
	row.setExtent(last, n)
	t.touchExtent(d.spawner, row, last)
	// No ticket is tried before every quota is right: a share that were born in
	// between would count this explosion twice.
	var changed []*share
	for _, tk := range d.over {
		changed = append(changed, t.explode(tk, d, c, n)...)
	}
	for _, s := range changed {
		t.settle(s)
	}
	for _, tk := range d.over {
		t.each(tk, tk.bindPrec(d, c), func(prefix coord.Coord, lo, hi uint32) { t.promote(tk, prefix, lo, hi) })
	}
	t.wake(extent{dim, c})
	return nil
}

// explode replaces the tickets of tk that are unresolved in d under c by n
// tickets each, and tells the references that slice tk's entity over d. It
// returns the shares whose quota changed.
func (t *Table) explode(tk *task, d *dim, c coord.Coord, n uint32) (changed []*share) {
	parents := t.count(tk, tk.bindPrec(d, c), d)
	if parents == 0 {
		return nil
	}
	tk.counts.Tickets += int64(parents) * (int64(n) - 1)
	pos := tk.position(d)
	for _, r := range tk.consumers {
		if r.sliced[pos] {
			changed = append(changed, t.onExplosion(r, d, c, n)...)
		}
	}
	return changed
}

// onExplosion raises the quota of every share of r that agrees with the exploded
// tickets on what these have bound and r does not slice: by n − 1 for each of
// them. It concerns this reference alone, and each ticket once.
func (t *Table) onExplosion(r *ref, d *dim, c coord.Coord, n uint32) (changed []*share) {
	agree := r.up.bindPrec(d, c)
	for pos, sliced := range r.sliced {
		if sliced || t.rules.noPins {
			agree.bound[pos] = false
		}
	}
	t.eachShare(r, agree, func(s *share) {
		b := r.bind(s.pins)
		for k, p := range r.up.prec[r.up.position(d)] {
			b.set(p, c.At(k))
		}
		delta := int64(t.count(r.up, b, d)) * (int64(n) - 1)
		if t.rules.everyReference {
			delta *= r.slicing(d)
		}
		s.quota = uint64(int64(s.quota) + delta)
		t.updates++
		t.touch(s)
		changed = append(changed, s)
	})
	return changed
}

// slicing is how many references of r's consumer slice r's entity over d.
func (r *ref) slicing(d *dim) (n int64) {
	for _, other := range r.task.refs {
		if other.up == r.up && other.sliced[r.up.position(d)] {
			n++
		}
	}
	return n
}

// eachShare calls fn for the shares of r whose pins agree with b. Those that were
// not born yet will be born with the right quota.
func (t *Table) eachShare(r *ref, b binding, fn func(*share)) {
	free := false
	for _, p := range r.pinsUp {
		free = free || !b.bound[p]
	}
	if !free {
		if s := r.shares[b.pick(r.pinsUp)]; s != nil {
			fn(s)
		}
		return
	}
	t.eachPins(r, 0, &b, fn)
}

func (t *Table) eachPins(r *ref, n int, b *binding, fn func(*share)) {
	if n == len(r.pinsUp) {
		if s := r.shares[b.pick(r.pinsUp)]; s != nil {
			fn(s)
		}
		return
	}
	pos := r.pinsUp[n]
	if b.bound[pos] {
		t.eachPins(r, n+1, b, fn)
		return
	}
	length, open := t.length(r.up, pos, b)
	if open {
		return
	}
	for i := range length {
		b.set(pos, i)
		t.eachPins(r, n+1, b, fn)
	}
	b.bound[pos] = false
}

// wake goes on with the walks that rested at a length that is known now.
func (t *Table) wake(e extent) {
	waiting := t.watch[e]
	delete(t.watch, e)
	for _, s := range waiting {
		t.walk(s)
		t.touch(s)
		t.settle(s)
	}
}

// bindPrec binds d's precedents to c.
func (tk *task) bindPrec(d *dim, c coord.Coord) binding {
	var b binding
	for n, p := range tk.prec[tk.position(d)] {
		b.set(p, c.At(n))
	}
	return b
}

func (tk *task) position(d *dim) int {
	for i, other := range tk.ctx {
		if other == d {
			return i
		}
	}
	panic("this is a bug: dimension " + d.spec.Name + " is not in the context of task " + tk.spec.Name)
}
