package frontier

import (
	"fmt"
	"testing"
)

// BenchmarkEvent is the cost of one event at a view that knows so many live
// dataflows on each of four workers: an install, or the retraction of an old one.
func BenchmarkEvent(b *testing.B) {
	for _, live := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint("live=", live), func(b *testing.B) {
			const workers = 4
			v := NewView(workers)
			seq := uint64(0)
			next := uint64(0)
			for range live {
				install(b, v, workers, &seq, next)
				next++
			}
			b.ResetTimer()
			b.ReportAllocs()
			for i := 0; i < b.N; i += 2 * workers {
				retract(b, v, workers, &seq, next-uint64(live))
				install(b, v, workers, &seq, next)
				next++
				for _, id := range v.Released() {
					v.Forget(id)
				}
			}
		})
	}
}

// BenchmarkDay is 100,000 dataflows that each of four workers installs and ends.
func BenchmarkDay(b *testing.B) {
	b.ReportAllocs()
	for range b.N {
		const workers = 4
		v := NewView(workers)
		seq := uint64(0)
		released := 0
		for id := range uint64(100_000) {
			install(b, v, workers, &seq, id)
			if id >= 50 {
				retract(b, v, workers, &seq, id-50)
			}
			released += len(v.Released())
		}
		if released != 100_000-50 {
			b.Fatalf("%d released", released)
		}
	}
}

// BenchmarkLaggard is the same with one worker that starts when all others have
// ended.
func BenchmarkLaggard(b *testing.B) {
	for range b.N {
		v := NewView(2)
		var seq [2]uint64
		for w := range 2 {
			for id := range uint64(100_000) {
				apply1(b, v, w, &seq[w], Install(id))
				apply1(b, v, w, &seq[w], Retract(id, Completed))
			}
		}
		if n := len(v.Released()); n != 100_000 {
			b.Fatalf("%d released", n)
		}
	}
}

// BenchmarkCounted is the cost of one event at the counted form.
func BenchmarkCounted(b *testing.B) {
	for _, live := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint("live=", live), func(b *testing.B) {
			var a MutableAntichain
			a.Update(byHand(Future(0), 1))
			next := uint64(0)
			for range live {
				a.Update(Install(next))
				next++
			}
			b.ResetTimer()
			for i := 0; i < b.N; i += 2 {
				a.Update(Retract(next-uint64(live), Completed))
				a.Update(Install(next))
				next++
			}
		})
	}
}

func install(b *testing.B, v *View, workers int, seq *uint64, id uint64) {
	say(b, v, workers, seq, Install(id))
}

func retract(b *testing.B, v *View, workers int, seq *uint64, id uint64) {
	say(b, v, workers, seq, Retract(id, Completed))
}

// say applies a batch for every worker.
func say(b *testing.B, v *View, workers int, seq *uint64, batch ChangeBatch) {
	for w := range workers {
		if err := v.Apply(w, *seq, batch); err != nil {
			b.Fatal(err)
		}
	}
	*seq++
}

func apply1(b *testing.B, v *View, worker int, seq *uint64, batch ChangeBatch) {
	if err := v.Apply(worker, *seq, batch); err != nil {
		b.Fatal(err)
	}
	*seq++
}
