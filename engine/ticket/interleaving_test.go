package ticket

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"operon/engine/ticket/reference"
	"operon/spec"
	"operon/spec/coord"
)

// tryRules runs a pipeline under mutated rules, and returns what went wrong. A
// mutant may also break the table's own assumptions; that counts as noticed.
func tryRules(p *spec.Pipeline, lengths reference.Lengths, r rules, rng interface{ IntN(int) int }) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	s := newSimulation(p, lengths, r)
	for steps := 0; len(s.ready) > 0; steps++ {
		if steps > 2000 {
			return fmt.Errorf("does not end")
		}
		if err := s.finish(rng.IntN(len(s.ready))); err != nil {
			return err
		}
	}
	return s.verify()
}

// explorer visits every interleaving of a small pipeline: it finishes the ready
// jobs in every order, and where two orders finish the same jobs the tables must
// be the same.
type explorer struct {
	t       *testing.T
	p       *spec.Pipeline
	lengths reference.Lengths
	fails   reference.Holes
	seen    map[string]string // set of finished jobs -> image of the table
	orders  int
}

func (e *explorer) visit(path []ticketAt) {
	s := newSimulation(e.p, e.lengths, rules{})
	s.fails = e.fails
	for _, job := range path {
		n := slices.Index(s.ready, job)
		if n < 0 {
			e.t.Fatalf("%v is not ready after another order", job)
		}
		if err := s.finish(n); err != nil {
			e.t.Fatal(err)
		}
	}
	if err := s.check(); err != nil {
		e.t.Fatal(err)
	}
	key, image := s.finished(), s.image()
	if before, ok := e.seen[key]; ok {
		if before != image {
			e.t.Fatalf("two orders of %s differ:\n%s\n%s", key, before, image)
		}
		return
	}
	e.seen[key] = image
	if len(s.ready) == 0 {
		e.orders++
		if err := s.verify(); err != nil {
			e.t.Fatal(err)
		}
		return
	}
	for _, job := range s.ready {
		e.visit(append(slices.Clone(path), job))
	}
}

func (s *simulation) finished() string {
	var out []string
	for i, done := range s.done {
		for c := range done {
			out = append(out, fmt.Sprint(i, c.Indices()))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// image is all of a table that later events depend on: shares that are not born
// yet are born first.
func (s *simulation) image() string {
	var out []string
	for _, job := range s.ready {
		out = append(out, fmt.Sprint("ready", job.task, job.c.Indices()))
	}
	for i, t := range s.table.tasks {
		out = append(out, fmt.Sprint("counts", i, t.counts))
		for _, r := range t.refs {
			if r.shares == nil {
				continue
			}
			s.table.families(r.up, func(c coord.Coord) {
				pins := c.Project(r.pinsUp)
				if !strings.Contains(string(pins), string(coord.Of(unbound))) {
					s.table.share(r, pins)
				}
			})
			for pins, share := range r.shares {
				out = append(out, fmt.Sprint("share", i, r.index, pins.Indices(), share.done, share.quota, share.shaped, share.ready, share.holes))
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func TestEveryInterleaving(t *testing.T) {
	for _, c := range []struct {
		name, text string
		lengths    map[string][]uint32
	}{
		{"chain", `A<i> = a()
			B<j> = b(A) for i
			C = c(B<j>) for i
			D = d(C<i>)`, map[string][]uint32{"i": {3}, "j": {2, 0, 1}}},
		{"two roots", `A<i> = a()
			B<j> = b()
			X = x(A, B) for i, j
			R = r(X<j>) for i
			C = c(X<i>) for j
			Z = z(R<i>, C<j>)`, map[string][]uint32{"i": {2}, "j": {2}}},
		{"two roots, one empty", `A<i> = a()
			B<j> = b()
			X = x(A, B) for i, j
			R = r(X<j>) for i
			C = c(X<i>) for j
			Z = z(R<i>, C<j>)`, map[string][]uint32{"i": {2}, "j": {0}}},
		{"crossed, j empty at one", reference.Crossed, map[string][]uint32{"i": {2}, "j": {0, 1}, "k": {1, 1}}},
		{"crossed, all empty", reference.Crossed, map[string][]uint32{"i": {2}, "j": {0}, "k": {0}}},
		{"late k", `A<i> = a()
			B<j> = b(A) for i
			C<k> = c(A) for i
			D = d(B, C) for i, j, k
			E = e(D<j>) for i, k`, map[string][]uint32{"i": {1}, "j": {2}, "k": {2}}},
		{"barrier", `A<i> = a()
			E<m> = e(A<i>)
			F = f(A, E) for i, m
			G = g(F<i>) for m`, map[string][]uint32{"i": {2}, "m": {2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &explorer{t: t, p: load(t, reference.Parse(c.text)), lengths: fixed(c.lengths), seen: map[string]string{}}
			e.visit(nil)
			t.Logf("%d states", len(e.seen))
			if e.orders == 0 {
				t.Fatal("no order reached the end")
			}
		})
	}
}
