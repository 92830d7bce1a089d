package control_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"operon/engine"
	"operon/engine/control"
)

// fake is a Server with made-up answers that notes what it was asked.
type fake struct {
	mu    sync.Mutex
	calls []call

	status *engine.Status
	dims   []string
	items  []engine.Item
	found  engine.Found
	logs   []engine.Log
	err    error
}

type call struct {
	Method         string
	Query          engine.Query
	Logs           engine.LogQuery
	Tasks          []string
	Cascade, Force bool
	Name           string
	Size           int
}

func (f *fake) note(c call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, c)
}

func (f *fake) noted() []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]call(nil), f.calls...)
}

func (f *fake) Status(context.Context) (*engine.Status, error) {
	f.note(call{Method: "status"})
	return f.status, f.err
}

func (f *fake) Values(ctx context.Context, q engine.Query, fn func(engine.Item) error) (engine.Found, error) {
	f.note(call{Method: "values", Query: q})
	if f.err != nil {
		return engine.Found{}, f.err
	}
	for _, it := range f.items {
		if err := ctx.Err(); err != nil {
			return engine.Found{Dims: f.dims}, err
		}
		if err := fn(it); err != nil {
			return engine.Found{Dims: f.dims}, err
		}
	}
	return f.found, nil
}

func (f *fake) Logs(_ context.Context, q engine.LogQuery, fn func(engine.Log) error) error {
	f.note(call{Method: "logs", Logs: q})
	for _, l := range f.logs {
		if err := fn(l); err != nil {
			return err
		}
	}
	return f.err
}

func (f *fake) Pause(_ context.Context, tasks []string, cascade bool) error {
	f.note(call{Method: "pause", Tasks: tasks, Cascade: cascade})
	return f.err
}

func (f *fake) Resume(_ context.Context, tasks []string) error {
	f.note(call{Method: "resume", Tasks: tasks})
	return f.err
}

func (f *fake) Plan(_ context.Context, q engine.PlanQuery) (*engine.Plan, error) {
	return &engine.Plan{Tasks: []engine.TaskPlan{
		{Task: q.File, Action: engine.ActionReplace, Reason: "body: a → b", Jobs: &engine.PlanJobs{Run: 2, Reuse: 1}, AtMost: true},
		{Task: "open", Action: engine.ActionUnknown, Size: "doc × page"},
	}}, nil
}

func (f *fake) SetPool(_ context.Context, name string, size int) error {
	f.note(call{Method: "pool", Name: name, Size: size})
	return f.err
}

func (f *fake) Drop(_ context.Context, tasks []string) error {
	f.note(call{Method: "drop", Tasks: tasks})
	return f.err
}

func (f *fake) Quit(_ context.Context, force bool) error {
	f.note(call{Method: "quit", Force: force})
	return f.err
}

// serve runs srv on a socket of its own until the test ends, or stop is called,
// which returns what Serve returned.
func serve(t *testing.T, srv control.Server) (socket string, stop func() error) {
	t.Helper()
	ln, socket, err := control.Listen(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return socket, serveOn(t, ln, srv)
}

func serveOn(t *testing.T, ln net.Listener, srv control.Server) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- control.Serve(ctx, ln, srv) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-served
	})
	t.Cleanup(func() { stop() })
	return stop
}

func dial(t *testing.T, socket string) *control.Client {
	t.Helper()
	c, err := control.Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
