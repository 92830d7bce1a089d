package engine

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A random machine: whatever pick does, no bound is ever passed, and a task
// waits only for a reason.
func TestPickKeepsEveryBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1000, 0)
		r := room{
			free:  rapid.IntRange(1, 6).Draw(t, "slots"),
			pools: make([]pool, 2),
			left:  needs{cpus: rapid.Int64Range(0, 4000).Draw(t, "cpus"), mem: rapid.Int64Range(0, 100).Draw(t, "mem"), gpus: rapid.IntRange(0, 3).Draw(t, "gpus")},
		}
		slots, machine := r.free, r.left
		for n := range r.pools {
			r.pools[n].size = rapid.IntRange(0, 3).Draw(t, "size")
			r.pools[n].starts = newBucket(rapid.SampledFrom([]float64{0, 1, 5, 300}).Draw(t, "rate"), time.Second)
		}
		tasks := make([]limits, rapid.IntRange(1, 4).Draw(t, "tasks"))
		for n := range tasks {
			tasks[n] = limits{
				ready: rapid.IntRange(0, 20).Draw(t, "ready"), pool: rapid.IntRange(0, 3).Draw(t, "pool"),
				shared: rapid.IntRange(noPool, 1).Draw(t, "shared"), held: rapid.IntRange(0, 5).Draw(t, "held") == 0,
				batch: rapid.SampledFrom([]int{1, 8}).Draw(t, "batch"),
				needs: needs{cpus: rapid.Int64Range(0, 2000).Draw(t, "need cpus"), mem: rapid.Int64Range(0, 60).Draw(t, "need mem"), gpus: rapid.IntRange(0, 2).Draw(t, "need gpus")},
			}
		}
		var running []int // tasks of commands under way
		starts := make([][]time.Time, len(r.pools))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(running) > 0 && rapid.Bool().Draw(t, "end") {
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				n := running[i]
				running = append(running[:i], running[i+1:]...)
				tasks[n].running--
				r.free++
				r.left = r.left.plus(tasks[n].needs)
				if tasks[n].shared != noPool {
					r.pools[tasks[n].shared].running--
				}
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "ms")) * time.Millisecond)
			n, jobs, wait := pick(tasks, r, now)
			if n < 0 {
				for i := range tasks {
					if reason := whyNot(tasks[i], r, now); reason == "" {
						t.Fatalf("task %d could start, and does not", i)
					} else if reason == "rate" && wait <= 0 {
						t.Fatalf("task %d waits for a token, and nobody would wake", i)
					}
				}
				continue
			}
			task := &tasks[n]
			if jobs < 1 || jobs > task.ready || jobs > task.batch || task.held {
				t.Fatalf("%d jobs of %+v", jobs, *task)
			}
			task.ready -= jobs
			task.running++
			running = append(running, n)
			r.free--
			r.left = r.left.minus(task.needs)
			if task.shared != noPool {
				p := &r.pools[task.shared]
				p.running++
				if p.starts != nil {
					p.starts.take(jobs)
				}
				for range jobs {
					starts[task.shared] = append(starts[task.shared], now)
				}
				if p.size > 0 && p.running > p.size {
					t.Fatalf("%d commands in a pool of %d", p.running, p.size)
				}
			}
			if r.free < 0 || task.pool > 0 && task.running > task.pool || r.left.cpus < 0 || r.left.mem < 0 || r.left.gpus < 0 || len(running) > slots {
				t.Fatalf("too much: %+v, %+v of %+v", *task, r, machine)
			}
		}
		for n, at := range starts {
			checkRate(t, r.pools[n].starts, at)
		}
	})
}

func whyNot(l limits, r room, now time.Time) string {
	switch {
	case l.ready == 0:
		return "ready"
	case l.held:
		return "held"
	case r.free == 0:
		return "slots"
	case l.pool > 0 && l.running >= l.pool:
		return "pool"
	case l.needs.cpus > r.left.cpus || l.needs.mem > r.left.mem || l.needs.gpus > r.left.gpus:
		return "machine"
	case l.shared == noPool:
		return ""
	}
	p := r.pools[l.shared]
	if p.size > 0 && p.running >= p.size {
		return "shared"
	}
	if p.starts != nil && p.starts.have(now) == 0 {
		return "rate"
	}
	return ""
}

// checkRate: no stretch of time sees more starts than the rate and what the
// bucket holds.
func checkRate(t *rapid.T, b *bucket, at []time.Time) {
	if b == nil {
		return
	}
	for i := range at {
		for j := i; j < len(at); j++ {
			if most := at[j].Sub(at[i]).Seconds()*b.rate + b.most + 1e-3; float64(j-i+1) > most {
				t.Fatalf("%d starts in %v, at most %.1f", j-i+1, at[j].Sub(at[i]), most)
			}
		}
	}
}

func TestABucketWakesWhenItSaysSo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBucket(rapid.Float64Range(0.01, 5000).Draw(t, "n"), rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "per"))
		now := time.Unix(0, 0)
		for range 100 {
			for b.have(now) > 0 {
				b.take(1)
			}
			wait := b.next(now)
			if wait <= 0 {
				t.Fatal("empty, and no wait")
			}
			now = now.Add(wait)
			if b.have(now) != 1 {
				t.Fatalf("after %v there are %d tokens (%v)", wait, b.have(now), b.tokens)
			}
		}
	})
	if newBucket(0, time.Second) != nil || newBucket(3, 0) != nil {
		t.Error("no rate is no bucket")
	}
	b := newBucket(1, time.Second)
	now := time.Unix(0, 0)
	b.have(now)
	b.take(1)
	b.giveBack(1)
	b.giveBack(1)
	if b.have(now) != 1 {
		t.Errorf("%v tokens in a bucket of one", b.tokens)
	}
}
