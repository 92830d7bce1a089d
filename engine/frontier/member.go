package frontier

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// identity is one life of a worker.
type identity struct {
	worker      int
	incarnation uint64
}

func (a identity) compare(b identity) int {
	return cmp.Or(cmp.Compare(a.worker, b.worker), cmp.Compare(a.incarnation, b.incarnation))
}

// member is what is attributed to one worker: a Future at next and an Installed
// for each live id, all of which are below next.
type member struct {
	identity
	seq   uint64 // batches applied
	next  uint64
	live  map[uint64]struct{}
	ahead map[uint64]ChangeBatch // kept until the ones before are in

	leaving bool
	end     uint64 // if leaving: how many batches it sent in all
	over    bool   // it has left or crashed
}

func newMember(worker int, incarnation, next uint64) *member {
	return &member{
		identity: identity{worker, incarnation},
		next:     next,
		live:     map[uint64]struct{}{},
		ahead:    map[uint64]ChangeBatch{},
	}
}

func (m *member) pins(id uint64) bool {
	_, held := m.live[id]
	return held || m.next <= id
}

func (m *member) contradiction(seq uint64, t Time, cause error) error {
	return &Contradiction{Worker: m.worker, Incarnation: m.incarnation, Seq: seq, Time: t, Cause: cause}
}

// Join adds a worker that will go through all ids from next on and holds none
// below. Every observer calls it where the command order says so, before it
// passes next itself: a worker that merely announced its own Future(next) could
// be overtaken by the others, who install and retract next in the meantime and
// release it under the newcomer.
//
// It is ErrJoined if the worker is a member and has not left, or if this
// incarnation or a later one has been, and ErrReleased if some id from next on
// has been released. If a batch that came early contradicts, the worker has
// joined nevertheless and the error is that of Apply.
func (v *View) Join(worker int, incarnation, next uint64) error {
	if err := v.mayJoin(worker, incarnation, next); err != nil {
		return fmt.Errorf("join worker %d, incarnation %d, at %d: %w", worker, incarnation, next, err)
	}
	m := newMember(worker, incarnation, next)
	v.add(m)
	v.findLow()
	return v.hearEarly(m)
}

func (v *View) mayJoin(worker int, incarnation, next uint64) error {
	newest := v.newest[worker]
	switch {
	case newest != nil && (incarnation <= newest.incarnation || !newest.over && !newest.leaving):
		return ErrJoined
	case next < v.low:
		return ErrReleased
	}
	return nil
}

// add makes m a member; findLow has to follow.
func (v *View) add(m *member) {
	v.members[m.identity] = m
	v.newest[m.worker] = m
	v.top = max(v.top, m.next)
}

// hearEarly takes over the batches that came before the worker had joined, and
// those of earlier lives, which no one will join any more.
func (v *View) hearEarly(m *member) error {
	if kept := v.early[m.identity]; kept != nil {
		m.ahead = kept
	}
	v.dropEarly(m.identity)
	return v.catchUp(m)
}

// Leave takes out a worker that has ended in good order: it has retracted all
// it held, it passes no more ids, and it has sent so many batches in all. The
// command that says so must come after the worker has stopped. It stays a
// member until the last batch is in, so that how its shares ended is not lost.
// What it holds after that counts as dropped.
//
// It is nil for an incarnation that is over, ErrUnknownWorker for one that
// never joined, and a *Contradiction if more batches than that were applied.
func (v *View) Leave(worker int, incarnation, batches uint64) error {
	m, err := v.find("leave", identity{worker, incarnation})
	if m == nil {
		return err
	}
	if m.seq > batches {
		return m.contradiction(batches, Future(m.next), ErrLeft)
	}
	m.leaving, m.end = true, batches
	for seq := range m.ahead {
		if seq >= batches {
			delete(m.ahead, seq)
		}
	}
	return v.catchUp(m)
}

