package engine

import (
	"slices"
	"testing"

	"operon/engine/worker"
	"operon/spec/coord"
)

// A job at which a worker died runs alone, whether it is due again, or waits for the
// GPUs that it had.
func TestJobsThatWorkersDiedAtGoAlone(t *testing.T) {
	job := func(i uint32) worker.Job { return worker.Job{Coord: coord.Of(i), Attempt: 2} }
	want := [][]uint32{{0, 1}, {2}, {3}, {4, 5}}
	take := func(what string, next func() []worker.Job) {
		for _, w := range want {
			var got []uint32
			for _, j := range next() {
				got = append(got, j.Coord.At(0))
			}
			if !slices.Equal(got, w) {
				t.Errorf("%s: %v, not %v", what, got, w)
			}
		}
	}
	f := &flow{queue: &queue{}}
	f.deaths = map[coord.Coord]int{coord.Of(2): 1, coord.Of(3): 2}
	p := &pinned{}
	for i := range uint32(6) {
		f.again = append(f.again, job(i))
		p.jobs = append(p.jobs, pin{job: job(i)})
	}
	f.pins = []*pinned{p}
	take("due again", func() []worker.Job { return f.take(9) })
	take("pinned", func() []worker.Job { return f.takePinned(p, 9) })
	if len(f.pins) != 0 {
		t.Error("pins are left")
	}
}
