package ticket

import (
	"math/bits"

	"operon/spec/coord"
)

// row is what is known of the tickets that differ in the last dimension of
// their task's context only.
type row struct {
	prefix   coord.Coord
	n        uint32 // how many there are
	promoted set
	done     set
	failed   set
	holes    set
	extents  []uint32 // of a spawning task: 1 + the length each job returned, 0 if it did not yet
	pages    set      // pages changed since the last Changes
	resPages set      // the same for extents
}

// set is a set of small integers: a bit each, grown when needed.
type set []uint64

func (s set) has(i uint32) bool {
	w := int(i >> 6)
	return w < len(s) && s[w]>>(i&63)&1 != 0
}

// add reports whether i was new.
func (s *set) add(i uint32) bool {
	w := int(i >> 6)
	for len(*s) <= w {
		*s = append(*s, 0)
	}
	if (*s)[w]>>(i&63)&1 != 0 {
		return false
	}
	(*s)[w] |= 1 << (i & 63)
	return true
}

// remove reports whether i was there.
func (s set) remove(i uint32) bool {
	if !s.has(i) {
		return false
	}
	s[i>>6] &^= 1 << (i & 63)
	return true
}

func (s set) each(fn func(uint32)) {
	for w, word := range s {
		for word != 0 {
			fn(uint32(w)<<6 + uint32(bits.TrailingZeros64(word)))
			word &= word - 1
		}
	}
}

// extent is the length that the job at index i returned.
func (r *row) extent(i uint32) (n uint32, known bool) {
	if r == nil || int(i) >= len(r.extents) || r.extents[i] == 0 {
		return 0, false
	}
	return r.extents[i] - 1, true
}

func (r *row) setExtent(i, n uint32) {
	if len(r.extents) <= int(i) {
		grown := make([]uint32, max(int(i)+1, min(int(r.n), 2*len(r.extents))))
		copy(grown, r.extents)
		r.extents = grown
	}
	r.extents[i] = n + 1
}

// row is the task's row behind a prefix, made if need be: the prefix must be
// bound, and the last dimension's length known there.
func (t *Table) row(tk *task, prefix coord.Coord) *row {
	if r := tk.rows[prefix]; r != nil {
		return r
	}
	r := &row{prefix: prefix, n: 1}
	if last := len(tk.ctx) - 1; last >= 0 {
		r.n, _ = t.Extent(tk.ctx[last].index, prefix.Project(tk.prec[last]))
	}
	tk.rows[prefix] = r
	return r
}