// Crash takes out a worker that will never run again, at once and with all that
// is attributed to it; later batches of this incarnation change nothing. It
// must be certain that the worker is gone, and all that it started. The command
// stands at id next in the command order: what the worker held, and every id
// below next that it is not known to have passed, counts as failed, for nobody
// can say any more that its share was completed.
//
// It is nil for an incarnation that is over, and ErrUnknownWorker for one that
// never joined. The worker may Join again in a later incarnation.
func (v *View) Crash(worker int, incarnation, next uint64) error {
	m, err := v.find("crash", identity{worker, incarnation})
	if m == nil {
		return err
	}
	v.top = max(v.top, next)
	v.lost = v.lost.with(m.next, next)
	v.remove(m, Failed)
	return nil
}

// Replace takes out an incarnation that crashed, as Crash does, and lets the next
// incarnation of that worker in, as one step: it has passed every id below next
// and holds those that it goes on with, which nobody can release in between. They
// count as held all along; what the old one held beside them, and what it is not
// known to have passed, counts as failed. As with Crash, it must be certain that
// the old one is gone.
//
// It is ErrUnknownWorker for a worker that is no member, ErrJoined if next
// incarnation is not a later one, and ErrReleased if next or an id to go on with
// may have been released, or if such an id is not below next.
func (v *View) Replace(worker int, incarnation, next uint64, holds []uint64) error {
	m := v.newest[worker]
	err := v.mayReplace(m, incarnation, next, holds)
	if err != nil {
		return fmt.Errorf("replace worker %d by its incarnation %d at %d: %w", worker, incarnation, next, err)
	}
	n := newMember(worker, incarnation, next)
	for _, id := range holds {
		if _, said := n.live[id]; said {
			continue
		}
		n.live[id] = struct{}{}
		if _, held := m.live[id]; held {
			delete(m.live, id) // handed over, and counted already
		} else {
			v.know(id).holders++
		}
	}
	lower := m.next
	for _, id := range slices.Sorted(maps.Keys(n.live)) {
		if id >= lower {
			v.lost = v.lost.with(lower, id)
			lower = id + 1
		}
	}
	v.lost = v.lost.with(lower, next)
	v.add(n)
	v.remove(m, Failed)
	return v.hearEarly(n)
}

func (v *View) mayReplace(m *member, incarnation, next uint64, holds []uint64) error {
	switch {
	case m == nil || m.over:
		return ErrUnknownWorker
	case incarnation <= m.incarnation:
		return ErrJoined
	case next < m.next:
		return ErrReleased
	}
	for _, id := range holds {
		if _, held := m.live[id]; id >= next || !held && m.next > id {
			return fmt.Errorf("id %d: %w", id, ErrReleased)
		}
	}
	return nil
}

// find looks up an incarnation. It is nil without an error if that is over.
func (v *View) find(what string, who identity) (*member, error) {
	if m := v.members[who]; m != nil || v.isOver(who) {
		return m, nil
	}
	return nil, fmt.Errorf("%s worker %d, incarnation %d: %w", what, who.worker, who.incarnation, ErrUnknownWorker)
}

// remove takes out a member, and what it holds as ended with o.
func (v *View) remove(m *member, o Outcome) {
	m.over = true
	delete(v.members, m.identity)
	for id := range m.live {
		f := v.know(id)
		f.holders--
		f.outcome = max(f.outcome, o)
	}
	v.findLow()
	for id := range m.live {
		v.settle(id)
	}
	m.live, m.ahead = nil, nil // it may stay as the newest for ever
}

// dropEarly forgets the batches kept for a life and those before it.
func (v *View) dropEarly(who identity) {
	for kept := range v.early {
		if kept.worker == who.worker && kept.incarnation <= who.incarnation {
			delete(v.early, kept)
		}
	}
}

// isOver reports whether an incarnation has ended, or never was and never will
// be.
func (v *View) isOver(who identity) bool {
	newest := v.newest[who.worker]
	return newest != nil && who.incarnation <= newest.incarnation && v.members[who] == nil
}
