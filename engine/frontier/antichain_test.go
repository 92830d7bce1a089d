package frontier

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naiveFrontier is the definition: the positive times with no lesser positive.
func naiveFrontier(counts map[Time]int64) []Time {
	out := []Time{}
	for t, n := range counts {
		minimal := n > 0
		for u, m := range counts {
			minimal = minimal && !(m > 0 && u != t && u.LessEqual(t))
		}
		if minimal {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, Time.Compare)
	return out
}

func anyBatch(sizes, delta int) *rapid.Generator[ChangeBatch] {
	return rapid.Custom(func(t *rapid.T) ChangeBatch {
		var b ChangeBatch
		for range rapid.IntRange(0, sizes).Draw(t, "size") {
			b.Update(anyTime().Draw(t, "time"), rapid.Int64Range(-int64(delta), int64(delta)).Draw(t, "delta"))
		}
		return b
	})
}

// TestAntichain is F02: the frontier, what changed in it, and every question
// about it, against the definition, counts below zero included.
func TestAntichain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a MutableAntichain
		sums := map[Time]int64{}
		for range rapid.IntRange(1, 40).Draw(t, "batches") {
			b := anyBatch(6, 3).Draw(t, "batch")
			checkAntichainStep(t, &a, sums, b)
		}
	})
}

type tester interface {
	Fatalf(format string, args ...any)
}

func checkAntichainStep(t tester, a *MutableAntichain, sums map[Time]int64, b ChangeBatch) {
	was := map[Time]int64{}
	for _, x := range a.Frontier() {
		was[x]++
	}
	diff := a.Update(b)
	for x, n := range b.All() {
		sums[x] += n
	}
	want := naiveFrontier(sums)
	if got := a.Frontier(); !slices.Equal(got, want) {
		t.Fatalf("frontier of %v: %v, want %v", sums, got, want)
	}
	for x, n := range diff.All() {
		if was[x] += n; was[x] == 0 {
			delete(was, x)
		}
	}
	moved := slices.SortedFunc(maps.Keys(was), Time.Compare)
	for _, x := range moved {
		if was[x] != 1 {
			t.Fatalf("the old frontier and its changes give %v %d times", x, was[x])
		}
	}
	if !slices.Equal(moved, want) {
		t.Fatalf("the old frontier and its changes give %v, want %v", moved, want)
	}
	for _, x := range times(9) {
		if got, want := a.LessEqual(x), slices.ContainsFunc(want, func(f Time) bool { return f.LessEqual(x) }); got != want {
			t.Fatalf("frontier %v <= %v: %v, want %v", a.Frontier(), x, got, want)
		}
	}
}

func TestZeroAntichain(t *testing.T) {
	var a MutableAntichain
	if len(a.Frontier()) != 0 || a.LessEqual(Installed(0)) || a.LessEqual(Future(0)) {
		t.Error("the zero antichain is not empty")
	}
	if diff := a.Update(ChangeBatch{}); !diff.IsEmpty() {
		t.Errorf("an empty batch changes the frontier: %v", counts(diff))
	}
}

// TestAntichainStaysSmall: with one worker stalled and others that install and
// retract for ever, what is kept does not grow.
func TestAntichainStaysSmall(t *testing.T) {
	var a MutableAntichain
	var start ChangeBatch
	start.Update(Future(0), 2)
	a.Update(start)
	for id := range uint64(10_000) {
		a.Update(Install(id))
		a.Update(Retract(id, Completed))
	}
	if n := len(a.hidden) + len(a.futures) + len(a.counts); n > 10*compactAfter {
		t.Errorf("%d entries for two Futures", n)
	}
	if got := a.Frontier(); !slices.Equal(got, []Time{Future(0)}) {
		t.Errorf("frontier %v", got)
	}
}
