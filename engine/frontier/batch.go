package frontier

import (
	"cmp"
	"iter"
	"slices"
)

// ChangeBatch is a list of (time, delta) that takes effect as a whole. The zero
// value is empty. Deltas of one time add up, and a time whose deltas add up to
// nothing is not in the batch. The sum of batches is a batch: a sender may
// merge those it has not sent.
//
// It is a value: after a copy, updating either leaves the other as it was.
// Copies may be read at the same time, not updated. Deltas wrap at 64 bits.
type ChangeBatch struct {
	items []change
	clean int  // items[:clean] is consolidated: sorted, one item a time, none void
	used  *int // how much of the array under items is taken, shared by all copies
}

// change is one line of a batch. What the worker says about an id besides the
// count travels on the same line, so that it outlives a count of zero: the
// merged install and retraction of an id still tell how it ended.
type change struct {
	time        Time
	delta       int64
	outcome     Outcome
	fingerprint string
}

func (c change) void() bool {
	return c.delta == 0 && c.outcome == None && c.fingerprint == ""
}

// compactAfter is how many unsorted items a batch gathers before it is worth
// sorting, beside as many as it has sorted ones.
const compactAfter = 32

// Install is what a worker says when it installs k: it may schedule k from here
// on and has not passed k+1. It speaks as soon as the id is taken, before it
// builds anything. The largest uint64 is no id: there is none to follow it.
func Install(k uint64) ChangeBatch { return InstallAs(k, "") }

// InstallAs is Install with the fingerprint of what is installed. A view
// refuses a worker that means something else by k than another one did.
func InstallAs(k uint64, fingerprint string) ChangeBatch {
	return consolidated([]change{
		{time: Future(k), delta: -1},
		{time: Future(k + 1), delta: 1},
		{time: Installed(k), delta: 1, fingerprint: fingerprint},
	})
}

// Skip is what a worker says when it passes k without installing it, because
// nothing of k is placed there. A worker that passes k because it knows k to be
// dropped sends Install(k) merged with Retract(k, Dropped) instead: the same
// counts, but nobody can take k for completed.
func Skip(k uint64) ChangeBatch {
	return consolidated([]change{
		{time: Future(k), delta: -1},
		{time: Future(k + 1), delta: 1},
	})
}

// Retract is what a worker says, once, when it will never schedule k again.
// An outcome that is not Completed or Failed is taken for Dropped.
func Retract(k uint64, o Outcome) ChangeBatch {
	if o != Completed && o != Failed {
		o = Dropped
	}
	return consolidated([]change{{time: Installed(k), delta: -1, outcome: o}})
}

func consolidated(items []change) ChangeBatch {
	n := len(items)
	return ChangeBatch{items: items, clean: n, used: &n}
}

// Update adds delta to the count of t.
func (b *ChangeBatch) Update(t Time, delta int64) {
	if delta != 0 {
		b.add(change{time: t, delta: delta})
	}
}

// Merge adds all of other, with its outcomes and fingerprints.
func (b *ChangeBatch) Merge(other ChangeBatch) {
	for _, c := range other.items {
		b.add(c)
	}
}

// add appends in place only if no copy has taken the place after our last item.
func (b *ChangeBatch) add(c change) {
	if len(b.items) >= 2*b.clean+compactAfter {
		*b = consolidated(b.changes())
	}
	if b.used == nil || *b.used != len(b.items) {
		b.items = slices.Clone(b.items)
		b.used = new(int)
	}
	b.items = append(b.items, c)
	*b.used = len(b.items)
}

// Since is the part of the batch that concerns dataflows from lower on: what a
// worker sends to one that joined there and never heard of the older ones.
func (b ChangeBatch) Since(lower uint64) ChangeBatch {
	var out []change
	for _, c := range b.changes() {
		if c.time.id >= lower {
			out = append(out, c)
		}
	}
	return consolidated(out)
}

// All yields the times of the batch and their deltas, in the order of Compare.
// A view and an antichain take the batch as one: between the retraction of
// Future(k) and the Installed(k) that comes last, the worker would seem to have
// given k up.
func (b ChangeBatch) All() iter.Seq2[Time, int64] {
	return func(yield func(Time, int64) bool) {
		for _, c := range b.changes() {
			if c.delta != 0 && !yield(c.time, c.delta) {
				return
			}
		}
	}
}

// Outcomes yields the ids whose end the batch tells, ascending, with how.
func (b ChangeBatch) Outcomes() iter.Seq2[uint64, Outcome] {
	return func(yield func(uint64, Outcome) bool) {
		for _, c := range b.changes() {
			if c.outcome != None && !yield(c.time.id, c.outcome) {
				return
			}
		}
	}
}

// Len is the number of times whose count the batch changes.
func (b ChangeBatch) Len() int {
	n := 0
	for range b.All() {
		n++
	}
	return n
}

// IsEmpty reports whether the batch changes no count.
func (b ChangeBatch) IsEmpty() bool { return b.Len() == 0 }

// changes is the consolidated list. It never sorts in place, since copies of
// the batch may share the array; a caller must not write to it.
func (b ChangeBatch) changes() []change {
	if b.clean == len(b.items) {
		return b.items
	}
	sorted := slices.Clone(b.items)
	slices.SortFunc(sorted, func(x, y change) int { return x.time.Compare(y.time) })
	out := sorted[:0]
	for i := 0; i < len(sorted); {
		sum := sorted[i]
		for i++; i < len(sorted) && sorted[i].time == sum.time; i++ {
			sum = sum.plus(sorted[i])
		}
		if !sum.void() {
			out = append(out, sum)
		}
	}
	return out
}

// plus is the sum of two changes of one time. Neither outcomes nor fingerprints
// depend on the order, so that merging does not either.
func (c change) plus(d change) change {
	c.delta += d.delta
	c.outcome = max(c.outcome, d.outcome)
	if cmp.Less(c.fingerprint, d.fingerprint) {
		c.fingerprint = d.fingerprint
	}
	return c
}
