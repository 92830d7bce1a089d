package storage

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestInstances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s instances
		model := map[uint64]bool{}
		base := rapid.SampledFrom([]uint64{0, 1000, 1<<64 - 21}).Draw(t, "base")
		for _, n := range rapid.SliceOf(rapid.Uint64Range(0, 20)).Draw(t, "numbers") {
			s.add(base + n)
			model[base+n] = true
		}
		var want []uint64
		for n := range uint64(21) {
			if s.has(base+n) != model[base+n] {
				t.Fatalf("%d: %v", base+n, s)
			}
			if model[base+n] {
				want = append(want, base+n)
			}
		}
		if got := slices.Collect(s.all); !slices.Equal(got, want) {
			t.Fatalf("%v, not %v", got, want)
		}
		for i := 1; i < len(s.ranges); i++ {
			if s.ranges[i-1].last+1 >= s.ranges[i].first {
				t.Fatalf("ranges that touch: %v", s.ranges)
			}
		}
		other := s.clone()
		other.add(base + 500)
		if s.has(base + 500) {
			t.Fatal("a clone shares")
		}
	})
}
