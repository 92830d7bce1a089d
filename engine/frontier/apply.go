package frontier

import (
	"fmt"
	"maps"
	"slices"
)

// window bounds the batches that are kept ahead of a gap, for each worker, and
// of all workers that have not joined, together.
const window = 1 << 16

// Apply takes batch seq of a worker: the first is 0. One that was applied
// before is no error and changes nothing, one that is ahead is kept until those
// before it are in, and ErrTooFarAhead if it is too far ahead. The batch is
// taken whole or, if it contradicts what is attributed to the worker, not at
// all: that is a *Contradiction, and the view still waits for batch seq. If it
// is a kept one that contradicts, the batches before it have been applied.
//
// The batch counts for the newest incarnation of the worker. Where an older
// one's can arrive, use ApplyFrom.
func (v *View) Apply(worker int, seq uint64, b ChangeBatch) error {
	m := v.newest[worker]
	if m == nil || m.over {
		return fmt.Errorf("apply batch %d of worker %d: %w", seq, worker, ErrUnknownWorker)
	}
	return v.apply(m, seq, b)
}

// ApplyFrom is Apply for a batch that says which incarnation sent it. One of an
// incarnation that has left or crashed changes nothing. One of an incarnation
// that has not joined is kept until it does, since a worker that joined may be
// heard before the observer gets to the command that let it in.
func (v *View) ApplyFrom(worker int, incarnation, seq uint64, b ChangeBatch) error {
	who := identity{worker, incarnation}
	switch m := v.members[who]; {
	case m != nil:
		return v.apply(m, seq, b)
	case v.isOver(who):
		return nil
	}
	return v.keepEarly(who, seq, b)
}

func (v *View) apply(m *member, seq uint64, b ChangeBatch) error {
	switch {
	case seq < m.seq:
		return nil
	case m.leaving && seq >= m.end:
		return m.contradiction(seq, Future(m.next), ErrLeft)
	case seq-m.seq > window:
		return fmt.Errorf("apply batch %d of worker %d, which is at %d: %w", seq, m.worker, m.seq, ErrTooFarAhead)
	case seq > m.seq:
		if _, kept := m.ahead[seq]; !kept {
			m.ahead[seq] = b
		}
		return nil
	}
	if err := v.take(m, b); err != nil {
		return err
	}
	return v.catchUp(m)
}

// catchUp applies the kept batches that nothing is missing before any more, and
// lets a worker go that has left once its last one is in.
func (v *View) catchUp(m *member) error {
	for len(m.ahead) > 0 {
		b, ok := m.ahead[m.seq]
		if !ok {
			break
		}
		delete(m.ahead, m.seq)
		if err := v.take(m, b); err != nil {
			return err
		}
	}
	if m.leaving && m.seq == m.end {
		v.remove(m, Dropped)
	}
	return nil
}

// take applies the next batch of a member: first all checks, then all changes.
func (v *View) take(m *member, b ChangeBatch) error {
	changes := b.changes()
	next, err := v.check(m, changes)
	if err != nil {
		return err
	}
	m.seq++
	if len(m.ahead) > 0 {
		delete(m.ahead, m.seq-1)
	}
	for _, c := range changes {
		if c.time.installed {
			v.change(m, c)
		}
	}
	v.advance(m, next)
	for _, c := range changes {
		if c.time.installed && c.delta < 0 {
			v.settle(c.time.id)
		}
	}
	return nil
}

// change applies what a checked batch says about one id. A retraction that does
// not say how it ended counts as a drop, which promises nothing.
func (v *View) change(m *member, c change) {
	f := v.know(c.time.id)
	if f.fingerprint == "" {
		f.fingerprint = c.fingerprint
	}
	switch {
	case c.delta > 0:
		m.live[c.time.id] = struct{}{}
		f.holders++
		return
	case c.delta < 0:
		delete(m.live, c.time.id)
		f.holders--
	}
	if c.outcome == None {
		c.outcome = Dropped
	}
	f.outcome = max(f.outcome, c.outcome)
}

// check holds a batch against what the member has said before, and returns the
// next id it leaves the member at.
func (v *View) check(m *member, changes []change) (uint64, error) {
	first := slices.IndexFunc(changes, func(c change) bool { return c.time.installed })
	if first < 0 {
		first = len(changes)
	}
	next, ok := m.passes(changes[:first])
	if !ok {
		return 0, m.contradiction(m.seq, changes[0].time, ErrPassed)
	}
	for _, c := range changes[first:] {
		if err := v.checkID(m, next, c); err != nil {
			return 0, m.contradiction(m.seq, c.time, err)
		}
	}
	return next, nil
}

// passes returns where the member's Future goes: nowhere, or from next to a
// later id. What lies between was passed in one batch, several merged.
func (m *member) passes(futures []change) (next uint64, ok bool) {
	if len(futures) == 0 {
		return m.next, true
	}
	if len(futures) != 2 {
		return 0, false
	}
	from, to := futures[0], futures[1]
	return to.time.id, from.time.id == m.next && from.delta == -1 && to.delta == 1
}

// checkID checks the change of one id, in a batch that takes the member to next.
func (v *View) checkID(m *member, next uint64, c change) error {
	id := c.time.id
	passed := m.next <= id && id < next
	_, held := m.live[id]
	switch {
	case c.delta > 1 || c.delta == 1 && !passed:
		return ErrInstall
	case c.delta < -1 || c.delta == -1 && !held:
		return ErrRetract
	case c.delta == 1 && c.outcome != None, c.delta == 0 && !passed:
		return ErrOutcome
	}
	if f := v.flows[id]; f != nil && f.fingerprint != "" && c.fingerprint != "" && f.fingerprint != c.fingerprint {
		return ErrFingerprint
	}
	return nil
}

func (v *View) keepEarly(who identity, seq uint64, b ChangeBatch) error {
	n := 0
	for _, kept := range v.early {
		n += len(kept)
	}
	if n >= window || seq > window {
		return fmt.Errorf("keep batch %d of worker %d, which has not joined: %w", seq, who.worker, ErrTooFarAhead)
	}
	if v.early[who] == nil {
		v.early[who] = map[uint64]ChangeBatch{}
	}
	if _, kept := v.early[who][seq]; !kept {
		v.early[who][seq] = b
	}
	return nil
}

// Gap is a worker that has been heard, but not all of it: as long as a batch is
// missing, those after it are kept and the worker pins what they would let go.
type Gap struct {
	Worker      int
	Incarnation uint64
	Missing     uint64 // number of the first batch that has not come
	Kept        int    // batches that wait for it
	Joined      bool   // false: they wait for Join
}

// Gaps lists the workers that have a gap, ascending. A lost batch that nothing
// follows leaves none: a worker that has nothing to say has to send an empty
// batch now and then.
func (v *View) Gaps() []Gap {
	var out []Gap
	for _, m := range v.members {
		if len(m.ahead) > 0 || m.leaving {
			out = append(out, Gap{m.worker, m.incarnation, m.seq, len(m.ahead), true})
		}
	}
	for who, kept := range v.early {
		seqs := slices.Sorted(maps.Keys(kept))
		missing := uint64(0)
		for missing < uint64(len(seqs)) && seqs[missing] == missing {
			missing++
		}
		out = append(out, Gap{who.worker, who.incarnation, missing, len(kept), false})
	}
	slices.SortFunc(out, func(a, b Gap) int {
		x, y := identity{a.Worker, a.Incarnation}, identity{b.Worker, b.Incarnation}
		return x.compare(y)
	})
	return out
}
