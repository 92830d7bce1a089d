package serve_test

import (
	"context"
	"sync"
	"testing"

	"operon/engine"
	"operon/engine/serve"
	"operon/spec"
)

// fakes makes engines that do nothing until a test says so, and reconcile as
// they are told to.
type fakes struct {
	mu    sync.Mutex
	made  []*fake
	err   error // of New
	sizes error // of SetPool of those that are made
}

func (fs *fakes) new(p *spec.Pipeline, o engine.Options) (serve.Engine, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.err != nil {
		return nil, fs.err
	}
	f := &fake{o: o, p: p, quit: make(chan struct{}), metrics: &engine.Metrics{}, sizes: fs.sizes}
	fs.made = append(fs.made, f)
	return f, nil
}

func (fs *fakes) list() []*fake {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return append([]*fake(nil), fs.made...)
}

type fake struct {
	o       engine.Options
	quit    chan struct{} // closed by Quit: Run ends
	once    sync.Once
	metrics *engine.Metrics
	during  func()       // called by Reconcile first; nil: nothing
	refuses error        // of Reconcile
	sizes   error        // of SetPool
	asked   func() error // called by Status first; nil: nothing

	mu         sync.Mutex
	p          *spec.Pipeline
	reconciled []engine.Options
	dropped    []string
	pools      map[string]int
	killed     bool
}

func (f *fake) Run(ctx context.Context) (*engine.Summary, error) {
	select {
	case <-f.quit:
		s := &engine.Summary{Pipeline: f.p.Name, Run: "r", State: engine.StateStopped, Totals: map[string]engine.JobTotals{}}
		for _, t := range f.pipeline().Tasks {
			s.Tasks = append(s.Tasks, engine.TaskSummary{TaskStatus: engine.TaskStatus{Task: t.Name, Reused: 1}, Executed: 1})
			s.Totals[t.Name] = engine.JobTotals{Reused: 3, Executed: 2} // as after a task was replaced
		}
		return s, nil
	case <-ctx.Done():
		f.mu.Lock()
		f.killed = true
		f.mu.Unlock()
		return nil, context.Cause(ctx)
	}
}

func (f *fake) pipeline() *spec.Pipeline {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.p
}

func (f *fake) Quit(context.Context, bool) error {
	f.once.Do(func() { close(f.quit) })
	return nil
}

func (f *fake) Reconcile(_ context.Context, p *spec.Pipeline, o engine.Options) (*engine.Reconciled, error) {
	if f.during != nil {
		f.during()
	}
	if f.refuses != nil {
		return nil, f.refuses
	}
	select {
	case <-f.quit:
		return nil, engine.ErrNotRunning
	default:
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	rec := &engine.Reconciled{Run: "r"}
	for _, t := range p.Tasks {
		d := engine.Decision{Task: t.Name, Action: "create", Reason: "never ran"}
		if old := f.p.Task(t.Name); old != nil && old.Fingerprint == t.Fingerprint {
			d = engine.Decision{Task: t.Name, Action: "keep"}
			rec.Kept++
		} else if old != nil {
			d = engine.Decision{Task: t.Name, Action: "replace", Reason: "body"}
			rec.Replaced++
		} else {
			rec.Created++
		}
		rec.Tasks = append(rec.Tasks, d)
	}
	f.p = p
	f.reconciled = append(f.reconciled, o)
	return rec, nil
}

func (f *fake) Drop(_ context.Context, tasks []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropped = append(f.dropped, tasks...)
	return nil
}

func (f *fake) Metrics(context.Context) (*engine.Metrics, error) { return f.metrics, nil }

func (f *fake) Status(context.Context) (*engine.Status, error) {
	if f.asked != nil {
		if err := f.asked(); err != nil {
			return nil, err
		}
	}
	s := &engine.Status{Pipeline: "p", Run: "r", State: engine.StateRunning}
	for _, t := range f.pipeline().Tasks {
		s.Tasks = append(s.Tasks, engine.TaskStatus{Task: t.Name, Running: 1})
	}
	return s, nil
}

func (f *fake) SetPool(_ context.Context, name string, size int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sizes != nil {
		return f.sizes
	}
	if f.pools == nil {
		f.pools = map[string]int{}
	}
	f.pools[name] = size
	return nil
}

func (f *fake) Values(context.Context, engine.Query, func(engine.Item) error) (engine.Found, error) {
	return engine.Found{}, nil
}
func (f *fake) Logs(context.Context, engine.LogQuery, func(engine.Log) error) error { return nil }
func (f *fake) Pause(context.Context, []string, bool) error                         { return nil }
func (f *fake) Resume(context.Context, []string) error                              { return nil }
func (f *fake) Plan(context.Context, engine.PlanQuery) (*engine.Plan, error) {
	return &engine.Plan{}, nil
}
func (f *fake) StateDir() string { return f.o.State }
func (f *fake) Close() error     { return nil }

// host is a host with fakes for engines, until the test ends.
func host(t *testing.T, change func(*serve.Options)) (*serve.Host, *fakes) {
	t.Helper()
	fs := &fakes{}
	o := serve.Options{Root: t.TempDir(), New: fs.new}
	if change != nil {
		change(&o)
	}
	h, err := serve.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h, fs
}
