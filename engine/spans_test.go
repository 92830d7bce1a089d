package engine

import (
	"testing"

	"pgregory.net/rapid"

	"operon/spec/coord"
)

// A set of spans is the set of their coordinates.
func TestSpanSet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		set, want := spanSet{dims: 2}, map[[2]uint32]bool{}
		for range rapid.IntRange(0, 40).Draw(rt, "n") {
			i, lo := rapid.Uint32Range(0, 3).Draw(rt, "i"), rapid.Uint32Range(0, 30).Draw(rt, "lo")
			hi := lo + rapid.Uint32Range(0, 5).Draw(rt, "more")
			set.add(spanOf(coord.Of(i, lo), coord.Of(i, hi)))
			for j := lo; j <= hi; j++ {
				want[[2]uint32{i, j}] = true
			}
			if rapid.Bool().Draw(rt, "seal") {
				set.seal()
			}
		}
		set.seal()
		if set.count() != int64(len(want)) {
			rt.Fatalf("%d coordinates, want %d", set.count(), len(want))
		}
		last := coord.Coord("")
		err := set.each(func(c coord.Coord) error {
			if c <= last && last != "" || !want[[2]uint32{c.At(0), c.At(1)}] {
				rt.Fatalf("%v after %v", c.Indices(), last.Indices())
			}
			last = c
			return nil
		})
		if err != nil {
			rt.Fatal(err)
		}
		for i := range uint32(4) {
			for j := range uint32(38) {
				if got := set.touches(spanOf(coord.Of(i, j), coord.Of(i, j+1))); got != (want[[2]uint32{i, j}] || want[[2]uint32{i, j + 1}]) {
					rt.Fatalf("touches %d,%d: %v", i, j, got)
				}
			}
		}
		for n, sp := range set.spans {
			if n > 0 && set.spans[n-1].Prefix == sp.Prefix && set.spans[n-1].Hi+1 >= sp.Lo {
				rt.Fatalf("%v and %v touch", set.spans[n-1], sp)
			}
		}
	})
}

func TestSpanOfNoDimensions(t *testing.T) {
	set := spanSet{}
	set.add(spanOf("", ""))
	set.add(spanOf("", ""))
	set.seal()
	n := 0
	set.each(func(coord.Coord) error { n++; return nil })
	if n != 1 || set.count() != 1 || !set.touches(spanOf("", "")) {
		t.Errorf("%d, %d", n, set.count())
	}
}
