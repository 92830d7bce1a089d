package frontier

import (
	"slices"
	"strings"
	"testing"
)

// alone forgets that a Future leads to what is not installed yet.
func alone(a, b Time) bool { return a == b }

// TestMutationsAreCaught breaks what the design rests on, a thing at a time, and
// has the checker find out.
func TestMutationsAreCaught(t *testing.T) {
	if caught, all := catchMutations(t, t.Logf); caught < all {
		t.Errorf("mutations caught: %d of %d", caught, all)
	}
}

func catchMutations(t *testing.T, logf func(string, ...any)) (caught, all int) {
	mutations := []struct {
		name string
		model
		want string // the property that goes
	}{
		{"F07 a repeated batch counts again",
			model{workers: 2, ids: 2, duplicate: 1, start: startCounts(2)}, "S1"},
		{"F09 the items of a batch count one by one, the retraction first",
			model{workers: 2, ids: 1, split: true, start: startCounts(2)}, "S1"},
		{"F10 an observer does not count itself at the start",
			model{workers: 2, ids: 1, start: startCounts(1)}, "S1"},
		{"F11 an order by id",
			model{workers: 2, ids: 2, start: func() observer { return newCounts(2, 0, byID) }}, "L1, L2"},
		{"no Future stands for what is not installed yet",
			model{workers: 2, ids: 1, start: func() observer { return newCounts(2, 0, alone) }}, "S1"},
		{"F25 a worker joins by saying so",
			model{workers: 2, ids: 1, member: memberAsync, start: startCounts(2)}, "S1"},
		{"F28 a worker taken for dead goes on",
			model{workers: 2, ids: 2, member: memberZombie, start: startView(2)}, "S1"},
		{"a worker that is replaced crashes, and then joins",
			model{workers: 2, ids: 1, member: memberReplace, start: func() observer { return viewObserver{v: NewView(2), forgets: true} }}, "S1"},
		{"a drop is told as a completion",
			model{workers: 2, ids: 1, labels: true, start: startFlattering(2)}, "F33"},
	}
	for _, m := range mutations {
		got := m.explore()
		if !strings.HasPrefix(got.violation, m.want) {
			t.Errorf("%s: want a violation of %s, got %v", m.name, m.want, got)
			continue
		}
		caught++
		logf("%s: %v", m.name, got)
	}
	return caught, len(mutations)
}

// startFlattering is a view that hears of every end that it was a completion.
func startFlattering(workers int) func() observer {
	flatter := func(b ChangeBatch) ChangeBatch {
		changes := slices.Clone(b.changes())
		for i := range changes {
			changes[i].outcome = min(changes[i].outcome, Completed)
		}
		return consolidated(changes)
	}
	return func() observer { return viewObserver{v: NewView(workers), hear: flatter} }
}
