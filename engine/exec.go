package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"operon/engine/body"
	"operon/engine/worker"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// ExecQuery names one job.
type ExecQuery struct {
	Task   string
	At     coord.Binding     // the dimensions of the task's context
	Labels map[string]string // as in Query
}

// Execution is what came of a job that Exec ran.
type Execution struct {
	Task    string
	Coord   coord.Coord // of the task's context
	Dims    []string
	Items   []value.Value // what it returned; files lie where FileInfo.Path says until the call returns
	Failed  *Failed       // nil: it went well
	Log     string        // path of its standard error until the call returns; "" if it wrote none
	Elapsed time.Duration
}

// Exec runs one job by hand: with the pipeline as it is now, and the inputs that
// the state holds. What it returned is handed to show, and nothing is stored.
// The state is read, and held for reading meanwhile; an engine there is an
// *InUseError. A task or dimension that is unknown is an *UnknownError, an input
// that is not there yet ErrNotThereYet.
func Exec(ctx context.Context, p *spec.Pipeline, o Options, q ExecQuery, show func(*Execution) error) error {
	t := p.Task(q.Task)
	if t == nil {
		return unknownTask(p, q.Task)
	}
	o.Until = []string{q.Task}
	e, err := prepare(p, o)
	if err != nil {
		return err
	}
	s, err := openFiles(e.dir)
	if errors.Is(err, ErrNoState) && len(t.In) == 0 {
		c, err := fullCoord(t, q.At)
		if err != nil {
			return err
		}
		return e.exec(ctx, t, &body.Job{Coord: c}, show)
	}
	if err != nil {
		return err
	}
	j, err := s.jobOf(ctx, p, t, q)
	if err == nil {
		err = e.exec(ctx, t, j, show)
	}
	return errors.Join(err, s.Close())
}

// ErrNotThereYet says that a job takes what no job has made yet.
var ErrNotThereYet = errors.New("not there yet")

// jobOf is the job that is asked for, with its arguments.
func (s *State) jobOf(ctx context.Context, p *spec.Pipeline, t *spec.TaskSpec, q ExecQuery) (j *body.Job, err error) {
	err = s.data.View(func(r *storage.Reader) error {
		flows, err := dataflows(r)
		if err != nil {
			return err
		}
		at, err := bindLabels(ctx, r, p, flows, q.At, q.Labels)
		if err != nil {
			return err
		}
		c, err := fullCoord(t, at)
		if err != nil {
			return err
		}
		if err := checkCoordinate(r, p, flows, at); err != nil {
			return err
		}
		j = &body.Job{Coord: c, RunID: s.foot.RunID}
		j.Args, err = argumentsOf(r, p, t, flows, c)
		return err
	})
	return j, err
}

// fullCoord is the coordinate of the task's context that at names.
func fullCoord(t *spec.TaskSpec, at coord.Binding) (coord.Coord, error) {
	dims := t.ContextNames()
	for d := range at {
		if !slices.Contains(dims, d) {
			return "", &UnknownError{What: "dimension", Name: d, Nearest: spec.Nearest(d, dims), Known: dims}
		}
	}
	c, ok := at.Full(dims)
	if !ok {
		return "", &UnknownError{What: "coordinate", Name: coordText(at, dims), Known: []string{"jobs of task " + t.Name + " over " + strings.Join(dims, ", ")}}
	}
	return c, nil
}

// coordText prints what of the dimensions is bound.
func coordText(at coord.Binding, dims []string) string {
	var parts []string
	for _, d := range dims {
		if i, ok := at[d]; ok {
			parts = append(parts, fmt.Sprintf("%s=%d", d, i))
		}
	}
	return strings.Join(parts, ",")
}

// argumentsOf reads what a job takes.
func argumentsOf(r *storage.Reader, p *spec.Pipeline, t *spec.TaskSpec, flows map[string]storage.Header, c coord.Coord) ([]body.Arg, error) {
	d := &worker.Dataflow{Task: t, Spawners: make([]uint64, len(p.Dims))}
	for _, dim := range p.Dims {
		d.Spawners[dim.Index] = flows[dim.Spawner.Name].ID
	}
	for _, in := range t.In {
		h := flows[in.Entity.Producer.Name]
		if h.State == storage.Released {
			return nil, &ReleasedError{Entity: in.Entity.Name, Task: in.Entity.Producer.Name}
		}
		d.Producers = append(d.Producers, h.ID)
	}
	args, err := worker.NewKeys().Arguments(r, d, c)
	if lost, ok := errors.AsType[*worker.FileDamage](err); ok {
		return nil, &InconsistentError{Task: t.Name, Coord: c.Format(t.ContextNames()), Detail: lost.Detail}
	}
	var damage *storage.Damage
	if errors.Is(err, storage.ErrNoRecord) || errors.As(err, &damage) {
		return nil, fmt.Errorf("%w: what task %s takes at %q (%v)", ErrNotThereYet, t.Name, c.Format(t.ContextNames()), err)
	}
	return args, err
}

// exec runs the job in a folder that goes afterwards.
func (e *Engine) exec(ctx context.Context, t *spec.TaskSpec, j *body.Job, show func(*Execution) error) (err error) {
	runner, err := e.runner(t)
	if err != nil {
		return fmt.Errorf("prepare the body of task %s: %w", t.Name, err)
	}
	dir, err := os.MkdirTemp("", "operon-exec-")
	if err != nil {
		return &MachineError{Doing: "make a folder for the job", Err: err}
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	j.Attempt, j.Log = 1, filepath.Join(dir, "stderr")
	j.Token = "exec." + filepath.Base(dir)
	if n := t.GPUs; n > 0 && n <= len(e.gpus) {
		j.Env = []string{cudaDevices + "=" + strings.Join(e.gpus[:n], ",")}
	}
	started := time.Now()
	return worker.Try(ctx, runner, filepath.Join(dir, "slot"), j, func(res *body.Result, f *body.Failure) error {
		x := &Execution{Task: t.Name, Coord: j.Coord, Dims: t.ContextNames(), Elapsed: time.Since(started)}
		if _, err := os.Stat(j.Log); err == nil {
			x.Log = j.Log
		}
		if f != nil {
			x.Failed = &Failed{
				Task: t.Name, Coord: j.Coord, Dims: x.Dims, Kind: string(f.Kind), Message: f.Message, Attempts: 1,
				Exit: f.Exit, Signal: f.Signal, Stderr: f.Stderr, Log: x.Log,
			}
		} else {
			x.Items = res.Items
		}
		return show(x)
	})
}
