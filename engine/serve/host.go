package serve

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"operon/engine"
	"operon/spec"
)

// Asked is what clients may ask of a pipeline: to look at it, and to steer it.
type Asked interface {
	engine.View
	Pause(ctx context.Context, tasks []string, cascade bool) error
	Resume(ctx context.Context, tasks []string) error
	Quit(ctx context.Context, force bool) error
	SetPool(ctx context.Context, name string, size int) error
	Plan(ctx context.Context, q engine.PlanQuery) (*engine.Plan, error)
	Drop(ctx context.Context, tasks []string) error
}

// Engine is what a host needs of an engine; *engine.Engine is one.
type Engine interface {
	Asked
	Reconcile(ctx context.Context, p *spec.Pipeline, o engine.Options) (*engine.Reconciled, error)
	Metrics(ctx context.Context) (*engine.Metrics, error)
	Run(ctx context.Context) (*engine.Summary, error)
	StateDir() string
	Close() error
}

// Options are what a host is made of.
type Options struct {
	Root string // the state root; "": .operon in the current folder
	// Engine is what all engines have in common: limits, Environ, Build, Funcs,
	// Bodies, Hook. What a client asks for goes over it.
	Engine engine.Options
	// Grace is how long a run goes on without a client before it is told to
	// quit. 0: to its end.
	Grace  time.Duration
	Logger *slog.Logger // nil: none
	// Answer makes an engine answer others, in its state directory, until the
	// function that it returns has been called. Nil: it does not.
	Answer func(ctx context.Context, e Engine) (finish func() error, err error)
	// Socket is where Answer makes an engine of that state directory answer, for
	// the owner file. Nil: nowhere.
	Socket func(stateDir string) string
	// New makes an engine; nil: engine.New. It is for tests.
	New func(p *spec.Pipeline, o engine.Options) (Engine, error)
}

// Host owns a state root from New to Close. It may be used from several
// goroutines.
type Host struct {
	o    Options
	root string
	log  *slog.Logger
	lock *rootLock

	ctx  context.Context // of all engines; its end kills them
	kill context.CancelCauseFunc
	busy sync.WaitGroup // everything that the host started
	room room           // for sessions that are not installed yet

	mu       sync.Mutex
	stopping bool
	cut      bool                 // a run ended unfinished after Stop
	lines    map[string]*pipeline // by name: those that have run here
	control  map[string]*Session  // by pipeline: the sessions in control
	sessions int                  // all of them
	lost     int64                // events that found no room
}

// New takes hold of the state root. Another host there is a *RootError. The end
// of ctx kills all that runs.
func New(ctx context.Context, o Options) (*Host, error) {
	if o.Root == "" {
		o.Root = ".operon"
	}
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return nil, &engine.MachineError{Doing: "find the state root", Err: err}
	}
	h := &Host{o: o, root: root, log: o.Logger, lines: map[string]*pipeline{}, control: map[string]*Session{}}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if h.o.New == nil {
		h.o.New = func(p *spec.Pipeline, o engine.Options) (Engine, error) { return engine.New(p, o) }
	}
	if h.lock, err = holdRoot(root); err != nil {
		return nil, err
	}
	h.ctx, h.kill = context.WithCancelCause(ctx)
	return h, nil
}

// Root is the state root, absolute.
func (h *Host) Root() string { return h.root }

// Stop takes nothing new, and tells every run to end: running jobs finish. It
// returns as soon as the runs have been told.
func (h *Host) Stop() {
	h.mu.Lock()
	first := !h.stopping
	h.stopping = true
	runs := h.running()
	h.mu.Unlock()
	if !first {
		return
	}
	for _, r := range runs {
		h.busy.Go(func() { r.quit(h.ctx) })
	}
}

// Kill ends everything at once; running jobs are killed.
func (h *Host) Kill(cause error) {
	h.Stop()
	h.kill(cause)
}

// Close stops what runs, waits for it, and gives the state root back. Further
// calls do nothing.
func (h *Host) Close() error {
	h.Stop()
	h.busy.Wait()
	h.kill(nil)
	return h.lock.release()
}

// Cut reports whether Stop or Kill made a run end before it had done all that
// was asked for. It is final after Close.
func (h *Host) Cut() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cut
}

// running are the runs that are on. h.mu is held.
func (h *Host) running() []*run {
	var out []*run
	for _, l := range h.lines {
		if l.run != nil {
			out = append(out, l.run)
		}
	}
	return out
}

// line is the pipeline of that name, made if it is not there.
func (h *Host) line(name string) *pipeline {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lines[name]
	if l == nil {
		l = &pipeline{name: name, turn: make(chan struct{}, 1), done: map[string]jobCounts{}}
		h.lines[name] = l
	}
	return l
}

// runOf is the run of a pipeline, or nil.
func (h *Host) runOf(name string) *run {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.lines[name]; l != nil {
		return l.run
	}
	return nil
}

// stateDir is where a pipeline's state lies.
func (h *Host) stateDir(name string) string { return filepath.Join(h.root, name) }

// pipeline is what a host knows of a pipeline that has run here.
type pipeline struct {
	name string
	turn chan struct{} // held by the submission that is being applied
	run  *run          // with Host.mu
	// done is what runs that have ended did, by task, with Host.mu.
	done map[string]jobCounts
}

// take waits for the turn, and returns what gives it back.
func (l *pipeline) take(ctx context.Context) (func(), error) {
	select {
	case l.turn <- struct{}{}:
		return func() { <-l.turn }, nil
	case <-ctx.Done():
		return nil, errors.Join(ErrStopping, context.Cause(ctx))
	}
}
