package ticket

import "operon/spec/coord"

// promote applies the promotion rule to a run of fully bound tickets, and puts
// those that pass, and were not promoted before, out as runnable. It is the
// only place where the three conditions stand: every slot bound (the caller
// enumerated bound tickets), every share closed, every shape known.
func (t *Table) promote(tk *task, prefix coord.Coord, lo, hi uint32) {
	last := len(tk.ctx) - 1
	var each []*ref // references that differ from index to index
	hole := false
	for _, r := range tk.refs {
		if r.pinned(last) {
			each = append(each, r)
		} else if !t.satisfied(r, prefix, 0) {
			return
		} else {
			hole = hole || t.givesHole(r, prefix, 0)
		}
	}
	row := t.row(tk, prefix)
	for i := lo; i < hi; i++ {
		if row.promoted.has(i) || !t.allSatisfied(each, prefix, i) {
			continue
		}
		row.promoted.add(i)
		tk.counts.Promoted++
		t.emit(tk, prefix, i, hole || t.anyGivesHole(each, prefix, i))
	}
}

// pinned reports whether the reference pins the consumer's dimension at pos.
func (r *ref) pinned(pos int) bool {
	for _, p := range r.pinsHere {
		if p == pos {
			return true
		}
	}
	return false
}

func (t *Table) allSatisfied(refs []*ref, prefix coord.Coord, last uint32) bool {
	for _, r := range refs {
		if !t.satisfied(r, prefix, last) {
			return false
		}
	}
	return true
}

// satisfied reports whether the reference has all that the ticket at (prefix,
// last) takes through it.
func (t *Table) satisfied(r *ref, prefix coord.Coord, last uint32) bool {
	var buf [4 * coord.MaxDims]byte
	pins := r.pins(buf[:0], prefix, last)
	if r.shares == nil {
		at, i := r.up.split(coord.Coord(pins))
		row := r.up.rows[at]
		return row != nil && (row.done.has(i) || row.holes.has(i))
	}
	if s := r.shares[coord.Coord(pins)]; s != nil {
		return s.ready
	}
	return t.share(r, coord.Coord(pins)).ready
}

// pins appends the reference's pins of the ticket at (prefix, last), as a
// coordinate.
func (r *ref) pins(buf []byte, prefix coord.Coord, last uint32) []byte {
	for _, p := range r.pinsHere {
		i := last
		if 4*p < len(prefix) {
			i = prefix.At(p)
		}
		buf = append(buf, byte(i>>24), byte(i>>16), byte(i>>8), byte(i))
	}
	return buf
}

// promoteAgreeing tries every ticket of the reference's consumer that agrees
// with pins.
func (t *Table) promoteAgreeing(r *ref, pins coord.Coord) {
	var b binding
	for n, p := range r.pinsHere {
		b.set(p, pins.At(n))
	}
	t.each(r.task, b, func(prefix coord.Coord, lo, hi uint32) { t.promote(r.task, prefix, lo, hi) })
}

// emit puts one ticket out, in one range with its left neighbour if it can.
func (t *Table) emit(tk *task, prefix coord.Coord, i uint32, hole bool) {
	if n := len(t.out) - 1; n >= 0 {
		if o := &t.out[n]; o.Task == tk.index && o.Hi == i && o.Hole == hole && o.Prefix == prefix {
			o.Hi++
			return
		}
	}
	t.out = append(t.out, Range{Task: tk.index, Prefix: prefix, Lo: i, Hi: i + 1, Hole: hole})
}
