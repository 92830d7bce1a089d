package engine

import (
	"errors"
	"fmt"

	"operon/spec"
	"operon/spec/coord"
	"operon/storage"
)

// held looks for what keeps a job from running.
type held struct {
	r       *storage.Reader
	flows   map[string]storage.Header
	undone  map[string]bool // tasks that the last run did not complete
	seen    map[string]bool // tasks at what is bound of them
	missing string          // the first that was met of what has no result, from the sources on
}

// errFound ends a search.
var errFound = errors.New("found")

// blocked is why a job that neither ran nor failed did not run: what failed
// upstream of it, or what it still waits for.
func (s *State) blocked(r *storage.Reader, t *spec.TaskSpec, flows map[string]storage.Header, b *Because) error {
	h := &held{r: r, flows: flows, undone: unfinished(s.foot), seen: map[string]bool{}}
	f, by, err := h.by(t, coord.Bind(b.Coord, b.Dims))
	switch {
	case err != nil:
		return err
	case f != nil:
		b.Outcome = "blocked"
		b.Why = fmt.Sprintf("%s, which it rests on, failed: %s", atTask(by.Name, f.Coord.Format(by.ContextNames())), f.Message)
	case h.missing != "":
		b.Outcome, b.Why = "waiting", h.missing+", which it rests on, has not run"
	default:
		b.Outcome, b.Why = "waiting", "the last run did not get to it"
	}
	return nil
}

// by is the first failure, from the sources on, that a task's job at some of its
// coordinates rests on, and whose it is. Nil: there is none.
func (h *held) by(t *spec.TaskSpec, at coord.Binding) (*storage.Failure, *spec.TaskSpec, error) {
	for _, d := range t.Context {
		if f, of, err := h.producer(d.Spawner, at); f != nil || err != nil {
			return f, of, err
		}
	}
	for _, in := range t.In {
		if f, of, err := h.producer(in.Entity.Producer, only(at, in.Free)); f != nil || err != nil {
			return f, of, err
		}
	}
	return nil, nil, nil
}

// producer is by for a task that makes something that is taken, its own jobs
// included.
func (h *held) producer(t *spec.TaskSpec, at coord.Binding) (f *storage.Failure, of *spec.TaskSpec, err error) {
	dims := t.ContextNames()
	at = only(at, t.Context)
	key := fmt.Sprint(t.Name, at)
	if h.seen[key] {
		return nil, nil, nil
	}
	h.seen[key] = true
	if f, of, err = h.by(t, at); f != nil || err != nil {
		return f, of, err
	}
	flow, there := h.flows[t.Name]
	if !there {
		h.misses(t.Name)
		return nil, nil, nil
	}
	err = h.r.Failures(flow.ID, func(one storage.Failure) error {
		if !at.Match(one.Coord, dims) {
			return nil
		}
		f, of = &one, t
		return errFound
	})
	if err != nil && !errors.Is(err, errFound) {
		return nil, nil, err
	}
	c, full := at.Full(dims)
	switch {
	case f != nil:
		return f, of, nil
	case !full && h.undone[t.Name]:
		h.misses("a part of " + t.Name)
		return nil, nil, nil
	case !full:
		return nil, nil, nil
	}
	_, done, err := h.r.Record(flow.ID, c)
	if err == nil && !done {
		h.misses(atTask(t.Name, c.Format(dims)))
	}
	return nil, nil, err
}

func (h *held) misses(what string) {
	if h.missing == "" {
		h.missing = what
	}
}

// only is what a binding says of some dimensions.
func only(at coord.Binding, dims []*spec.Dim) coord.Binding {
	out := coord.Binding{}
	for _, d := range dims {
		if i, ok := at[d.Name]; ok {
			out[d.Name] = i
		}
	}
	return out
}

func atTask(task, at string) string {
	if at == "" {
		return task
	}
	return task + " at " + at
}
