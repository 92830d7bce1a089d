package frontier

import (
	"cmp"
	"maps"
	"slices"
)

// The reduction: how many batches a worker has sent makes no difference to what
// comes next, nor does which worker is which. So sequence numbers are counted
// from the last one that was applied, and workers sorted. Both hold for a view
// whose batches arrive in order, where none is kept or repeated. What is over is
// forgotten, as a user of the view would.

// renaming is a view and the order its workers are put into.
type renaming struct {
	seen int32
	from [maxWorkers]uint8
}

// canonical is the representative of all states that s is equal to.
func (x *explorer) canonical(s state) state {
	v := x.observers[s.seen].(viewObserver).v
	actors := s.actors[:s.n]
	slices.SortFunc(actors, func(a, b actor) int { return compareActors(v, a, b) })
	var r renaming
	r.seen = s.seen
	for i := range actors {
		a := &actors[i]
		r.from[i] = a.worker
		a.worker = uint8(i)
		a.seq = a.queued
		for j := range a.queued {
			a.queue[j].seq = j
		}
	}
	s.seen = x.rename(r, len(actors))
	return s
}

func (x *explorer) rename(r renaming, n int) int32 {
	if i, ok := x.renamed[r]; ok {
		return i
	}
	v := cloneView(x.observers[r.seen].(viewObserver).v)
	old := maps.Clone(v.members)
	clear(v.members)
	clear(v.newest)
	for i, from := range r.from[:n] {
		m := old[identity{worker: int(from)}]
		m.worker, m.seq = i, 0
		v.add(m)
	}
	for id := range x.ids {
		v.Forget(uint64(id))
		if f := v.flows[uint64(id)]; f != nil {
			f.outcome = None // how is no part of whether
		}
	}
	x.renamed[r] = x.intern(viewObserver{v: v})
	return x.renamed[r]
}

// compareActors orders workers by all that is true of them and seen of them,
// but for their names and numbers.
func compareActors(v *View, a, b actor) int {
	m, n := v.members[identity{worker: int(a.worker)}], v.members[identity{worker: int(b.worker)}]
	return cmp.Or(
		cmp.Compare(a.next, b.next), cmp.Compare(a.live, b.live), cmp.Compare(a.ends, b.ends),
		cmp.Compare(m.next, n.next), cmp.Compare(bitsOf(m.live), bitsOf(n.live)),
		slices.CompareFunc(a.queue[:a.queued], b.queue[:b.queued], func(x, y message) int {
			return cmp.Compare(x.batch, y.batch)
		}),
	)
}

func bitsOf(live map[uint64]struct{}) uint64 {
	var bits uint64
	for id := range live {
		bits |= 1 << id
	}
	return bits
}
