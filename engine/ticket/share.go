package ticket

import "operon/spec/coord"

// share is what one reference contributes to done and quota of every ticket
// that agrees with pins, and whether the shape of its slice is known there.
type share struct {
	ref   *ref
	pins  coord.Coord
	done  uint64 // producer jobs finished that agree
	quota uint64 // producer tickets that agree
	// index is the walk over the slice's shape: the indices chosen so far, one
	// for each level above the one that is looked at. The walk rests where the
	// first length is missing.
	index  []uint32
	shaped bool // the walk has ended: every length that is needed is known
	ready  bool // closed and shaped: said once
	dirty  bool
	holes  sliceHoles
}

func (s *share) closed() bool { return s.done >= s.quota }

// share is the reference's share at pins, made if need be: born with the quota
// that the resolutions so far give it.
func (t *Table) share(r *ref, pins coord.Coord) *share {
	if s := r.shares[pins]; s != nil {
		return s
	}
	s := &share{ref: r, pins: pins, quota: 1}
	if !t.rules.skipQuotaAtBirth {
		s.quota = t.count(r.up, r.bind(pins), nil)
	}
	r.shares[pins] = s
	t.touch(s)
	t.walk(s)
	s.ready = s.closed() && s.shaped
	return s
}

// bind binds the producer's pinned dimensions.
func (r *ref) bind(pins coord.Coord) binding {
	var b binding
	for n, p := range r.pinsUp {
		b.set(p, pins.At(n))
	}
	return b
}

// settle says that the share is ready, the first time that it is, and tries the
// tickets that were waiting for it.
func (t *Table) settle(s *share) {
	if s.ready || !s.closed() || !(s.shaped || t.rules.noShape) {
		return
	}
	s.ready = true
	t.promoteAgreeing(s.ref, s.pins)
}

// walk goes on through the slice's shape from where it rested: at each step the
// length under the indices chosen so far must be known, for every index below
// it; under a length of 0 nothing more is asked. It rests at the first length
// that is missing and is woken when that is resolved, so each step is taken
// once.
func (t *Table) walk(s *share) {
	r := s.ref
	for {
		level := len(s.index)
		at := r.lengthAt(level, s.pins, s.index)
		n, known := t.Extent(r.slice[level].dim.index, at)
		if !known {
			if !t.rules.noSecondTry {
				key := extent{r.slice[level].dim.index, at}
				t.watch[key] = append(t.watch[key], s)
			}
			return
		}
		if n == 0 {
			s.noteList(t, level, at)
		}
		if level+1 < len(r.slice) && n > 0 {
			s.index = append(s.index, 0)
			continue
		}
		if t.rules.shapeAtOwn || !t.next(s) {
			s.shaped = true
			s.index = nil
			return
		}
	}
}

// next moves the walk to the right-hand neighbour of the list just looked at,
// and reports false if there is none.
func (t *Table) next(s *share) bool {
	for level := len(s.index) - 1; level >= 0; level-- {
		d := s.ref.slice[level].dim
		n, _ := t.Extent(d.index, s.ref.lengthAt(level, s.pins, s.index))
		if s.index[level]+1 < n {
			s.index = append(s.index[:level], s.index[level]+1)
			return true
		}
	}
	return false
}

// lengthAt is the coordinate at which the slice's dimension at level has its
// length, under the pins and the indices chosen at the levels above.
func (r *ref) lengthAt(level int, pins coord.Coord, index []uint32) coord.Coord {
	var buf [4 * coord.MaxDims]byte
	k := buf[:0]
	for _, f := range r.slice[level].from {
		i := uint32(0)
		if f.pin {
			i = pins.At(f.pos)
		} else {
			i = index[f.pos]
		}
		k = append(k, byte(i>>24), byte(i>>16), byte(i>>8), byte(i))
	}
	return coord.Coord(k)
}
