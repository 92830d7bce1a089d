package ticket

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"operon/engine/ticket/reference"
	"operon/spec/coord"
)

// Replaying the stored pages gives the table that wrote them, at any moment of
// any run: counts, shares, and what is runnable.
func TestPagesRestoreTheTable(t *testing.T) {
	for seed := range uint64(scale(300)) {
		decl, lengths, rng := randomCase(seed)
		p := load(t, decl)
		s := newSimulation(p, lengths, rules{})
		if s.tooLarge() {
			continue
		}
		var stored Changes
		for stop := rng.IntN(60); len(s.ready) > 0 && stop > 0; stop-- {
			if err := s.finish(rng.IntN(len(s.ready))); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(3) == 0 {
				stored = merge(stored, s.table.Changes())
			}
		}
		stored = merge(stored, s.table.Changes())
		again := newSimulation(p, lengths, rules{})
		again.restore(t, stored)
		again.have, again.done, again.known, again.model = s.have, s.done, s.known, s.model
		if a, b := s.image(), again.image(); a != b {
			t.Fatalf("seed %d: restored\n%s\nwas\n%s\n%s", seed, b, a, decl)
		}
		if err := again.check(); err != nil {
			t.Fatal(err)
		}
		if err := again.run(rng.IntN, false); err != nil {
			t.Fatalf("seed %d: after restoring: %v", seed, err)
		}
	}
}

// merge lays later pages over earlier ones.
func merge(a, b Changes) Changes {
	over := func(a, b []Page) []Page {
		for _, p := range b {
			a = slices.DeleteFunc(a, func(o Page) bool {
				return o.Task == p.Task && o.Prefix == p.Prefix && o.Number == p.Number
			})
			a = append(a, p)
		}
		return a
	}
	return Changes{Tickets: over(a.Tickets, b.Tickets), Resolutions: over(a.Resolutions, b.Resolutions)}
}

func (s *simulation) restore(t *testing.T, c Changes) {
	t.Helper()
	lengths := map[string]uint32{}
	for _, page := range c.Resolutions {
		err := DecodeExtents(page.Number, page.Data, func(i, n uint32) error {
			lengths[fmt.Sprint(page.Task, At(len(s.p.Tasks[page.Task].Context), page.Prefix, i).Indices())] = n
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, task := range s.p.Topo {
		for _, page := range c.Tickets {
			if page.Task != task.Index {
				continue
			}
			err := DecodeTickets(page.Number, page.Data, func(i uint32, status Status) error {
				at := At(len(task.Context), page.Prefix, i)
				var runnable []Range
				var err error
				if status == Hole {
					runnable, err = s.table.OnHole(task.Index, at)
				} else {
					runnable, err = s.table.OnJob(task.Index, at, lengths[fmt.Sprint(task.Index, at.Indices())])
				}
				s.push(runnable)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	s.ready = slices.DeleteFunc(s.ready, func(j ticketAt) bool { return s.table.Status(j.task, j.c) != Queued })
}

// An event that can't be is refused and changes nothing.
func TestImpossibleEvents(t *testing.T) {
	p := load(t, reference.Parse(`
		A<i> = a()
		B = b(A) for i`))
	table, _ := New(p)
	a, b := p.Task("a").Index, p.Task("b").Index
	if _, err := table.OnJob(b, coord.Of(0), 1); err == nil {
		t.Error("a ticket without slots bound was finished")
	}
	if _, err := table.OnJob(a, coord.Of(0), 1); err == nil {
		t.Error("a coordinate too long was taken")
	}
	if _, err := table.OnJob(a, "", coord.MaxExtent); err == nil {
		t.Error("a list too long was taken")
	}
	if _, err := table.OnJob(a, "", 2); err != nil {
		t.Fatal(err)
	}
	if _, err := table.OnJob(a, "", 2); err == nil {
		t.Error("a job was finished twice")
	}
	if _, err := table.OnJob(b, coord.Of(2), 1); err == nil {
		t.Error("an index beyond the list was finished")
	}
	if err := table.OnFailed(b, coord.Of(1)); err != nil {
		t.Fatal(err)
	}
	if got := table.Counts(b); got.Failed != 1 || got.Tickets != 2 || got.Done != 0 {
		t.Errorf("%+v", got)
	}
}

// Blocked tickets are those that need a failed job, by a walk over the whole
// pipeline; everything else finishes without it.
func TestBlockedAgainstKeepGoing(t *testing.T) {
	for seed := range uint64(scale(400)) {
		decl, lengths, rng := randomCase(seed)
		p := load(t, decl)
		s := newSimulation(p, lengths, rules{})
		if s.tooLarge() {
			continue
		}
		for len(s.ready) > 0 {
			n := rng.IntN(len(s.ready))
			if rng.IntN(8) > 0 {
				if err := s.finish(n); err != nil {
					t.Fatal(err)
				}
				continue
			}
			job := s.ready[n]
			s.ready = slices.Delete(s.ready, n, n+1)
			if err := s.table.OnFailed(job.task, job.c); err != nil {
				t.Fatal(err)
			}
		}
		// Whatever may run has run: what still waits is blocked, all of it.
		for i, blocked := range s.table.Blocked() {
			if c := s.table.Counts(i); blocked != c.Waiting() || c.Promoted != c.Done+c.Failed {
				t.Fatalf("seed %d: task %s: %d blocked, counts %+v\n%s", seed, p.Tasks[i].Name, blocked, c, decl)
			}
		}
	}
}

func FuzzDecodePages(f *testing.F) {
	f.Add(uint32(0), []byte{3, 1, 2, 2})
	f.Add(uint32(4194303), []byte{255, 8, 1})
	f.Fuzz(func(t *testing.T, number uint32, data []byte) {
		number %= 1 << 22
		seen := map[uint32]bool{}
		_ = DecodeTickets(number, data, func(i uint32, s Status) error {
			if seen[i] || i/PageSize != number {
				t.Fatalf("ticket %d of page %d", i, number)
			}
			seen[i] = true
			return nil
		})
		seen = map[uint32]bool{}
		_ = DecodeExtents(number, data, func(i, n uint32) error {
			if seen[i] || i/PageSize != number {
				t.Fatalf("extent %d of page %d", i, number)
			}
			seen[i] = true
			return nil
		})
	})
}

func TestPageRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := uint32(1 + rng.IntN(3000))
		r := &row{n: n}
		for range rng.IntN(300) {
			i := rng.Uint32N(n)
			r.done.add(i)
			r.setExtent(i, rng.Uint32N(400))
			r.failed.add(rng.Uint32N(n))
		}
		for page := range (n + PageSize - 1) / PageSize {
			next := page * PageSize
			expect := func(i uint32, s Status) error {
				for ; next < i; next++ {
					if r.stored(next) != Waiting {
						t.Fatalf("%d was left out", next)
					}
				}
				if r.stored(i) != s {
					t.Fatalf("%d is %v, want %v", i, s, r.stored(i))
				}
				next++
				return nil
			}
			if err := DecodeTickets(page, r.encodeTickets(page), expect); err != nil {
				t.Fatal(err)
			}
			got := map[uint32]uint32{}
			if err := DecodeExtents(page, r.encodeExtents(page), func(i, n uint32) error { got[i] = n; return nil }); err != nil {
				t.Fatal(err)
			}
			for i := page * PageSize; i < min(n, (page+1)*PageSize); i++ {
				want, known := r.extent(i)
				if g, ok := got[i]; ok != known || g != want {
					t.Fatalf("extent %d: %d %v, want %d %v", i, g, ok, want, known)
				}
			}
		}
	}
}
