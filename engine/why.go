package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"operon/engine/worker"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// Because is why one job ran, or did not, in the last run.
type Because struct {
	Task     string      `json:"task"`
	Coord    coord.Coord `json:"-"`
	Dims     []string    `json:"-"`
	At       string      `json:"at"`
	Outcome  string      `json:"outcome"` // executed, reused, kept, failed, blocked, hole or waiting
	Why      string      `json:"why"`
	Started  time.Time   `json:"started,omitzero"` // of the attempt that gave the result
	Attempts int         `json:"attempts,omitempty"`
	Inputs   []Took      `json:"inputs,omitempty"`
}

// Took is one input of a job, as it is now.
type Took struct {
	Arg    string `json:"arg"`
	Ref    string `json:"ref"`
	SHA256 string `json:"sha256"` // of what it is: see package value
}

// Why says of one job of the last run whether it ran, and why. at must name
// every dimension of the task's context.
func (s *State) Why(ctx context.Context, task string, at coord.Binding) (*Because, error) {
	t := s.p.Task(task)
	if t == nil {
		return nil, unknownTask(s.p, task)
	}
	dims := t.ContextNames()
	for d := range at {
		if !slices.Contains(dims, d) {
			return nil, &UnknownError{What: "dimension", Name: d, Nearest: spec.Nearest(d, dims), Known: dims}
		}
	}
	c, ok := at.Full(dims)
	if !ok {
		return nil, &UnknownError{What: "coordinate", Name: task + " without all of its dimensions", Known: dims}
	}
	b := &Because{Task: task, Coord: c, Dims: dims, At: c.Format(dims)}
	err := s.data.View(func(r *storage.Reader) error { return s.because(ctx, r, t, b) })
	return b, s.readError("read what is there", err)
}

func (s *State) because(ctx context.Context, r *storage.Reader, t *spec.TaskSpec, b *Because) error {
	flows, err := dataflows(r)
	if err != nil {
		return err
	}
	h, there := flows[t.Name]
	if !there {
		b.Outcome, b.Why = "waiting", "the task never ran"
		return nil
	}
	if err := checkCoordinate(r, s.p, flows, coord.Bind(b.Coord, b.Dims)); err != nil {
		return err
	}
	last := decodeAsked(s.foot.Asked)
	reason := last.Reasons[t.Name]
	rec, done, err := r.Record(h.ID, b.Coord)
	if err != nil {
		return err
	}
	if !done {
		return s.notDone(r, t, flows, b)
	}
	if rec.Attempts > 0 {
		b.Started, b.Attempts = time.Unix(0, rec.Start), int(rec.Attempts)
	}
	switch {
	case rec.Hole:
		b.Outcome, b.Why = "hole", "it has no value"
		err := r.Values(h.ID, b.Coord, 0, 1, func(_ uint32, v value.Value) error {
			b.Why = v.Reason()
			return nil
		})
		if err != nil && !errors.Is(err, storage.ErrReleased) {
			return err
		}
	case !time.Unix(0, rec.Start).Before(last.Began):
		b.Outcome, b.Why = "executed", reason
		if reason == "" {
			b.Why = "the run before did not get to it, or it had failed"
		}
	case reason != "":
		b.Outcome, b.Why = "reused", "a job with the same definition and the same inputs had run; the task was looked up anew: "+reason
	default:
		b.Outcome, b.Why = "kept", "nothing that it depends on changed"
	}
	return s.took(r, t, flows, b)
}

func (s *State) notDone(r *storage.Reader, t *spec.TaskSpec, flows map[string]storage.Header, b *Because) error {
	f, failed, err := r.Failure(flows[t.Name].ID, b.Coord)
	if err != nil {
		return err
	}
	if failed {
		b.Outcome, b.Why = "failed", f.Message
		b.Started, b.Attempts = time.Unix(0, f.Start), int(f.Attempts)
		return nil
	}
	return s.blocked(r, t, flows, b)
}

// took notes what the job takes now.
func (s *State) took(r *storage.Reader, t *spec.TaskSpec, flows map[string]storage.Header, b *Because) error {
	d := &worker.Dataflow{ID: flows[t.Name].ID, Task: t, Spawners: make([]uint64, len(s.p.Dims))}
	for _, x := range s.p.Dims {
		d.Spawners[x.Index] = flows[x.Spawner.Name].ID
	}
	for _, in := range t.In {
		d.Producers = append(d.Producers, flows[in.Entity.Producer.Name].ID)
	}
	digests, err := worker.NewVerifier(nil).Inputs(r, d, b.Coord)
	if err != nil {
		return fmt.Errorf("inputs of task %s: %w", t.Name, err)
	}
	for n, in := range t.In {
		b.Inputs = append(b.Inputs, Took{Arg: in.Arg, Ref: in.String(), SHA256: digests[n].String()})
	}
	return nil
}
