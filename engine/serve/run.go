package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"operon/engine"
	"operon/spec"
)

// run is an engine that a host runs, until it has ended and its state directory
// is free.
type run struct {
	h        *Host
	line     *pipeline
	e        Engine
	file     string        // the pipeline file that it runs; with the line's turn
	done     chan struct{} // closed at its end
	presence chan struct{} // has something when a client came or went; room for one

	mu   sync.Mutex
	feed *feed // of the session that hears the run, or nil
	end  *End
}

// start makes an engine and runs it. The line's turn is held.
func (h *Host) start(l *pipeline, p *spec.Pipeline, o engine.Options, c Configuration, f *feed) (*run, error) {
	r := &run{h: h, line: l, file: p.File, done: make(chan struct{}), presence: make(chan struct{}, 1), feed: f}
	o.Events = r.hear
	e, err := h.o.New(p, o)
	if err != nil {
		return nil, err
	}
	r.e = e
	h.mu.Lock()
	if h.stopping {
		h.mu.Unlock()
		return nil, errors.Join(ErrStopping, e.Close())
	}
	l.run = r
	h.busy.Go(func() { r.own(c) }) // counted before Stop's waiter can pass
	h.mu.Unlock()
	return r, nil
}

// own runs the engine, with all that belongs to it, and returns when nothing of
// that is left.
func (r *run) own(c Configuration) {
	ctx := r.h.ctx
	r.h.log.Info("run begins", "pipeline", r.line.name)
	finish := r.answer()
	var beside sync.WaitGroup
	beside.Go(func() { r.guard(ctx) })
	beside.Go(func() { r.adjust(ctx, c) })
	s, err := r.e.Run(ctx)
	err = errors.Join(err, finish(), r.e.Close())
	r.ended(&End{Summary: s, Err: err})
	beside.Wait()
}

// ended tells everybody that the run is over. Its state directory is free.
func (r *run) ended(end *End) {
	h := r.h
	h.mu.Lock()
	r.line.run = nil
	r.line.count(end.Summary)
	h.cut = h.cut || h.stopping && (end.Err != nil || end.Summary == nil || !end.Summary.Asked)
	h.mu.Unlock()
	r.mu.Lock()
	r.end = end
	if r.feed != nil {
		r.feed.finish(end)
	}
	r.mu.Unlock()
	close(r.done)
	switch {
	case end.Err != nil:
		h.log.Error("run ended", "pipeline", r.line.name, "err", end.Err)
	case end.Summary != nil:
		h.log.Info("run ended", "pipeline", r.line.name, "state", end.Summary.State, "executed", end.Summary.Executed, "failed", end.Summary.Failed)
	}
}

// answer opens the engine's own socket. A run without one is a run nevertheless.
func (r *run) answer() (finish func() error) {
	none := func() error { return nil }
	if r.h.o.Answer == nil {
		return none
	}
	finish, err := r.h.o.Answer(r.h.ctx, r.e)
	if err != nil {
		r.h.log.Warn("nobody can ask this run itself how it stands", "pipeline", r.line.name, "err", err)
		return none
	}
	return finish
}

// adjust configures the engine once what the client wants is applied.
// Session.configure has refused what can't be; of what goes wrong all the same
// the client is told.
func (r *run) adjust(ctx context.Context, c Configuration) {
	err := r.configure(ctx, c)
	if err == nil || errors.Is(err, engine.ErrNotRunning) {
		return // an engine that has ended needs no pools
	}
	r.h.log.Warn("configure a run", "pipeline", r.line.name, "err", err)
	r.hear(engine.Event{Time: time.Now(), Kind: engine.EventNote, Message: err.Error()})
}

// configure hands the engine what may change at any time.
func (r *run) configure(ctx context.Context, c Configuration) error {
	var all error
	for _, name := range slices.Sorted(maps.Keys(c.Pools)) {
		if err := r.e.SetPool(ctx, name, c.Pools[name]); err != nil {
			all = errors.Join(all, fmt.Errorf("set pool %s to %d: %w", name, c.Pools[name], err))
		}
	}
	return all
}

// reconcile gives the engine what is wanted from now on, and lets f hear it.
func (r *run) reconcile(ctx context.Context, p *spec.Pipeline, o engine.Options, c Configuration, f *feed) (*engine.Reconciled, error) {
	r.attach(f)
	rec, err := r.e.Reconcile(ctx, p, o)
	if err != nil {
		r.detach(f)
		return nil, err
	}
	r.adjust(ctx, c)
	r.recap(ctx, f)
	return rec, nil
}

// recap lets a session that comes late hear once how each task stands.
func (r *run) recap(ctx context.Context, f *feed) {
	s, err := r.e.Status(ctx)
	if err != nil {
		return // it has ended, and the summary says all
	}
	var events []engine.Event
	for i := range s.Tasks {
		events = append(events, engine.Event{Time: time.Now(), Kind: engine.EventTask, Task: &s.Tasks[i]})
	}
	f.fill(events)
}

// hear passes on an event. It never waits.
func (r *run) hear(e engine.Event) {
	r.mu.Lock()
	f := r.feed
	r.mu.Unlock()
	if f == nil || f.put(e) {
		return
	}
	r.h.mu.Lock()
	r.h.lost++
	r.h.mu.Unlock()
}

func (r *run) attach(f *feed) {
	r.mu.Lock()
	r.feed = f
	if r.end != nil {
		f.finish(r.end)
	}
	r.mu.Unlock()
	r.moved()
}

// detach leaves the run without a client, if f is the one.
func (r *run) detach(f *feed) {
	r.mu.Lock()
	if r.feed == f {
		r.feed = nil
	}
	r.mu.Unlock()
	r.moved()
}

func (r *run) moved() {
	select {
	case r.presence <- struct{}{}:
	default:
	}
}

// guard ends a run that has no client for as long as Options.Grace.
func (r *run) guard(ctx context.Context) {
	for {
		r.mu.Lock()
		alone := r.feed == nil
		r.mu.Unlock()
		late, stop := r.patience(alone)
		select {
		case <-r.done:
			stop()
			return
		case <-r.presence:
			stop()
		case <-late:
			r.h.log.Info("run ends, since it has no client", "pipeline", r.line.name)
			r.quit(ctx)
			return
		}
	}
}

// patience is how long the run waits for a client from now on, for ever if there
// is one.
func (r *run) patience(alone bool) (late <-chan time.Time, stop func() bool) {
	if !alone || r.h.o.Grace <= 0 {
		return nil, func() bool { return true }
	}
	timer := time.NewTimer(r.h.o.Grace)
	return timer.C, timer.Stop
}

// quit lets running jobs finish.
func (r *run) quit(ctx context.Context) {
	if err := r.e.Quit(ctx, false); err != nil && !errors.Is(err, engine.ErrNotRunning) {
		r.h.log.Warn("tell a run to end", "pipeline", r.line.name, "err", err)
	}
}
