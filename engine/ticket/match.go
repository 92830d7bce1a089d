package ticket

import "operon/spec/coord"

// binding is a partial coordinate of a task's context, by position.
type binding struct {
	bound [coord.MaxDims]bool
	index [coord.MaxDims]uint32
}

func (b *binding) set(pos int, index uint32) {
	b.bound[pos] = true
	b.index[pos] = index
}

// pick is the coordinate at the given positions, which must be bound.
func (b *binding) pick(positions []int) coord.Coord {
	var buf [4 * coord.MaxDims]byte
	k := buf[:0]
	for _, p := range positions {
		i := b.index[p]
		k = append(k, byte(i>>24), byte(i>>16), byte(i>>8), byte(i))
	}
	return coord.Coord(k)
}

// length is the extent of the context's dimension at pos under b; open says that
// one of its precedents is unbound or that it is not known.
func (t *Table) length(tk *task, pos int, b *binding) (n uint32, open bool) {
	for _, p := range tk.prec[pos] {
		if !b.bound[p] {
			return 0, true
		}
	}
	n, known := t.Extent(tk.ctx[pos].index, b.pick(tk.prec[pos]))
	return n, !known
}

// each calls fn for every run of fully bound tickets of tk that agree with b,
// whose bound dimensions are closed under precedents. It enumerates from the
// known extents: nothing is scanned.
func (t *Table) each(tk *task, b binding, fn func(prefix coord.Coord, lo, hi uint32)) {
	t.eachFrom(tk, 0, &b, fn)
}

func (t *Table) eachFrom(tk *task, pos int, b *binding, fn func(prefix coord.Coord, lo, hi uint32)) {
	if len(tk.ctx) == 0 {
		fn("", 0, 1)
		return
	}
	n, open := t.length(tk, pos, b)
	if open && t.rules.noSlots {
		n, open = 1, false
	}
	if open {
		return
	}
	lo, hi := uint32(0), n
	fixed := b.bound[pos]
	if fixed {
		if lo, hi = b.index[pos], b.index[pos]+1; lo >= n {
			return
		}
	}
	if pos == len(tk.ctx)-1 {
		if lo < hi {
			fn(b.pick(identity[:pos]), lo, hi)
		}
		return
	}
	for i := lo; i < hi; i++ {
		b.set(pos, i)
		t.eachFrom(tk, pos+1, b, fn)
	}
	b.bound[pos] = fixed
}

var identity = [coord.MaxDims]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

// count is the number of tickets of tk, bound or not, that agree with b. The
// dimension without, and what depends on it, count as unresolved: that is how
// many tickets its resolution explodes. Pass nil to leave none out.
func (t *Table) count(tk *task, b binding, without *dim) uint64 {
	return t.countFrom(tk, 0, &b, without)
}

func (t *Table) countFrom(tk *task, pos int, b *binding, without *dim) uint64 {
	factor := uint64(1)
	for ; pos < len(tk.ctx); pos++ {
		if b.bound[pos] || tk.ctx[pos] == without {
			continue
		}
		n, open := t.length(tk, pos, b)
		if open {
			continue
		}
		if n == 0 {
			return 0
		}
		if !tk.inner[pos] {
			factor *= uint64(n)
			continue
		}
		sum := uint64(0)
		for i := range n {
			b.set(pos, i)
			sum += t.countFrom(tk, pos+1, b, without)
		}
		b.bound[pos] = false
		return factor * sum
	}
	return factor
}
