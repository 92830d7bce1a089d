package ticket

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"operon/engine/ticket/reference"
)

// randomHoles says of every job whether it fails: one in few does.
func randomHoles(seed uint64, oneIn uint64) reference.Holes {
	lengths := reference.RandomLengths(seed, 1<<30)
	return func(task string, at []uint32) bool { return uint64(lengths("hole of "+task, at))%oneIn == 1 }
}

// holeCase is a random pipeline in which some jobs fail, and some slices take
// their holes for nulls.
func holeCase(t *testing.T, seed uint64) (reference.Pipeline, *simulation, *rand.Rand) {
	rng := rand.New(rand.NewPCG(seed, 99))
	decl := reference.Random(rng, reference.Limits{Tasks: 10, Dims: 4, Crossed: seed%3 == 0, Holes: true})
	most := uint32(4)
	if seed%4 != 1 {
		most = 2
	}
	s := newSimulation(load(t, decl), reference.RandomLengths(seed, most), rules{})
	s.fails = randomHoles(seed, 2+seed%7)
	return decl, s, rng
}

// Holes go where the reference says, whatever the order, and the counters hold
// after every event.
func TestHolesOfRandomPipelines(t *testing.T) {
	holes, runs, nulls := int64(0), 0, 0
	for seed := range uint64(scale(900)) {
		decl, s, rng := holeCase(t, seed)
		if s.tooLarge() {
			continue
		}
		for name, pick := range picks(rng) {
			again := newSimulation(s.p, s.lengths, rules{})
			again.fails = s.fails
			if err := again.run(pick, true); err != nil {
				t.Fatalf("seed %d, order %s: %v\n%s", seed, name, err, decl)
			}
			runs++
			for _, task := range s.p.Tasks {
				holes += again.table.Counts(task.Index).Holes
			}
		}
		for _, d := range decl {
			for _, in := range d.In {
				if in.HolesNull {
					nulls++
				}
			}
		}
	}
	t.Logf("%d runs, %d holes, %d inputs that take them for nulls, 0 wrong", runs, holes, nulls)
	if holes < 500 || nulls < 100 {
		t.Error("too few to tell anything")
	}
}

// Every order in which the jobs of small shapes can end gives the same table.
func TestEveryInterleavingWithHoles(t *testing.T) {
	at := func(names ...string) reference.Holes {
		return func(task string, at []uint32) bool {
			for _, n := range names {
				if n == fmt.Sprint(task, at) {
					return true
				}
			}
			return false
		}
	}
	for _, c := range []struct {
		name, text string
		lengths    map[string][]uint32
		fails      reference.Holes
	}{
		{"inner list", `A<i> = a()
			B<j> = b(A) for i
			C = c(B<i, j>)
			D = d(B<i, j>?)
			E = e(B<j>?) for i`, map[string][]uint32{"i": {2}, "j": {1}}, at("b[1]")},
		{"item", `A<i> = a()
			B = b(A) for i
			C = c(B<i>)
			D<j> = d(B<i>?)
			E = e(D, C) for j`, map[string][]uint32{"i": {2}, "j": {1}}, at("b[0]")},
		{"crossed, j is no list", reference.Crossed, map[string][]uint32{"i": {1}, "j": {2}, "k": {2}}, at("b[0]")},
		{"crossed, k empty, j no list", reference.Crossed, map[string][]uint32{"i": {1}, "j": {2}, "k": {0}}, at("b[0]")},
		{"the root", `A<i> = a()
			B = b(A) for i
			C = c(B<i>?)
			D = d(C)`, map[string][]uint32{"i": {2}}, at("a[]")},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &explorer{t: t, p: load(t, reference.Parse(c.text)), lengths: fixed(c.lengths), fails: c.fails, seen: map[string]string{}}
			e.visit(nil)
			if e.orders == 0 {
				t.Fatal("no order reached the end")
			}
		})
	}
}

