package frontier

import "slices"

// MutableAntichain is a multiset of times and its frontier: the minimal ones
// among those with a positive count. The zero value is empty. Counts may be
// negative for a while; such a time is not in the frontier, and no error. It
// must not be copied.
//
// It knows nothing of who holds what: the sum over all workers is enough to
// tell what may still be scheduled, as long as each batch counts once. A View
// keeps them apart, and is what to use where messages repeat or workers change.
//
// An update costs O(log n) for each time it changes and each that enters or
// leaves the frontier, n being the times with a count, if the least Future does
// not fall; if it does, as no worker makes it, O(n).
type MutableAntichain struct {
	counts map[Time]int64 // none is zero

	// futures has the lower end of every positive Future, hidden the id of every
	// positive Installed that a Future dominates. Ids whose count went away stay
	// in until they come up or push clears them out.
	futures, hidden minHeap
	front           map[uint64]struct{} // ids of the Installed in the frontier
}

// Update adds the batch, as a whole, and returns what changed in the frontier:
// 1 for a time that entered, -1 for one that left.
func (a *MutableAntichain) Update(b ChangeBatch) ChangeBatch {
	if a.counts == nil {
		a.counts = map[Time]int64{}
		a.front = map[uint64]struct{}{}
	}
	var diff ChangeBatch
	low, bounded := a.low()
	for t, delta := range b.All() {
		a.count(t, delta, &diff)
	}
	a.dropStaleFutures()
	newLow, newBounded := a.low()
	if bounded != newBounded || low != newLow {
		if bounded {
			diff.Update(Future(low), -1)
		}
		if newBounded {
			diff.Update(Future(newLow), 1)
		}
	}
	if newBounded && (!bounded || newLow < low) {
		a.hide(newLow, &diff)
	}
	a.show(newLow, newBounded, &diff)
	return diff
}

// count adds delta to the count of t. An Installed that leaves the frontier
// goes at once; one that may enter waits in hidden for show to decide.
func (a *MutableAntichain) count(t Time, delta int64, diff *ChangeBatch) {
	old := a.counts[t]
	if a.counts[t] = old + delta; a.counts[t] == 0 {
		delete(a.counts, t)
	}
	positive := a.counts[t] > 0
	switch {
	case positive == (old > 0):
	case positive && t.installed:
		a.push(&a.hidden, t)
	case positive:
		a.push(&a.futures, t)
	case t.installed:
		if _, in := a.front[t.id]; in {
			delete(a.front, t.id)
			diff.Update(t, -1)
		}
	}
}

// push adds t to one of the heaps, and clears the heap of what is stale once
// that is most of it.
func (a *MutableAntichain) push(h *minHeap, t Time) {
	if len(*h) > 2*len(a.counts)+compactAfter {
		slices.Sort(*h) // a sorted list is a heap
		*h = slices.DeleteFunc(slices.Compact(*h), func(id uint64) bool {
			return a.counts[Time{id, t.installed}] <= 0
		})
	}
	h.push(t.id)
}

// hide takes out of the frontier what a Future that fell to low now dominates.
func (a *MutableAntichain) hide(low uint64, diff *ChangeBatch) {
	for id := range a.front {
		if id >= low {
			delete(a.front, id)
			diff.Update(Installed(id), -1)
			a.push(&a.hidden, Installed(id))
		}
	}
}

// show puts into the frontier what no Future dominates any more.
func (a *MutableAntichain) show(low uint64, bounded bool, diff *ChangeBatch) {
	for len(a.hidden) > 0 && (!bounded || a.hidden[0] < low) {
		t := Installed(a.hidden.pop())
		if _, in := a.front[t.id]; in || a.counts[t] <= 0 {
			continue
		}
		a.front[t.id] = struct{}{}
		diff.Update(t, 1)
	}
}

func (a *MutableAntichain) dropStaleFutures() {
	for len(a.futures) > 0 && a.counts[Future(a.futures[0])] <= 0 {
		a.futures.pop()
	}
}

// low is the lower end of the Future in the frontier, if there is one.
func (a *MutableAntichain) low() (uint64, bool) {
	if len(a.futures) == 0 {
		return 0, false
	}
	return a.futures[0], true
}

// Frontier is the minimal times, in the order of Compare: at most one Future,
// then Installed below it. The slice is the caller's.
func (a *MutableAntichain) Frontier() []Time {
	low, bounded := a.low()
	return frontier(low, bounded, a.front)
}

// LessEqual reports whether some time of the frontier is <= t. For an
// Installed(k) that is: somebody may still schedule k.
func (a *MutableAntichain) LessEqual(t Time) bool {
	if low, bounded := a.low(); bounded && low <= t.id {
		return true
	}
	_, in := a.front[t.id]
	return in && t.installed
}

// frontier lists an antichain.
func frontier(low uint64, bounded bool, installed map[uint64]struct{}) []Time {
	out := make([]Time, 0, len(installed)+1)
	if bounded {
		out = append(out, Future(low))
	}
	for id := range installed {
		out = append(out, Installed(id))
	}
	slices.SortFunc(out, Time.Compare)
	return out
}
