package serve

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"operon/engine"
	"operon/spec"
)

// Info is a pipeline of a state root.
type Info struct {
	Pipeline string          `json:"pipeline"`
	Run      string          `json:"run,omitempty"`
	State    engine.RunState `json:"state"`
	Problem  string          `json:"problem,omitempty"` // why the state is not known
}

// Pipelines are those of the state root, by name.
func (h *Host) Pipelines(ctx context.Context) ([]Info, error) {
	entries, err := os.ReadDir(h.root)
	if err != nil {
		return nil, &engine.MachineError{Doing: "read the state root", Err: err}
	}
	out := []Info{}
	for _, e := range entries {
		if !e.IsDir() || !spec.IsName(e.Name()) {
			continue
		}
		s, err := (&Pipeline{h, e.Name()}).Status(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, engine.ErrNoState):
		case err != nil:
			out = append(out, Info{Pipeline: e.Name(), Problem: err.Error()})
		default:
			out = append(out, Info{Pipeline: e.Name(), Run: s.Run, State: s.State})
		}
	}
	return out, nil
}

// Pipeline answers for one pipeline of a host, whether it runs or not.
type Pipeline struct {
	h    *Host
	name string
}

// Pipeline is the pipeline of that name, which need not have run yet.
func (h *Host) Pipeline(name string) (*Pipeline, error) {
	if !spec.IsName(name) {
		return nil, protocolf("%q is not the name of a pipeline", name)
	}
	return &Pipeline{h, name}, nil
}

var _ Asked = (*Pipeline)(nil)

// look asks the engine that runs, or what the last one left.
func (p *Pipeline) look(ctx context.Context, ask func(engine.View) error) error {
	for r := p.h.runOf(p.name); r != nil; r = p.h.runOf(p.name) {
		err := ask(r.e)
		if !errors.Is(err, engine.ErrNotRunning) {
			return err
		}
		select { // its state directory is about to be free, or the next one's
		case <-r.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s, err := engine.OpenState(p.h.stateDir(p.name))
	if err != nil {
		return err
	}
	return errors.Join(ask(s), s.Close())
}

// tell asks the engine that runs, and nobody else.
func (p *Pipeline) tell(ask func(Engine) error) error {
	r := p.h.runOf(p.name)
	if r == nil {
		return &NoRunError{p.name}
	}
	err := ask(r.e)
	if errors.Is(err, engine.ErrNotRunning) {
		return &NoRunError{p.name}
	}
	return err
}

// Status is View's.
func (p *Pipeline) Status(ctx context.Context) (s *engine.Status, err error) {
	err = p.look(ctx, func(v engine.View) (err error) { s, err = v.Status(ctx); return err })
	return s, err
}

// Values is View's.
func (p *Pipeline) Values(ctx context.Context, q engine.Query, fn func(engine.Item) error) (f engine.Found, err error) {
	err = p.look(ctx, func(v engine.View) (err error) { f, err = v.Values(ctx, q, fn); return err })
	return f, err
}

// Logs is View's.
func (p *Pipeline) Logs(ctx context.Context, q engine.LogQuery, fn func(engine.Log) error) error {
	return p.look(ctx, func(v engine.View) error { return v.Logs(ctx, q, fn) })
}

// Pause is the engine's. Where none runs it is a *NoRunError, as with all that
// follow but Plan.
func (p *Pipeline) Pause(ctx context.Context, tasks []string, cascade bool) error {
	return p.tell(func(e Engine) error { return e.Pause(ctx, tasks, cascade) })
}

// Resume is the engine's.
func (p *Pipeline) Resume(ctx context.Context, tasks []string) error {
	return p.tell(func(e Engine) error { return e.Resume(ctx, tasks) })
}

// Quit is the engine's.
func (p *Pipeline) Quit(ctx context.Context, force bool) error {
	return p.tell(func(e Engine) error { return e.Quit(ctx, force) })
}

// SetPool is the engine's.
func (p *Pipeline) SetPool(ctx context.Context, name string, size int) error {
	return p.tell(func(e Engine) error { return e.SetPool(ctx, name, size) })
}

// Drop is the engine's.
func (p *Pipeline) Drop(ctx context.Context, tasks []string) error {
	return p.tell(func(e Engine) error { return e.Drop(ctx, tasks) })
}

// Plan is the engine's, and that of a run that would begin where none is on.
func (p *Pipeline) Plan(ctx context.Context, q engine.PlanQuery) (*engine.Plan, error) {
	var plan *engine.Plan
	err := p.tell(func(e Engine) (err error) { plan, err = e.Plan(ctx, q); return err })
	if _, none := errors.AsType[*NoRunError](err); !none {
		return plan, err
	}
	state := p.h.stateDir(p.name)
	file, err := engine.LoadFile(q.File, engine.LoadOptions{Params: q.Params, ParamsFile: q.ParamsFile, LookupEnv: os.LookupEnv, State: state, Remember: true})
	if err != nil {
		return nil, err
	}
	if file.Name != p.name {
		return nil, protocolf("%s is of pipeline %s, not %s", q.File, file.Name, p.name)
	}
	return engine.PlanRun(ctx, file, engine.Options{Dir: filepath.Dir(q.File), State: state, Redo: q.Redo, Environ: p.h.o.Engine.Environ})
}
