package serve_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"operon/engine"
	"operon/engine/serve"
	"operon/spec"
)

const two = `pipeline: p
pools: {api: 3}
tasks:
  first: {out: A<i>, source: {values: [a, b]}}
  then: {in: A, for: i, out: B, run: "echo $a"}
`

func compile(t *testing.T, src string) *spec.Pipeline {
	t.Helper()
	p, err := engine.LoadSource([]byte(src), "/x/p.yaml", engine.LoadOptions{LookupEnv: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// submission is that of a pipeline text, in a session of its own.
func submission(t *testing.T, src string) []serve.Command {
	t.Helper()
	i := serve.Instance{File: "/x/p.yaml", Source: src}
	return serve.Submission(uuid.NewString(), compile(t, src), i, &serve.Configuration{Pools: map[string]int{"api": 7}})
}

// submit does all commands, and fails the test where one is refused.
func submit(t *testing.T, h *serve.Host, commands []serve.Command) (*serve.Session, *serve.Answer) {
	t.Helper()
	s := h.Session()
	t.Cleanup(s.Close)
	var last *serve.Answer
	for _, c := range commands {
		var err error
		if last, err = s.Do(t.Context(), c); err != nil {
			t.Fatalf("%s: %v", c.Command, err)
		}
	}
	return s, last
}

// Whatever a client has said before initialization_complete, when it goes
// nothing has happened.
func TestCutAfterEachCommandChangesNothing(t *testing.T) {
	h, fs := host(t, nil)
	commands := submission(t, two)
	for n := range len(commands) {
		s := h.Session()
		for _, c := range commands[:n] {
			if _, err := s.Do(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		s.Close()
		if made := fs.list(); len(made) != 0 {
			t.Fatalf("after %d commands: %d engines", n, len(made))
		}
	}
	_, a := submit(t, h, commands)
	if !a.Started || len(fs.list()) != 1 {
		t.Errorf("the whole of it: %+v, %d engines", a, len(fs.list()))
	}
}

func TestOrderOfCommands(t *testing.T) {
	good := submission(t, two) // hello, instance, configuration, 2 dataflows, 2 schedules, complete
	with := func(n int, c serve.Command) []serve.Command {
		return append(append([]serve.Command(nil), good[:n]...), c)
	}
	wrong := serve.DataflowOf(compile(t, two).Task("first"))
	wrong.Fingerprint = strings.Repeat("0", 64)
	dims := serve.DataflowOf(compile(t, two).Task("first"))
	dims.Dims = []string{"z"}
	then := serve.DataflowOf(compile(t, two).Task("then"))
	tests := []struct {
		name, want string
		commands   []serve.Command
	}{
		{"unknown", `unknown command "jump"`, with(0, serve.Command{Command: "jump"})},
		{"no hello", "create_instance before hello", good[1:2]},
		{"version", "speaks version 1", with(0, serve.Command{Command: serve.Hello, Session: uuid.NewString(), Version: 2, Pipeline: "p"})},
		{"session", "a session is a UUID", with(0, serve.Command{Command: serve.Hello, Session: "7", Version: 1, Pipeline: "p"})},
		{"pipeline", "is not the name", with(0, serve.Command{Command: serve.Hello, Session: uuid.NewString(), Version: 1, Pipeline: "../p"})},
		{"hello twice", "hello came already", with(1, good[0])},
		{"relative", "absolute path", with(1, serve.Command{Command: serve.CreateInstance, Instance: &serve.Instance{File: "p.yaml", Source: two}})},
		{"another pipeline", "the file is of pipeline q", with(1, serve.Command{Command: serve.CreateInstance, Instance: &serve.Instance{File: "/x", Source: strings.Replace(two, "pipeline: p", "pipeline: q", 1)}})},
		{"spec error", "unknown-key", with(1, serve.Command{Command: serve.CreateInstance, Instance: &serve.Instance{File: "/x", Source: two + "taks: {}\n"}})},
		{"instance twice", "came already", with(2, good[1])},
		{"unknown pool", `unknown pool or task "apo"; did you mean "api"`, with(2, serve.Command{Command: serve.UpdateConfiguration, Configuration: &serve.Configuration{Pools: map[string]int{"apo": 1}}})},
		{"fingerprint", "task first: its fingerprint is " + wrong.Fingerprint, with(3, serve.Command{Command: serve.CreateDataflow, Dataflow: &wrong})},
		{"dimensions", "task first: its list of dimensions is z to the client and none", with(3, serve.Command{Command: serve.CreateDataflow, Dataflow: &dims})},
		{"order", "before first, which it needs", with(3, serve.Command{Command: serve.CreateDataflow, Dataflow: &then})},
		{"schedule first", "before create_dataflow", with(3, serve.Command{Command: serve.Schedule, Task: "first"})},
		{"unknown task", `unknown task "frist"; did you mean "first"`, with(5, serve.Command{Command: serve.Schedule, Task: "frist"})},
		{"not all", "task then was not created", with(6, serve.Command{Command: serve.InitializationComplete})},
		{"late", "after initialization_complete", append(append([]serve.Command(nil), good...), good[6])},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, fs := host(t, nil)
			s := h.Session()
			defer s.Close()
			var err error
			for n, c := range tt.commands {
				if _, err = s.Do(t.Context(), c); err != nil && n < len(tt.commands)-1 {
					t.Fatal(err)
				}
			}
			text := fmt.Sprint(err)
			if wrong, ok := errors.AsType[spec.Errors](err); ok {
				text = wrong[0].Rule
			}
			if !strings.Contains(text, tt.want) {
				t.Errorf("got %s", text)
			}
			if made := len(fs.list()); made != 0 && tt.name != "late" {
				t.Errorf("%d engines", made)
			}
		})
	}
}

func TestHelloSupersedes(t *testing.T) {
	h, fs := host(t, nil)
	first, _ := submit(t, h, submission(t, two))
	second := h.Session()
	defer second.Close()
	commands := submission(t, strings.Replace(two, "echo", "printf", 1))
	second.Do(t.Context(), commands[0])
	<-first.Superseded()
	var over *serve.SupersededError
	if _, err := first.Do(t.Context(), commands[1]); !errors.As(err, &over) {
		t.Errorf("a late command: %v", err)
	}
	if n := len(fs.list()[0].reconciled); n != 0 {
		t.Errorf("hello alone reconciled %d times", n)
	}
	var a *serve.Answer
	for _, c := range commands[1:] {
		var err error
		if a, err = second.Do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if a.Reconciled == nil || a.Reconciled.Kept != 1 || a.Reconciled.Replaced != 1 {
		t.Errorf("%+v", a.Reconciled)
	}
	f := fs.list()[0]
	f.mu.Lock() // the first session's are set beside it
	if f.pools["api"] != 7 {
		t.Error("the pool was not set")
	}
	f.mu.Unlock()
	// Who comes late hears once how each task stands.
	<-second.Ready()
	if n := len(second.Take().Events); n != 2 {
		t.Errorf("%d events", n)
	}
	if s := first.Take(); s.End != nil {
		t.Error("the superseded session hears the end")
	}
}

func TestRunEndsWhileItIsReconciled(t *testing.T) {
	h, fs := host(t, nil)
	s, _ := submit(t, h, submission(t, two))
	fs.list()[0].Quit(t.Context(), false)
	_, a := submit(t, h, submission(t, two))
	if !a.Started && a.Reconciled == nil {
		t.Errorf("%+v", a)
	}
	s.Close()
	if n := len(fs.list()); n != 2 {
		t.Errorf("%d engines", n)
	}
}

// Who asks a run that is about to end hears of the next one, if that is on by then.
func TestRunEndsWhileItIsAsked(t *testing.T) {
	h, fs := host(t, nil)
	s, _ := submit(t, h, submission(t, two))
	s.Close()
	fs.list()[0].asked = func() error {
		fs.list()[0].Quit(t.Context(), false)
		submit(t, h, submission(t, two))
		return engine.ErrNotRunning
	}
	p, err := h.Pipeline("p")
	if err != nil {
		t.Fatal(err)
	}
	if st, err := p.Status(t.Context()); err != nil || st.State != engine.StateRunning {
		t.Errorf("%+v, %v", st, err)
	}
}

// A run that ends while a client's wishes are being compared with it tells that
// client nothing: it hears the run that begins for it, to that one's end.
func TestEndOfTheRunBeforeIsNotHeard(t *testing.T) {
	ends := make(ended, 2)
	h, fs := host(t, func(o *serve.Options) { o.Logger = slog.New(ends) })
	submit(t, h, submission(t, two))
	f := fs.list()[0]
	f.during = func() {
		f.Quit(t.Context(), false)
		<-ends // all have been told
	}
	s, a := submit(t, h, submission(t, two))
	if !a.Started {
		t.Errorf("%+v", a)
	}
	if n := s.Take(); n.End != nil {
		t.Fatalf("the new run has ended: %+v", n.End)
	}
	fs.list()[1].Quit(t.Context(), false)
	<-ends
	<-s.Ready()
	if n := s.Take(); n.End == nil {
		t.Error("no end of the new run")
	}
}

// ended is a log that has something for each run that ended.
type ended chan struct{}

func (e ended) Enabled(context.Context, slog.Level) bool { return true }
func (e ended) WithAttrs([]slog.Attr) slog.Handler       { return e }
func (e ended) WithGroup(string) slog.Handler            { return e }
func (e ended) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "run ended" {
		e <- struct{}{}
	}
	return nil
}

// A size that the engine does not take does not pass in silence.
func TestClientIsToldOfASizeThatWasNotTaken(t *testing.T) {
	h, fs := host(t, nil)
	fs.sizes = errors.New("too wide")
	for _, when := range []string{"a new run", "a run that is on"} {
		s, _ := submit(t, h, submission(t, two))
		<-s.Ready()
		n := s.Take()
		if len(n.Events) == 0 || n.Events[0].Kind != engine.EventNote || n.Events[0].Message != "set pool api to 7: too wide" {
			t.Errorf("%s: %+v", when, n.Events)
		}
	}
}

// Another file with a pipeline of the same name is told where the other one is,
// and what to do about it.
func TestAnotherFileOfTheSameName(t *testing.T) {
	h, fs := host(t, nil)
	attempt := func() string {
		s := h.Session()
		defer s.Close()
		var err error
		for _, c := range submission(t, two) {
			if c.Instance != nil {
				c.Instance.File = "/y/p.yaml"
			}
			_, err = s.Do(t.Context(), c)
		}
		if _, ok := errors.AsType[*serve.ElsewhereError](err); !ok {
			t.Errorf("got %T", err)
		}
		return fmt.Sprint(err)
	}
	fs.err = &engine.ForeignError{Dir: "/z/p", Pipeline: "p", File: "q.yaml"}
	if got := attempt(); !strings.Contains(got, "belongs to q.yaml: take it over with --adopt") {
		t.Error(got)
	}
	fs.err = nil
	submit(t, h, submission(t, two))
	fs.list()[0].refuses = &engine.ForeignError{Dir: "/z/p", Pipeline: "p", File: "p.yaml"}
	if got := attempt(); !strings.Contains(got, "is running from /x/p.yaml: end that run first, with operon quit, then take its state over with --adopt") {
		t.Error(got)
	}
}

func TestEarlyWishesAreRefusedWhileARunIsOn(t *testing.T) {
	h, _ := host(t, nil)
	submit(t, h, submission(t, two))
	commands := submission(t, two)
	commands[1].Instance.Wanted.Fresh = true
	s := h.Session()
	defer s.Close()
	var err error
	for _, c := range commands {
		_, err = s.Do(t.Context(), c)
	}
	if busy, ok := errors.AsType[*serve.BusyError](err); !ok || busy.Wish != "--fresh" {
		t.Errorf("got %v", err)
	}
}

func TestRunOutlivesItsClient(t *testing.T) {
	h, fs := host(t, nil)
	s, _ := submit(t, h, submission(t, two))
	s.Close()
	f := fs.list()[0]
	f.o.Events(engine.Event{Kind: engine.EventNote})
	select {
	case <-f.quit:
		t.Error("it was told to quit")
	default:
	}
}

func TestRunWithoutClientEndsAfterGrace(t *testing.T) {
	h, fs := host(t, func(o *serve.Options) { o.Grace = time.Millisecond })
	s, _ := submit(t, h, submission(t, two))
	s.Close()
	<-fs.list()[0].quit
}

// A client that takes nothing costs a bounded number of events, and hears how
// many it missed.
func TestSlowClient(t *testing.T) {
	h, fs := host(t, nil)
	s, _ := submit(t, h, submission(t, two))
	f := fs.list()[0]
	const notes = 5000
	for i := range int64(notes) {
		f.o.Events(engine.Event{Kind: engine.EventNote, Message: "n"})
		f.o.Events(engine.Event{Kind: engine.EventTask, Task: &engine.TaskStatus{Task: "then", Done: i}})
	}
	f.Quit(t.Context(), false)
	h.Close()
	n := s.Take()
	if len(n.Events) != 1025 || n.Lost != notes-1024 {
		t.Errorf("%d events, %d lost", len(n.Events), n.Lost)
	}
	for _, e := range n.Events {
		if e.Task != nil && e.Task.Done != notes-1 {
			t.Errorf("counts of %d", e.Task.Done)
		}
	}
	if n.End == nil || n.End.Summary == nil {
		t.Error("no end")
	}
}

func TestStopAndKill(t *testing.T) {
	t.Run("stop", func(t *testing.T) {
		h, fs := host(t, nil)
		submit(t, h, submission(t, two))
		h.Stop()
		if err := h.Close(); err != nil || !h.Cut() || fs.list()[0].killed {
			t.Errorf("%v, cut %v", err, h.Cut())
		}
		s := h.Session()
		defer s.Close()
		if _, err := s.Do(t.Context(), submission(t, two)[0]); !errors.Is(err, serve.ErrStopping) {
			t.Errorf("hello: %v", err)
		}
	})
	t.Run("kill", func(t *testing.T) {
		h, fs := host(t, nil)
		submit(t, h, submission(t, two))
		f := fs.list()[0]
		f.once.Do(func() {}) // deaf to Quit
		h.Kill(errors.New("enough"))
		h.Close()
		if !f.killed || !h.Cut() {
			t.Error("not killed")
		}
	})
}

func TestOneHostARoot(t *testing.T) {
	h, _ := host(t, nil)
	_, err := serve.New(t.Context(), serve.Options{Root: h.Root()})
	var used *serve.RootError
	if !errors.As(err, &used) || !strings.Contains(used.Owner, "process ") {
		t.Errorf("got %v", err)
	}
}

func TestManyReconnects(t *testing.T) {
	h, fs := host(t, nil)
	commands := submission(t, two)
	for range 1000 {
		commands[0].Session = uuid.NewString()
		s := h.Session()
		for _, c := range commands {
			if _, err := s.Do(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		s.Close()
	}
	if n, m := len(fs.list()), len(fs.list()[0].reconciled); n != 1 || m != 999 {
		t.Errorf("%d engines, %d reconciles", n, m)
	}
}
