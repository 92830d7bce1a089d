package frontier

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// observer is what the model check explores: the real view, the real counts, or
// a broken version of them. Each step returns a new one.
type observer interface {
	apply(worker int, incarnation, seq uint64, b ChangeBatch) (observer, error)
	record(r record, worker int) (observer, error)
	beyond(id uint64) bool
	key() string
}

// viewObserver is the real view, which may be hard of hearing.
type viewObserver struct {
	v    *View
	hear func(ChangeBatch) ChangeBatch

	forgets bool // that the next life of a worker goes on with something
}

func setOf(bits uint8) (ids []uint64) {
	for id := range uint64(8) {
		if bits>>id&1 != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

func (o viewObserver) apply(worker int, incarnation, seq uint64, b ChangeBatch) (observer, error) {
	if o.hear != nil {
		b = o.hear(b)
	}
	return o.step(func(v *View) error { return v.ApplyFrom(worker, incarnation, seq, b) })
}

func (o viewObserver) record(r record, worker int) (observer, error) {
	return o.step(func(v *View) error {
		switch r.kind {
		case recordJoin:
			return v.Join(worker, 0, uint64(r.at))
		case recordLeave:
			return v.Leave(worker, 0, uint64(r.batches))
		case recordReplace:
			if o.forgets { // the mutation
				break
			}
			return v.Replace(worker, 1, uint64(r.at), setOf(r.holds))
		}
		if err := v.Crash(worker, 0, uint64(r.at)); err != nil {
			return err
		}
		return v.Join(worker, 1, uint64(r.at))
	})
}

// step changes a copy, and checks what it reports as released against what
// stopped being beyond.
func (o viewObserver) step(change func(*View) error) (observer, error) {
	v := cloneView(o.v)
	if err := change(v); err != nil {
		return nil, err
	}
	var want []uint64
	for id, f := range v.flows {
		if was := o.v.flows[id]; !v.Beyond(id) && (was == nil || o.v.Beyond(id)) {
			want = append(want, id)
		}
		if f.released == v.Beyond(id) {
			return nil, fmt.Errorf("flow %d: released %v, beyond %v", id, f.released, v.Beyond(id))
		}
	}
	slices.Sort(want)
	if got := v.Released(); !slices.Equal(got, want) {
		return nil, fmt.Errorf("released %v, stopped being beyond %v", got, want)
	}
	return viewObserver{v, o.hear, o.forgets}, nil
}

func (o viewObserver) beyond(id uint64) bool { return o.v.Beyond(id) }
func (o viewObserver) key() string           { return dumpView(o.v) }

// countObserver keeps counts alone, as the real antichain does or, with a
// different order, as a broken one would. It trusts the network to deliver each
// batch once, in any order.
type countObserver struct {
	counts map[Time]int64
	order  func(a, b Time) bool // nil: the real antichain with the real order
	real   *MutableAntichain
}

func newCounts(count int64, start uint64, order func(a, b Time) bool) countObserver {
	o := countObserver{counts: map[Time]int64{Future(start): count}, order: order}
	return o.sum(nil)
}

func (o countObserver) apply(_ int, _, _ uint64, b ChangeBatch) (observer, error) {
	return o.sum(b.changes()), nil
}

func (o countObserver) record(r record, _ int) (observer, error) {
	if r.kind != recordJoin {
		return nil, fmt.Errorf("counts can't tell whose they are")
	}
	return o.sum([]change{{time: Future(uint64(r.at)), delta: 1}}), nil
}

// sum is the observer with the changes added, in one real update to a rebuilt
// antichain.
func (o countObserver) sum(changes []change) countObserver {
	before := ChangeBatch{}
	for t, n := range o.counts {
		before.Update(t, n)
	}
	out := countObserver{counts: maps.Clone(o.counts), order: o.order, real: &MutableAntichain{}}
	out.real.Update(before)
	var b ChangeBatch
	for _, c := range changes {
		b.Update(c.time, c.delta)
		if out.counts[c.time] += c.delta; out.counts[c.time] == 0 {
			delete(out.counts, c.time)
		}
	}
	out.real.Update(b)
	return out
}

func (o countObserver) beyond(id uint64) bool {
	if o.order == nil {
		return o.real.LessEqual(Installed(id))
	}
	for t, n := range o.counts {
		if n > 0 && o.order(t, Installed(id)) {
			return true
		}
	}
	return false
}

func (o countObserver) key() string {
	var out []byte
	for _, t := range slices.SortedFunc(maps.Keys(o.counts), Time.Compare) {
		out = fmt.Appendf(out, "%v=%d ", t, o.counts[t])
	}
	return string(out)
}

// cloneView is a deep copy.
func cloneView(v *View) *View {
	c := *v
	c.members = map[identity]*member{}
	for who, m := range v.members {
		n := *m
		n.live = maps.Clone(m.live)
		n.ahead = maps.Clone(m.ahead)
		c.members[who] = &n
	}
	c.newest = map[int]*member{}
	for worker, m := range v.newest {
		n := *m
		if c.newest[worker] = &n; !m.over {
			c.newest[worker] = c.members[m.identity]
		}
	}
	c.early = map[identity]map[uint64]ChangeBatch{}
	for who, kept := range v.early {
		c.early[who] = maps.Clone(kept)
	}
	c.flows = map[uint64]*flow{}
	for id, f := range v.flows {
		g := *f
		c.flows[id] = &g
	}
	c.waiting = slices.Clone(v.waiting)
	c.released = slices.Clone(v.released)
	c.lost = slices.Clone(v.lost)
	return &c
}

// dumpView is all of a view as a string: equal if and only if the views are.
func dumpView(v *View) string {
	var out []byte
	put := func(xs ...uint64) {
		for _, x := range xs {
			out = binary.AppendUvarint(out, x)
		}
		out = append(out, 0xff)
	}
	put(v.low, uint64(v.atLow), v.top)
	put(slices.Sorted(slices.Values(v.waiting))...)
	put(v.released...)
	for _, who := range slices.SortedFunc(maps.Keys(v.members), identity.compare) {
		m := v.members[who]
		left := uint64(0)
		if m.leaving {
			left = 1 + m.end
		}
		put(uint64(m.worker), m.incarnation, m.seq, m.next, left)
		put(slices.Sorted(maps.Keys(m.live))...)
		out = appendKept(out, m.ahead)
	}
	for _, w := range slices.Sorted(maps.Keys(v.newest)) {
		put(uint64(w), v.newest[w].incarnation)
	}
	for _, who := range slices.SortedFunc(maps.Keys(v.early), identity.compare) {
		put(uint64(who.worker), who.incarnation)
		out = appendKept(out, v.early[who])
	}
	for _, id := range slices.Sorted(maps.Keys(v.flows)) {
		f := v.flows[id]
		released := uint64(0)
		if f.released {
			released = 1
		}
		put(id, uint64(f.holders), uint64(f.outcome), released)
		out = append(append(out, f.fingerprint...), 0)
	}
	for _, s := range v.lost {
		put(s.from, s.to)
	}
	return string(out)
}

func appendKept(out []byte, kept map[uint64]ChangeBatch) []byte {
	for _, seq := range slices.Sorted(maps.Keys(kept)) {
		out = append(binary.AppendUvarint(out, seq), dumpBatch(kept[seq])...)
	}
	return append(out, 0xfe)
}

// dumpBatch is what a batch says, equal for batches that say the same.
func dumpBatch(b ChangeBatch) string {
	return fmt.Sprint(b.changes())
}
