package engine

import (
	"context"

	"os"
	"path/filepath"

	"operon/engine/worker"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// dataflows are the current dataflows of a state, by task.
func dataflows(r *storage.Reader) (map[string]storage.Header, error) {
	headers, err := r.Headers()
	if err != nil {
		return nil, err
	}
	out := map[string]storage.Header{}
	for _, h := range headers {
		if h.State == storage.Current {
			out[h.Task] = h
		}
	}
	return out, nil
}

// readValues hands out the values that a query names. Complete says that the
// task has nothing left to do, tickets how many of its jobs are known.
func readValues(ctx context.Context, r *storage.Reader, p *spec.Pipeline, q Query, st TaskStatus, fn func(Item) error) (Found, error) {
	e := p.Entity(q.Entity)
	if e == nil {
		return Found{}, unknownEntity(p, q.Entity)
	}
	found := Found{Dims: e.DimNames()}
	for d := range q.At {
		if !contains(found.Dims, d) {
			return found, &UnknownError{What: "dimension", Name: d, Nearest: spec.Nearest(d, found.Dims), Known: found.Dims}
		}
	}
	flows, err := dataflows(r)
	if err != nil {
		return found, err
	}
	h, there := flows[e.Producer.Name]
	if !there {
		return found, nil
	}
	err = eachValue(ctx, r, h, e, q.At, func(item Item) error {
		found.Have++
		return fn(item)
	})
	found.Known = st.DataflowState == DataflowComplete
	found.Want = found.Have
	if !found.Known && len(q.At) == 0 && e.Producer.Spawn == nil {
		found.Want = st.Waiting + st.Blocked + st.Queued + st.Running + st.Done + st.Failed + st.Holes
	}
	return found, err
}

func eachValue(ctx context.Context, r *storage.Reader, h storage.Header, e *spec.Entity, at coord.Binding, fn func(Item) error) error {
	dims := e.DimNames()
	context := e.Producer.ContextNames()
	job := coord.Binding{}
	for d, i := range at {
		if contains(context, d) {
			job[d] = i
		}
	}
	return r.Records(h.ID, prefixOf(job, context), func(rec storage.Record) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !job.Match(rec.Coord, context) {
			return nil
		}
		if e.Producer.Spawn == nil {
			return r.Values(h.ID, rec.Coord, 0, 1, func(_ uint32, v value.Value) error {
				return fn(Item{Coord: rec.Coord, Value: v})
			})
		}
		lo, hi := uint32(0), rec.Extent
		if i, ok := at[dims[len(dims)-1]]; ok {
			if i >= rec.Extent {
				return nil
			}
			lo, hi = i, i+1
		}
		return r.Values(h.ID, rec.Coord, lo, hi, func(i uint32, v value.Value) error {
			return fn(Item{Coord: rec.Coord.Append(i), Value: v})
		})
	})
}

// prefixOf is the longest prefix of the dimensions that the binding binds.
func prefixOf(b coord.Binding, dims []string) coord.Coord {
	c := coord.Coord("")
	for _, d := range dims {
		i, ok := b[d]
		if !ok {
			break
		}
		c = c.Append(i)
	}
	return c
}

// readLogs hands out the logs that a query names: those of jobs that wrote to
// standard error.
func readLogs(ctx context.Context, r *storage.Reader, p *spec.Pipeline, dir string, q LogQuery, fn func(Log) error) error {
	tasks := p.Tasks
	if q.Task != "" {
		t := p.Task(q.Task)
		if t == nil {
			return unknownTask(p, q.Task)
		}
		tasks = []*spec.TaskSpec{t}
	}
	flows, err := dataflows(r)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if h, there := flows[t.Name]; there {
			if err := taskLogs(ctx, r, t, h, dir, q, fn); err != nil {
				return err
			}
		}
	}
	return nil
}

// taskLogs merges the logs of finished and of failed jobs in coordinate order.
func taskLogs(ctx context.Context, r *storage.Reader, t *spec.TaskSpec, h storage.Header, dir string, q LogQuery, fn func(Log) error) error {
	dims := t.ContextNames()
	for d := range q.At {
		if !contains(dims, d) {
			return &UnknownError{What: "dimension", Name: d, Nearest: spec.Nearest(d, dims), Known: dims}
		}
	}
	hand := func(c coord.Coord, path string) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !q.At.Match(c, dims) {
			return nil
		}
		full := filepath.Join(dir, logsDir, path)
		if _, err := os.Stat(full); err != nil {
			return nil // pruned, or never written
		}
		return fn(Log{Task: t.Name, Coord: c, Dims: dims, Path: full})
	}
	var failed []storage.Failure
	err := r.Failures(h.ID, func(f storage.Failure) error {
		if f.Log != "" {
			f.Stderr = nil
			failed = append(failed, f)
		}
		return nil
	})
	if err != nil {
		return err
	}
	before := func(c coord.Coord, all bool) error {
		for len(failed) > 0 && (all || failed[0].Coord < c) {
			f := failed[0]
			failed = failed[1:]
			if err := hand(f.Coord, f.Log); err != nil {
				return err
			}
		}
		return nil
	}
	if !q.Failed {
		err := r.Records(h.ID, prefixOf(q.At, dims), func(rec storage.Record) error {
			if err := before(rec.Coord, false); err != nil || rec.Logged == 0 {
				return err
			}
			return hand(rec.Coord, worker.LogName(t, worker.Job{Coord: rec.Coord}))
		})
		if err != nil {
			return err
		}
	}
	return before("", true)
}

func unknownEntity(p *spec.Pipeline, name string) error {
	var known []string
	for _, t := range p.Tasks {
		known = append(known, t.Out.Name)
	}
	return &UnknownError{What: "entity", Name: name, Nearest: spec.Nearest(name, known), Known: known}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// Values is View's.
func (e *Engine) Values(ctx context.Context, q Query, fn func(Item) error) (found Found, err error) {
	st, err := e.Status(ctx)
	if err != nil {
		return Found{}, err
	}
	err = e.stores.data.ViewDurable(func(r *storage.Reader) error {
		found, err = readValues(ctx, r, e.p, q, st.producing(e.p, q.Entity), fn)
		return err
	})
	return found, err
}

// Logs is View's.
func (e *Engine) Logs(ctx context.Context, q LogQuery, fn func(Log) error) error {
	return e.stores.data.ViewDurable(func(r *storage.Reader) error {
		return readLogs(ctx, r, e.p, e.dir, q, fn)
	})
}

// producing is the status of the task that produces an entity.
func (s *Status) producing(p *spec.Pipeline, entity string) TaskStatus {
	if e := p.Entity(entity); e != nil {
		return s.Tasks[e.Producer.Index]
	}
	return TaskStatus{}
}
