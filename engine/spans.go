package engine

import (
	"cmp"
	"slices"

	"operon/spec/coord"
)

// Span is a run of coordinates that differ in the last index alone: Prefix with
// Lo, Lo+1, … Hi behind it. Of what has no dimensions it is Prefix "", Lo and Hi
// 0.
type Span struct {
	Prefix coord.Coord
	Lo, Hi uint32
}

// spanSet is a set of coordinates with the same number of dimensions. Long runs
// cost as much as one coordinate.
type spanSet struct {
	dims  int
	spans []Span // once sealed: in order, apart from each other, as few as possible
	tidy  int    // how many spans there were after it was last put in order
}

// spanOf is the run from one coordinate to another.
func spanOf(from, to coord.Coord) Span {
	n := from.Len() - 1
	if n < 0 {
		return Span{}
	}
	return Span{from.Prefix(n), from.At(n), to.At(n)}
}

func (s *spanSet) add(sp Span) {
	if n := len(s.spans) - 1; n >= 0 {
		if last := &s.spans[n]; last.Prefix == sp.Prefix && sp.Lo >= last.Lo && uint64(sp.Lo) <= uint64(last.Hi)+1 {
			last.Hi = max(last.Hi, sp.Hi)
			return
		}
	}
	s.spans = append(s.spans, sp)
	if len(s.spans) > 2*s.tidy+1024 {
		s.seal()
	}
}

// seal puts the spans in order and joins those that touch.
func (s *spanSet) seal() {
	slices.SortFunc(s.spans, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Prefix, b.Prefix), cmp.Compare(a.Lo, b.Lo))
	})
	out := s.spans[:0]
	for _, sp := range s.spans {
		if n := len(out) - 1; n >= 0 && out[n].Prefix == sp.Prefix && uint64(sp.Lo) <= uint64(out[n].Hi)+1 {
			out[n].Hi = max(out[n].Hi, sp.Hi)
			continue
		}
		out = append(out, sp)
	}
	s.spans = out
	s.tidy = len(out)
}

// touches reports whether the set, which is sealed, has a coordinate of sp.
func (s *spanSet) touches(sp Span) bool {
	n, _ := slices.BinarySearchFunc(s.spans, sp, func(have, want Span) int {
		if c := cmp.Compare(have.Prefix, want.Prefix); c != 0 {
			return c
		}
		if have.Hi < want.Lo {
			return -1
		}
		return 1
	})
	return n < len(s.spans) && s.spans[n].Prefix == sp.Prefix && s.spans[n].Lo <= sp.Hi
}

// count is how many coordinates the sealed set has.
func (s *spanSet) count() int64 {
	n := int64(0)
	for _, sp := range s.spans {
		n += int64(sp.Hi) - int64(sp.Lo) + 1
	}
	return n
}

// each calls fn with the coordinates in order.
func (s *spanSet) each(fn func(coord.Coord) error) error {
	for _, sp := range s.spans {
		if s.dims == 0 {
			return fn("")
		}
		for i := uint64(sp.Lo); i <= uint64(sp.Hi); i++ {
			if err := fn(sp.Prefix.Append(uint32(i))); err != nil {
				return err
			}
		}
	}
	return nil
}
