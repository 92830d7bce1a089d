package body

import (
	"context"
	"sync"
)

// room is the memory that outputs being read may take together, so that many
// jobs that print much at once are read one after another. An output that is
// larger than all of it has it for itself. The zero value is empty.
type room struct {
	mu      sync.Mutex
	used    int64
	waiting []waiter // first come, first served
}

type waiter struct {
	bytes int64
	ready chan struct{}
}

const (
	wholeRoom   = 64 << 20 // bytes
	smallOutput = 1 << 20  // bytes of an output that is read without asking
	copies      = 3        // of an output that reading it makes, roughly
)

// take waits until an output of size bytes may be read, and returns how much to
// give back once its values are not needed any more.
func (r *room) take(ctx context.Context, size int64) (taken int64, f *Failure) {
	if size <= smallOutput {
		return 0, nil
	}
	bytes := min(size, wholeRoom/copies) * copies
	r.mu.Lock()
	if len(r.waiting) == 0 && r.used+bytes <= wholeRoom {
		r.used += bytes
		r.mu.Unlock()
		return bytes, nil
	}
	w := waiter{bytes, make(chan struct{})}
	r.waiting = append(r.waiting, w)
	r.mu.Unlock()
	select {
	case <-w.ready:
		return bytes, nil
	case <-ctx.Done():
		r.leave(w)
		return 0, cancelled(ctx)
	}
}

// leave takes a waiter out, or gives back what it was just given.
func (r *room) leave(w waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, other := range r.waiting {
		if other.ready == w.ready {
			r.waiting = append(r.waiting[:i:i], r.waiting[i+1:]...)
			r.admit()
			return
		}
	}
	r.used -= w.bytes
	r.admit()
}

func (r *room) give(bytes int64) {
	if bytes == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= bytes
	r.admit()
}

// admit lets in those who wait and fit, in order.
func (r *room) admit() {
	for len(r.waiting) > 0 && r.used+r.waiting[0].bytes <= wholeRoom {
		r.used += r.waiting[0].bytes
		close(r.waiting[0].ready)
		r.waiting = r.waiting[1:]
	}
}
