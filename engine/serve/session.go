package serve

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"operon/engine"
	"operon/spec"
)

// Session is one client's conversation with a host. Its methods but Hold are
// called from one goroutine.
type Session struct {
	h          *Host
	id         string
	pipeline   string        // "" before hello
	superseded chan struct{} // closed by the host
	share      share
	feed       *feed
	run        *run // what it hears, after initialization_complete
	closed     bool

	instance  *Instance
	compiled  *spec.Pipeline
	config    Configuration
	created   map[string]bool
	scheduled map[string]bool
}

// Session opens a session. Close has to be called.
func (h *Host) Session() *Session {
	h.mu.Lock()
	h.sessions++
	h.mu.Unlock()
	return &Session{h: h, share: share{room: &h.room}, superseded: make(chan struct{}), feed: newFeed(), created: map[string]bool{}, scheduled: map[string]bool{}}
}

// Close ends the session. What it has not completed never was; what runs goes on.
func (s *Session) Close() {
	if s.closed {
		return
	}
	s.closed = true
	s.share.giveBack()
	s.h.mu.Lock()
	s.h.sessions--
	if s.h.control[s.pipeline] == s {
		delete(s.h.control, s.pipeline)
	}
	s.h.mu.Unlock()
	if s.run != nil {
		s.run.detach(s.feed)
	}
}

// Installed reports whether initialization_complete was taken.
func (s *Session) Installed() bool { return s.run != nil }

// Hold counts n bytes of a command that is on its way, as they come in: what all
// sessions hold until they are installed or closed is bounded by MaxHeld, and
// one byte more is ErrCrowded. No call may come after Close.
func (s *Session) Hold(n int) error { return s.share.take(n) }

// Superseded is closed when another session has taken control.
func (s *Session) Superseded() <-chan struct{} { return s.superseded }

// Over is the error for a session that was superseded, nil for others.
func (s *Session) Over() error {
	select {
	case <-s.superseded:
		return &SupersededError{Pipeline: s.pipeline}
	default:
		return nil
	}
}

// Ready has something whenever Take has.
func (s *Session) Ready() <-chan struct{} { return s.feed.ready }

// Take is what the session has heard of the run since the last call.
func (s *Session) Take() News { return s.feed.take() }

// Do takes one command. After an error the session is of no more use: a client
// begins anew. The end of ctx does not undo what is being applied.
func (s *Session) Do(ctx context.Context, c Command) (*Answer, error) {
	if err := s.Over(); err != nil {
		return nil, err
	}
	if err := s.inOrder(c.Command); err != nil {
		return nil, err
	}
	a := &Answer{Command: c.Command}
	switch c.Command {
	case Hello:
		return a, s.hello(c, a)
	case CreateInstance:
		return a, s.create(c.Instance)
	case UpdateConfiguration:
		return a, s.configure(c.Configuration)
	case CreateDataflow:
		return a, s.dataflow(c.Dataflow)
	case Schedule:
		return a, s.schedule(c.Task)
	}
	if err := s.complete(a); err != nil {
		return nil, err
	}
	s.share.giveBack()
	return a, nil
}

// inOrder refuses a command that can't come now.
func (s *Session) inOrder(command string) error {
	known := []string{Hello, CreateInstance, UpdateConfiguration, CreateDataflow, Schedule, InitializationComplete}
	switch {
	case !slices.Contains(known, command):
		return protocolf("unknown command %q; there are: %s", command, strings.Join(known, ", "))
	case s.Installed():
		return protocolf("%s after initialization_complete: a change is a submission of its own", command)
	case command == Hello && s.pipeline != "":
		return protocolf("hello came already")
	case command != Hello && s.pipeline == "":
		return protocolf("%s before hello", command)
	case command == CreateInstance && s.instance != nil:
		return protocolf("create_instance came already")
	case command != Hello && command != CreateInstance && s.instance == nil:
		return protocolf("%s before create_instance", command)
	}
	return nil
}

// hello takes control of the pipeline.
func (s *Session) hello(c Command, a *Answer) error {
	id, err := uuid.Parse(c.Session)
	switch {
	case c.Version != Version:
		return protocolf("the server speaks version %d of the submission protocol, the client %d: use the same operon for both", Version, c.Version)
	case err != nil || id == uuid.Nil:
		return protocolf("a session is a UUID, not %q", c.Session)
	case !spec.IsName(c.Pipeline):
		return protocolf("%q is not the name of a pipeline", c.Pipeline)
	}
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopping {
		return ErrStopping
	}
	earlier := h.control[c.Pipeline]
	if earlier != nil && earlier.id == id.String() {
		return protocolf("session %s is in control already: each submission is a session of its own", id)
	}
	if earlier != nil {
		close(earlier.superseded)
	}
	s.id, s.pipeline = id.String(), c.Pipeline
	h.control[c.Pipeline] = s
	a.Session, a.Version = s.id, Version
	return nil
}

// create compiles what the client wants. Nothing of it is applied.
func (s *Session) create(i *Instance) error {
	switch {
	case i == nil:
		return protocolf("create_instance without an instance")
	case !filepath.IsAbs(i.File):
		return protocolf("the pipeline file is an absolute path, not %q", i.File)
	}
	lookup := func(name string) (string, bool) { v, ok := i.Env[name]; return v, ok }
	p, err := engine.LoadSource([]byte(i.Source), i.File, engine.LoadOptions{Params: i.Params, LookupEnv: lookup})
	if err != nil {
		return err
	}
	if p.Name != s.pipeline {
		return protocolf("hello named pipeline %s, and the file is of pipeline %s", s.pipeline, p.Name)
	}
	s.instance, s.compiled = i, p
	return nil
}

