package ticket

import (
	"testing"

	"operon/engine/ticket/reference"
)

// A slice of n items that n jobs take costs n counter updates for the items and
// none for the jobs that share it: linear in 2n, where a counter a ticket would
// take n².
func TestBroadcastSliceIsLinear(t *testing.T) {
	const n = 3000
	p := load(t, reference.Parse(`
		A<i> = a()
		B = b(A) for i
		C<j> = c()
		D = d(B<i>) for j`))
	s := newSimulation(p, fixed(map[string][]uint32{"i": {n}, "j": {n}}), rules{})
	done := 0
	for len(s.ready) > 0 {
		job := s.ready[0]
		s.ready = s.ready[1:]
		extent := uint32(n)
		runnable, err := s.table.OnJob(job.task, job.c, extent)
		if err != nil {
			t.Fatal(err)
		}
		s.push(runnable)
		done++
	}
	if !s.table.Complete() || done != 2+2*n {
		t.Fatalf("%d jobs done: %s", done, s.table.Waits())
	}
	if s.table.updates > 2*n+10 {
		t.Errorf("%d counter updates for a slice of %d taken by %d", s.table.updates, n, n)
	}
}

// Exploding into a million children is one change and one range, not a million.
func TestExplosionIntoAMillionIsOneRange(t *testing.T) {
	p := load(t, reference.Parse(`
		A<i> = a()
		B = b(A) for i
		C = c(B<i>)`))
	table, runnable := New(p)
	table.Changes()
	root := runnable[0].Task
	runnable, err := table.OnJob(root, "", 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	if len(runnable) != 1 || runnable[0].Len() != 1_000_000 {
		t.Fatalf("%d ranges", len(runnable))
	}
	c := table.Changes()
	if n := len(c.Tickets) + len(c.Resolutions) + len(c.Shares); n > 5 {
		t.Errorf("%d keys written: %+v", n, c)
	}
}

func BenchmarkChain(b *testing.B) {
	p := load(b, reference.Parse(`
		A<i> = a()
		B = b(A) for i
		C = c(B) for i
		D = d(C<i>)`))
	for b.Loop() {
		table, runnable := New(p)
		queue := runnable
		for len(queue) > 0 {
			r := queue[0]
			queue = queue[1:]
			for i := r.Lo; i < r.Hi; i++ {
				more, err := table.OnJob(r.Task, At(len(p.Tasks[r.Task].Context), r.Prefix, i), 100_000)
				if err != nil {
					b.Fatal(err)
				}
				queue = append(queue, more...)
			}
		}
		if !table.Complete() {
			b.Fatal(table.Waits())
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/200_002, "ns/job")
}