// What the holes of a shape do, one by one.
func TestWhatHolesDo(t *testing.T) {
	for _, c := range []struct {
		name, text string
		lengths    map[string][]uint32
		fails      string
		holes      map[string]int64
	}{
		{"taken directly", `A<i> = a()
			B = b(A) for i
			C = c(B) for i`, map[string][]uint32{"i": {3}}, "b[1]", map[string]int64{"b": 1, "c": 1}},
		{"null does not help where there is no list", `A<i> = a()
			B<j> = b(A) for i
			C = c(B<j>?) for i
			D = d(C<i>?)`, map[string][]uint32{"i": {3}, "j": {2}}, "b[1]", map[string]int64{"b": 1, "c": 1, "d": 0}},
		{"another entity along the dimension of a hole", `A<i> = a()
			B<j> = b(A) for i
			C = c(A) for i, j
			D = d(C<j>) for i
			E = e(C<i, j>)
			F = f(C<i, j>?)`, map[string][]uint32{"i": {2}, "j": {2}}, "b[0]", map[string]int64{"b": 1, "c": 0, "d": 1, "e": 1, "f": 0}},
		{"under an empty list nothing is met", `A<i> = a()
			B<j> = b(A) for i
			C<k> = c(A) for i
			D = d(B, C) for i, j, k
			E = e(D<k, j>) for i
			F = f(D<j, k>) for i`, map[string][]uint32{"i": {1}, "j": {2}, "k": {0}}, "b[0]", map[string]int64{"b": 1, "e": 0, "f": 1}},
		{"broadcast of a hole", `A = a()
			B<i> = b()
			C = c(A) for i`, map[string][]uint32{"i": {3}}, "a[]", map[string]int64{"a": 1, "b": 0, "c": 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSimulation(load(t, reference.Parse(c.text)), fixed(c.lengths), rules{})
			s.fails = func(task string, at []uint32) bool { return fmt.Sprint(task, at) == c.fails }
			if err := s.run(func(int) int { return 0 }, true); err != nil {
				t.Fatal(err)
			}
			for task, want := range c.holes {
				if got := s.table.Counts(s.p.Task(task).Index).Holes; got != want {
					t.Errorf("%d holes in %s, want %d", got, task, want)
				}
			}
		})
	}
}

// The pages of a table with holes restore it, at any moment.
func TestPagesRestoreHoles(t *testing.T) {
	for seed := range uint64(scale(300)) {
		decl, s, rng := holeCase(t, seed)
		if s.tooLarge() {
			continue
		}
		for stop := rng.IntN(60); len(s.ready) > 0 && stop > 0; stop-- {
			if err := s.finish(rng.IntN(len(s.ready))); err != nil {
				t.Fatal(err)
			}
		}
		again := newSimulation(s.p, s.lengths, rules{})
		again.fails = s.fails
		again.restore(t, s.table.Changes())
		again.have, again.done, again.known, again.model = s.have, s.done, s.known, s.model
		if a, b := s.image(), again.image(); a != b {
			t.Fatalf("seed %d: restored\n%s\nwas\n%s\n%s", seed, b, a, decl)
		}
		if err := again.run(rng.IntN, true); err != nil {
			t.Fatalf("seed %d: after restoring: %v\n%s", seed, err, decl)
		}
	}
}

// Ranges keep tickets that run apart from those that are holes.
func TestARangeIsAllHolesOrNone(t *testing.T) {
	p := load(t, reference.Parse(`A<i> = a()
		B = b(A) for i
		C<j> = c()
		D = d(B, C) for i, j`))
	table, _ := New(p)
	index := func(name string) int { return p.Task(name).Index }
	must := func(r []Range, err error) []Range {
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	must(table.OnJob(index("a"), "", 2))
	must(table.OnHole(index("b"), At(1, "", 0)))
	must(table.OnJob(index("b"), At(1, "", 1), 1))
	var hole, run int
	for _, r := range must(table.OnJob(index("c"), "", 3)) {
		if r.Hole {
			hole += r.Len()
		} else {
			run += r.Len()
		}
	}
	if hole != 3 || run != 3 {
		t.Errorf("%d holes and %d jobs that run", hole, run)
	}
	if got := table.Blocked(); got[index("d")] != 0 {
		t.Errorf("a hole blocks %d", got[index("d")])
	}
}
