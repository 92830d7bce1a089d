package enginetest

import (
	"context"
	"errors"
	"time"

	"operon/engine/body"
)

// batches is the body of a task whose jobs go to a process that stays: there is
// none, and the jobs of a batch run at once.
type batches struct{ runner }

// slow is how long a job of a batch says that it took: how soon the test ends it
// must not decide what becomes of the others.
const slow = time.Second

// end is how a job of a batch ended.
type end struct {
	index int
	outcome
}

// RunBatch runs a batch until the test has ended all jobs that began.
func (x batches) RunBatch(ctx context.Context, _ *body.Slot, jobs []*body.Job, b body.Batch) {
	places := max(1, x.t.Body.Concurrency)
	ends := make(chan end, places)
	wake := make(chan struct{}, 1)
	wakeUp := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	type begun struct {
		name string
		*job
	}
	held := map[int]begun{}
	next, failed := 0, false
	for {
		for len(held) < places && !failed && ctx.Err() == nil && !b.Stopped() {
			if len(jobs) == 0 && next > 0 {
				jobs = b.More(places-len(held), wakeUp)
			}
			if len(jobs) == 0 {
				break
			}
			n := next
			name, j := x.begin(jobs[0], func(o outcome) { ends <- end{n, o} })
			held[n] = begun{name, j}
			jobs, next = jobs[1:], next+1
		}
		if len(held) == 0 {
			return
		}
		select {
		case e := <-ends:
			delete(held, e.index)
			var f *body.Failure
			if errors.As(e.err, &f) {
				failed = len(jobs) > 0
			}
			if e.result != nil {
				e.result.Usage.Wall = slow
			}
			b.Done(e.index, e.result, f)
		case <-wake:
		case <-ctx.Done():
			for n, j := range held {
				x.r.leave(j.name, j.job)
				b.Done(n, nil, stopped())
			}
			return
		}
	}
}

// Close ends nothing: there is no process.
func (x batches) Close(context.Context) {}
