package worker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"operon/engine/body"
	"operon/spec/value"
)

// patience is how long anything may take before a test gives up.
const patience = 2 * time.Minute

// bodies are those of a test's dataflows: each job waits until the test ends it.
type bodies struct {
	t       testing.TB
	mu      sync.Mutex
	change  chan struct{} // closed and replaced whenever running changes
	running map[string]chan error
	begun   map[string]int // attempts, by job
	auto    bool           // jobs end by themselves
	closes  map[*process]int
	hold    chan struct{} // nil, or what Close of processes waits for
	held    chan struct{} // what hold was, of those that wait still
	waiting int           // Closes that wait for it
}

func newBodies(t testing.TB) *bodies {
	return &bodies{t: t, change: make(chan struct{}), running: map[string]chan error{}, begun: map[string]int{}, closes: map[*process]int{}}
}

// plain is the body of a dataflow.
type plain struct {
	*bodies
	id uint64
}

func (b plain) Run(ctx context.Context, _ *body.Slot, j *body.Job) (*body.Result, error) {
	return b.job(ctx, fmt.Sprintf("%d@%d", b.id, j.Coord.At(0)))
}

// process is a body that keeps something, for which it is to be closed.
type process struct {
	plain
	shared bool // by Share: it is the worker's own
}

func (p *process) Share() body.Runner {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := &process{p.plain, true}
	p.closes[own] = 0
	return own
}

func (p *process) RunBatch(ctx context.Context, s *body.Slot, jobs []*body.Job, to body.Batch) {
	for n, j := range jobs {
		if to.Stopped() {
			return
		}
		res, err := p.Run(ctx, s, j)
		if err != nil {
			to.Done(n, nil, err.(*body.Failure))
			return
		}
		to.Done(n, res, nil)
	}
}

func (p *process) Close(context.Context) {
	p.mu.Lock()
	p.closes[p]++
	hold := p.hold
	p.waiting++
	p.changed()
	p.mu.Unlock()
	if hold != nil {
		<-hold
	}
}

func (b *bodies) changed() {
	close(b.change)
	b.change = make(chan struct{})
}

func (b *bodies) job(ctx context.Context, name string) (*body.Result, error) {
	end := make(chan error, 1)
	b.mu.Lock()
	if b.running[name] != nil {
		b.t.Errorf("%s runs twice at once", name)
	}
	b.begun[name]++
	if b.auto {
		end <- nil
	} else {
		b.running[name] = end
	}
	b.changed()
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.running[name] == end {
			delete(b.running, name)
		}
	}()
	select {
	case err := <-end:
		if err != nil {
			return nil, err
		}
		return &body.Result{Items: []value.Value{value.FromText(name)}, Usage: body.Usage{Start: time.Now()}}, nil
	case <-ctx.Done():
		return nil, &body.Failure{Kind: body.KindCancelled, Message: "stopped"}
	}
}

// until waits until something holds, which is looked at under the lock.
func (b *bodies) until(what string, holds func() bool) {
	b.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		b.mu.Lock()
		done, change := holds(), b.change
		b.mu.Unlock()
		if done {
			return
		}
		select {
		case <-change:
		case <-timer.C:
			b.t.Fatalf("waited in vain until %s", what)
		}
	}
}

// begins waits until a job has begun.
func (b *bodies) begins(name string) {
	b.t.Helper()
	b.until(name+" begins", func() bool { return b.running[name] != nil })
}

// end lets a job end, once it has begun.
func (b *bodies) end(name string, err error) {
	b.t.Helper()
	b.begins(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running[name] <- err
	delete(b.running, name)
}

// checkClosed holds that every worker's own processes were closed once.
func (b *bodies) checkClosed() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for p, n := range b.closes {
		if n != 1 {
			b.t.Errorf("processes of dataflow %d were closed %d times", p.id, n)
		}
	}
}
