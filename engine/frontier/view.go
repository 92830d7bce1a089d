package frontier

import (
	"maps"
	"slices"
)

// View is what one observer knows of all workers: for each its incarnation, how
// many of its batches were applied, the first id it has not passed, and the ids
// it holds installed. From that it answers whether some worker may still
// schedule an id. It is behind the truth, never ahead of it: an id that is not
// Beyond here is over everywhere, for ever.
//
// Applying a batch costs O(log n) for each id in it, n being the ids known and
// not released. A View has one owner and must not be copied.
type View struct {
	members map[identity]*member
	newest  map[int]*member // the newest incarnation of each worker that ever joined, over or not
	early   map[identity]map[uint64]ChangeBatch

	low   uint64 // the least next of all members, or top if there is none
	atLow int    // how many members are there
	top   uint64 // the greatest next ever seen

	flows    map[uint64]*flow
	waiting  minHeap // the known ids that were not below low yet
	released []uint64
	lost     spans // ids whose share on a crashed worker nobody will tell
}

// flow is what is known of one dataflow, until Forget.
type flow struct {
	holders     int // members that hold it installed
	outcome     Outcome
	fingerprint string
	released    bool
}

// NewView is the view of an observer that starts with workers 0 to workers-1,
// each in incarnation 0, with nothing passed: all of them may schedule anything
// before a single message has come.
func NewView(workers int) *View { return NewViewAt(workers, 0) }

// NewViewAt is NewView for a restart: every worker starts at id next, as it was
// stored, and nobody holds anything older. An observer that joins later, or
// whose workers have other names, starts with none and calls Join for each.
func NewViewAt(workers int, next uint64) *View {
	v := &View{
		members: map[identity]*member{},
		newest:  map[int]*member{},
		early:   map[identity]map[uint64]ChangeBatch{},
		flows:   map[uint64]*flow{},
		low:     next,
		top:     next,
	}
	for w := range workers {
		v.add(newMember(w, 0, next))
	}
	v.findLow()
	return v
}

// Beyond reports whether some worker may still schedule id. What the peers of a
// dataflow could touch may be freed only once it is false.
func (v *View) Beyond(id uint64) bool {
	if id >= v.low {
		return true
	}
	f := v.flows[id]
	return f != nil && f.holders > 0
}

// Released returns the ids that stopped being Beyond since it was last called,
// ascending, each once in the life of the view: those that some worker
// installed. A caller re-checks these after a change and no others.
func (v *View) Released() []uint64 {
	out := v.released
	v.released = nil
	slices.Sort(out)
	return out
}

// Outcome is the maximum of how the workers' shares of id ended, as far as they
// have been heard. Only once final, which is when id is not Beyond, may it be
// taken for completed: until then a worker that has not been heard can still
// turn it into failed or dropped. It is None if all have skipped id, and after
// Forget.
func (v *View) Outcome(id uint64) (o Outcome, final bool) {
	if f := v.flows[id]; f != nil {
		o = f.outcome
	}
	if v.lost.has(id) {
		o = max(o, Failed)
	}
	return o, !v.Beyond(id)
}

// Forget frees what the view remembers of an id that is not Beyond; of any
// other it forgets nothing.
func (v *View) Forget(id uint64) {
	if !v.Beyond(id) {
		delete(v.flows, id)
	}
}

// Pins lists the workers because of which id is Beyond, ascending: those that
// have not passed it and those that hold it.
func (v *View) Pins(id uint64) []int {
	var out []int
	for who, m := range v.members {
		if m.pins(id) {
			out = append(out, who.worker)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Low is the first id that some worker has not passed. How far the newest id is
// above it bounds what a single stalled worker keeps all others from freeing.
func (v *View) Low() uint64 { return v.low }

// Frontier is the frontier of the sum of what all workers hold, as a
// MutableAntichain fed with the same batches would have it.
func (v *View) Frontier() []Time {
	held := map[uint64]struct{}{}
	for _, m := range v.members {
		for id := range m.live {
			if id < v.low {
				held[id] = struct{}{}
			}
		}
	}
	return frontier(v.low, true, held)
}

// Member is what a view attributes to one worker.
type Member struct {
	Worker      int
	Incarnation uint64
	Seq         uint64   // batches applied, which is the number of the next one
	Next        uint64   // the first id it has not passed
	Live        []uint64 // installed and not retracted, ascending
	Leaving     bool     // it has left, and some of its batches are still to come
}

// Members lists the workers, ascending, and of each the oldest incarnation
// first: one that has left may still have batches to come when the next joins.
func (v *View) Members() []Member {
	out := make([]Member, 0, len(v.members))
	for _, who := range slices.SortedFunc(maps.Keys(v.members), identity.compare) {
		m := v.members[who]
		out = append(out, Member{
			Worker:      m.worker,
			Incarnation: m.incarnation,
			Seq:         m.seq,
			Next:        m.next,
			Live:        slices.Sorted(maps.Keys(m.live)),
			Leaving:     m.leaving,
		})
	}
	return out
}

// know returns what is known of id, and remembers to look at it when the last
// worker passes it.
func (v *View) know(id uint64) *flow {
	f := v.flows[id]
	if f == nil {
		f = &flow{}
		v.flows[id] = f
		v.waiting.push(id)
	}
	return f
}

// settle releases id if nobody may schedule it any more.
func (v *View) settle(id uint64) {
	f := v.flows[id]
	if f != nil && !f.released && !v.Beyond(id) {
		f.released = true
		v.released = append(v.released, id)
	}
}

// setLow settles all ids that the last worker has just passed.
func (v *View) setLow(low uint64) {
	v.low = low
	for len(v.waiting) > 0 && v.waiting[0] < low {
		v.settle(v.waiting.pop())
	}
}

// findLow looks for the least next. That is a walk over the members, but one
// that comes only after each of those at the old one has moved.
func (v *View) findLow() {
	low, at := v.top, 0
	for _, m := range v.members {
		switch {
		case m.next < low || at == 0:
			low, at = m.next, 1
		case m.next == low:
			at++
		}
	}
	v.atLow = at
	v.setLow(low)
}

// advance moves a member to next.
func (v *View) advance(m *member, next uint64) {
	if next == m.next {
		return
	}
	was := m.next
	m.next = next
	v.top = max(v.top, next)
	if was != v.low {
		return
	}
	if v.atLow--; v.atLow == 0 {
		v.findLow()
	}
}