func (s *Session) configure(c *Configuration) error {
	if c == nil {
		return protocolf("update_configuration without a configuration")
	}
	for name, size := range c.Pools {
		if known := poolNames(s.compiled); !slices.Contains(known, name) {
			return &engine.UnknownError{What: "pool or task", Name: name, Nearest: spec.Nearest(name, known), Known: known}
		}
		if size < 1 {
			return protocolf("pool %s has a size from 1, not %d", name, size)
		}
	}
	s.config.merge(c)
	return nil
}

// dataflow holds a task of the client against ours.
func (s *Session) dataflow(d *Dataflow) error {
	if d == nil {
		return protocolf("create_dataflow without a dataflow")
	}
	t := s.compiled.Task(d.Task)
	if t == nil {
		return unknownTask(s.compiled, d.Task)
	}
	if s.created[d.Task] {
		return protocolf("create_dataflow %s came already", d.Task)
	}
	for _, up := range t.Upstream() {
		if !s.created[up.Name] {
			return protocolf("create_dataflow %s before %s, which it needs", d.Task, up.Name)
		}
	}
	ours := DataflowOf(t)
	for _, f := range []struct{ what, client, host string }{
		{"fingerprint", d.Fingerprint, ours.Fingerprint},
		{"list of dimensions", strings.Join(d.Dims, ", "), strings.Join(ours.Dims, ", ")},
		{"spawned dimension", d.Spawn, ours.Spawn},
	} {
		if f.client != f.host {
			return &MismatchError{Task: d.Task, What: f.what, Client: f.client, Host: f.host}
		}
	}
	s.created[d.Task] = true
	return nil
}

func (s *Session) schedule(task string) error {
	switch {
	case s.compiled.Task(task) == nil:
		return unknownTask(s.compiled, task)
	case !s.created[task]:
		return protocolf("schedule %s before create_dataflow", task)
	case s.scheduled[task]:
		return protocolf("schedule %s came already", task)
	}
	s.scheduled[task] = true
	return nil
}

// complete applies the submission.
func (s *Session) complete(a *Answer) error {
	for _, t := range s.compiled.Topo {
		if !s.scheduled[t.Name] {
			return protocolf("initialization_complete, and task %s was not created and scheduled", t.Name)
		}
	}
	h := s.h
	l := h.line(s.pipeline)
	giveBack, err := l.take(h.ctx)
	if err != nil {
		return err
	}
	defer giveBack()
	if err := s.Over(); err != nil {
		return err
	}
	for {
		r := h.runOf(s.pipeline)
		if r == nil {
			if s.run, err = h.start(l, s.compiled, s.options(), s.config, s.feed); err != nil {
				return s.elsewhere(err, nil)
			}
			a.Started = true
			return nil
		}
		if wish := s.instance.Wanted.early(); wish != "" {
			return &BusyError{Pipeline: s.pipeline, Wish: wish}
		}
		a.Reconciled, err = r.reconcile(h.ctx, s.compiled, s.options(), s.config, s.feed)
		if err == nil {
			s.run, r.file = r, s.compiled.File
			return nil
		}
		if !errors.Is(err, engine.ErrNotRunning) {
			return s.elsewhere(err, r)
		}
		select { // it has just ended: begin anew, and leave what was heard of it
		case <-r.done:
			s.feed = newFeed()
		case <-h.ctx.Done():
			return ErrStopping
		}
	}
}

// elsewhere is err, or what a client does where the state is of another file: r
// is the run of that one, nil if it does not run.
func (s *Session) elsewhere(err error, r *run) error {
	foreign, ok := errors.AsType[*engine.ForeignError](err)
	switch {
	case !ok:
		return err
	case r != nil:
		return &ElsewhereError{Pipeline: s.pipeline, File: r.file, Running: true}
	}
	return &ElsewhereError{Pipeline: s.pipeline, File: foreign.File}
}

// options are those of an engine that does what the session wants.
func (s *Session) options() engine.Options {
	o, w := s.h.o.Engine, s.instance.Wanted
	o.Dir, o.State, o.Logger = filepath.Dir(s.instance.File), s.h.stateDir(s.pipeline), s.h.log.With("pipeline", s.pipeline)
	if s.h.o.Socket != nil {
		o.Socket = s.h.o.Socket(o.State)
	}
	o.Until, o.KeepGoing, o.MaxFailures, o.Redo, o.Only, o.Sample = w.Until, w.KeepGoing, w.MaxFailures, w.Redo, w.Only, w.Sample
	o.RetryHoles, o.Fresh, o.Rebuild, o.Skip, o.RedoInconsistent, o.Adopt = w.RetryHoles, w.Fresh, w.Rebuild, w.Skip, w.RedoInconsistent, w.Adopt
	return o
}

// early is the first wish that only a run which has not begun can have, or "".
func (w *Wanted) early() string {
	for _, x := range []struct {
		wish  string
		given bool
	}{{"--fresh", w.Fresh}, {"--rebuild", w.Rebuild}, {"--skip", len(w.Skip) > 0}, {"--redo-inconsistent", w.RedoInconsistent}, {"--retry-holes", w.RetryHoles}, {"--adopt", w.Adopt}} {
		if x.given {
			return x.wish
		}
	}
	return ""
}

// poolNames are the names of all that has a size: pools, and tasks.
func poolNames(p *spec.Pipeline) []string {
	var names []string
	for _, pool := range p.Pools {
		names = append(names, pool.Name)
	}
	for _, t := range p.Tasks {
		names = append(names, t.Name)
	}
	return names
}

func unknownTask(p *spec.Pipeline, name string) error {
	var known []string
	for _, t := range p.Tasks {
		known = append(known, t.Name)
	}
	return &engine.UnknownError{What: "task", Name: name, Nearest: spec.Nearest(name, known), Known: known}
}
