package body

import (
	"context"
	"errors"
	"runtime/metrics"
	"time"

	"operon/spec"
)

// budget is the context of a filter. gojq asks for Done before every step: that
// is where time and memory are looked at, now and then, without a timer or a
// goroutine for each job.
type budget struct {
	context.Context
	start  time.Time
	limit  time.Duration
	memory uint64 // bytes that the heap may grow by
	steps  int
	looked time.Time // at memory last
	before uint64    // heap in use when it was first looked at
	spent  error
}

var (
	errTime   = errors.New("out of time")
	errMemory = errors.New("out of memory")
)

// closed is the channel of a context that is over.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Done implements context.Context.
func (b *budget) Done() <-chan struct{} {
	const often = 1 << 10 // steps between two looks at the clock
	if b.steps++; b.steps%often == 0 && b.spent == nil {
		b.look()
	}
	if b.spent != nil {
		return closed
	}
	return b.Context.Done()
}

// Err implements context.Context.
func (b *budget) Err() error {
	if b.spent != nil {
		return b.spent
	}
	return b.Context.Err()
}

func (b *budget) look() {
	const rest = 50 * time.Millisecond // between two looks at memory
	now := time.Now()
	if now.Sub(b.start) > b.limit {
		b.spent = errTime
		return
	}
	if now.Sub(b.start) < rest || now.Sub(b.looked) < rest {
		return
	}
	first := b.looked.IsZero()
	b.looked = now
	heap := liveHeap()
	if first {
		b.before = heap
	} else if heap > b.before+b.memory {
		b.spent = errMemory
	}
}

// liveHeap is what the last garbage collection found in use.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

func (b *budget) failure(t *spec.TaskSpec) *Failure {
	if b.spent == errMemory {
		return failf(KindOutput, "the filter took more than about %d bytes of memory", b.memory)
	}
	if t.Timeout > 0 {
		return failf(KindTimeout, "took longer than its timeout of %s", t.Timeout)
	}
	return failf(KindTimeout, "the filter took longer than %s; give the task a timeout if it needs more", b.limit)
}
