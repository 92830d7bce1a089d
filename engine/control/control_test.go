package control_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"operon/engine"
	"operon/engine/control"
	"operon/spec/coord"
	"operon/spec/value"
)

func TestStatusTravels(t *testing.T) {
	want := &engine.Status{Pipeline: "p", Run: "r", State: engine.StatePaused, Tasks: []engine.TaskStatus{
		{Task: "a", Dataflow: 7, DataflowState: engine.DataflowRunning, Waiting: 1, Queued: 2, Running: 3, Done: 4, Failed: 5, Blocked: 6, Holes: 7, Reused: 8, Paused: true},
		{Task: "b"},
	}}
	socket, _ := serve(t, &fake{status: want})
	got, err := dial(t, socket).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestValuesTravelByteForByte(t *testing.T) {
	sum := value.FromText("x").Digest()
	items := []engine.Item{
		{Coord: coord.Of(0, 0), Value: value.FromJSON([]byte(`{"a":12345678901234567890,"a":1.0,"b":"<&>\u2028 é"}`))},
		{Coord: coord.Of(0, 1), Value: value.FromJSON([]byte(`null`))},
		{Coord: coord.Of(0, 1<<32-2), Value: value.FromText("")},
		{Coord: coord.Of(1, 0), Value: value.NewHole("no \"luck\"\n")},
		{Coord: coord.Of(1, 1), Value: value.FromFile(value.FileInfo{Name: "a b", Exec: true, Size: 9, SHA256: sum, Path: "/x/y"})},
		{Coord: coord.Of(1, 2), Value: value.FromFile(value.FileInfo{Name: "r", SHA256: sum, Path: "in/r", Ref: true})},
		{Coord: coord.Of(2, 0), Value: value.FromText(strings.Repeat("long\n", 1<<18))},
	}
	f := &fake{dims: []string{"i", "j"}, items: items, found: engine.Found{Dims: []string{"i", "j"}, Have: 7, Want: 9, Known: true}}
	socket, _ := serve(t, f)
	q := engine.Query{Entity: "E", At: coord.Binding{"i": 3}, Labels: map[string]string{"j": "b,c"}}
	var got []engine.Item
	found, err := dial(t, socket).Values(t.Context(), q, func(it engine.Item) error { got = append(got, it); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f.found, found); diff != "" {
		t.Error(diff)
	}
	if !reflect.DeepEqual(items, got) { // cmp takes seconds over the long one
		for i := range min(len(items), len(got)) {
			t.Errorf("sent %.200v, got %.200v", items[i], got[i])
		}
	}
	for _, c := range f.noted() {
		if diff := cmp.Diff(q, c.Query); diff != "" {
			t.Error(diff)
		}
	}
}

func TestValuesEndWithTheReader(t *testing.T) {
	f := &fake{dims: []string{"i"}, found: engine.Found{Dims: []string{"i"}}}
	for i := range uint32(20_000) {
		f.items = append(f.items, engine.Item{Coord: coord.Of(i), Value: value.FromText("some value")})
	}
	socket, stop := serve(t, f)
	c := dial(t, socket)
	enough := errors.New("enough")
	n := 0
	found, err := c.Values(t.Context(), engine.Query{Entity: "E"}, func(engine.Item) error {
		if n++; n == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || n != 3 {
		t.Errorf("%d values, error %v", n, err)
	}
	if diff := cmp.Diff([]string{"i"}, found.Dims); diff != "" {
		t.Error(diff)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestLogsTravel(t *testing.T) {
	want := []engine.Log{
		{Task: "a", Coord: coord.Of(1, 2), Dims: []string{"i", "j"}, Labels: []string{"", "x"}, Path: "/l/a"},
		{Task: "b", Coord: coord.Of(), Dims: []string{}, Path: "/l/b"},
	}
	f := &fake{logs: want}
	socket, _ := serve(t, f)
	q := engine.LogQuery{Task: "a", At: coord.Binding{"j": 2}, Labels: map[string]string{"i": "x"}, Failed: true}
	var got []engine.Log
	if err := dial(t, socket).Logs(t.Context(), q, func(l engine.Log) error { got = append(got, l); return nil }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]call{{Method: "logs", Logs: q}}, f.noted()); diff != "" {
		t.Error(diff)
	}
}

func TestCommandsTravel(t *testing.T) {
	f := &fake{}
	socket, _ := serve(t, f)
	c := dial(t, socket)
	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprintf("a_task_with_a_long_name_%d", i)
	}
	err := errors.Join(
		c.Pause(t.Context(), []string{"a", "b"}, true),
		c.Pause(t.Context(), many, false),
		c.Resume(t.Context(), nil),
		c.SetPool(t.Context(), "api", 7),
		c.Quit(t.Context(), true),
		c.Quit(t.Context(), false),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := []call{
		{Method: "pause", Tasks: []string{"a", "b"}, Cascade: true},
		{Method: "pause", Tasks: many},
		{Method: "resume"},
		{Method: "pool", Name: "api", Size: 7},
		{Method: "quit", Force: true},
		{Method: "quit"},
	}
	if diff := cmp.Diff(want, f.noted()); diff != "" {
		t.Error(diff)
	}
}

func TestErrorsArriveAsWhatTheyWere(t *testing.T) {
	tests := []struct {
		name string
		sent error
		is   func(error) bool
	}{
		{"unknown", &engine.UnknownError{What: "task", Name: "x", Nearest: "y", Known: []string{"y", "z"}}, func(err error) bool {
			var u *engine.UnknownError
			return errors.As(err, &u) && u.Nearest == "y" && len(u.Known) == 2
		}},
		{"inconsistent", &engine.InconsistentError{Task: "t", Coord: "i=0", Detail: "gone"}, func(err error) bool {
			var i *engine.InconsistentError
			return errors.As(err, &i) && i.Coord == "i=0"
		}},
		{"label", &engine.LabelError{Dim: "i", Label: "x", Detail: "no item has that label"}, func(err error) bool {
			var l *engine.LabelError
			return errors.As(err, &l) && l.Dim == "i" && l.Label == "x"
		}},
		{"machine", &engine.MachineError{Doing: "write x", Err: errors.New("disk full")}, func(err error) bool {
			var m *engine.MachineError
			return errors.As(err, &m)
		}},
		{"stopped", context.Canceled, func(err error) bool { return errors.Is(err, control.ErrGone) }},
		{"other", errors.New("just so"), func(err error) bool { return true }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			socket, _ := serve(t, &fake{err: fmt.Errorf("wrapped: %w", tt.sent)})
			c := dial(t, socket)
			_, statusErr := c.Status(t.Context())
			_, valuesErr := c.Values(t.Context(), engine.Query{Entity: "E"}, func(engine.Item) error { return nil })
			quitErr := c.Quit(t.Context(), false)
			for _, err := range []error{statusErr, valuesErr, quitErr} {
				if err == nil || !tt.is(err) {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}

func TestCancelledCallReturnsItsCause(t *testing.T) {
	b := &blocking{entered: make(chan struct{}, 1), release: make(chan struct{})}
	socket, stop := serve(t, b)
	c := dial(t, socket)
	cause := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.Status(ctx)
		done <- err
	}()
	<-b.entered
	cancel(cause)
	if err := <-done; !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	close(b.release)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// blocking answers a status when it is told to.
type blocking struct {
	fake
	entered, release chan struct{}
}

func (b *blocking) Status(ctx context.Context) (*engine.Status, error) {
	b.entered <- struct{}{}
	select {
	case <-b.release:
		return &engine.Status{Pipeline: "p"}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func TestServeLetsAnAnswerFinish(t *testing.T) {
	b := &blocking{entered: make(chan struct{}, 1), release: make(chan struct{})}
	ln, socket, err := control.Listen(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stop := serveOn(t, ln, b)
	c := dial(t, socket)
	answered := make(chan error, 1)
	go func() {
		_, err := c.Status(t.Context())
		answered <- err
	}()
	<-b.entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	close(b.release)
	if err := <-answered; err != nil {
		t.Errorf("the answer under way: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := control.Dial(socket); err == nil {
		t.Error("the socket still answers")
	}
}

func TestServeEndsAStuckAnswer(t *testing.T) {
	t.Parallel()
	b := &blocking{entered: make(chan struct{}, 1), release: make(chan struct{})}
	socket, stop := serve(t, b)
	c := dial(t, socket)
	answered := make(chan error, 1)
	go func() {
		_, err := c.Status(t.Context())
		answered <- err
	}()
	<-b.entered
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := <-answered; !errors.Is(err, control.ErrGone) {
		t.Errorf("got %v", err)
	}
}

// A plan arrives whole, with what its JSON for others leaves out.
func TestPlan(t *testing.T) {
	socket, _ := serve(t, &fake{})
	p, err := dial(t, socket).Plan(t.Context(), engine.PlanQuery{File: "/x/p.yaml", Redo: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	want, _ := (&fake{}).Plan(t.Context(), engine.PlanQuery{File: "/x/p.yaml"})
	if !reflect.DeepEqual(p, want) {
		t.Errorf("%+v, want %+v", p, want)
	}
}
