package engine

import (
	"context"
	"fmt"
	"slices"

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
		if h.State != storage.Retired {
			out[h.Task] = h
		}
	}
	return out, nil
}

// readValues hands out the values that a query names, of a task with the status
// st. done, if not nil, are the jobs that there must be records of.
func readValues(ctx context.Context, r *storage.Reader, p *spec.Pipeline, q Query, st TaskStatus, done doneJobs, fn func(Item) error) (Found, error) {
	e := p.Entity(q.Entity)
	if e == nil {
		return Found{}, unknownEntity(p, q.Entity)
	}
	found := Found{Dims: e.DimNames()}
	flows, err := dataflows(r)
	if err != nil {
		return found, err
	}
	if q.At, err = bindLabels(ctx, r, p, flows, q.At, q.Labels); err != nil {
		return found, err
	}
	for d := range q.At {
		if !slices.Contains(found.Dims, d) {
			return found, &UnknownError{What: "dimension", Name: d, Nearest: spec.Nearest(d, found.Dims), Known: found.Dims}
		}
	}
	h, there := flows[e.Producer.Name]
	if !there {
		return found, nil
	}
	if h.State == storage.Released {
		return found, &ReleasedError{Entity: e.Name, Task: e.Producer.Name}
	}
	if err := checkCoordinate(r, p, flows, q.At); err != nil {
		return found, err
	}
	jobs, err := eachValue(ctx, r, h, e, q.At, func(item Item) error {
		found.Have++
		return fn(item)
	})
	if err == nil && done != nil {
		err = noneHidden(r, h, q.At, jobs, done)
	}
	found.Known = st.DataflowState == DataflowComplete
	found.Want = found.Have
	if !found.Known && len(q.At) == 0 && e.Producer.Spawn == nil {
		found.Want = st.Waiting + st.Blocked + st.Queued + st.Running + st.Done + st.Failed + st.Holes
	}
	return found, err
}

// checkCoordinate refuses an index beyond a length that is known.
func checkCoordinate(r *storage.Reader, p *spec.Pipeline, flows map[string]storage.Header, at coord.Binding) error {
	for _, d := range p.Dims {
		i, asked := at[d.Name]
		if !asked {
			continue
		}
		c, bound := at.Full(d.Spawner.ContextNames())
		h, there := flows[d.Spawner.Name]
		if !bound || !there {
			continue
		}
		rec, ok, err := r.Record(h.ID, c)
		if err != nil {
			return err
		}
		if ok && i >= rec.Extent {
			return &UnknownError{What: "coordinate", Name: fmt.Sprintf("%s=%d", d.Name, i), Known: []string{fmt.Sprintf("%d on %s", rec.Extent, d.Name)}}
		}
	}
	return nil
}

// eachValue hands out the values of an entity, and counts the jobs that have a
// record, with or without values.
func eachValue(ctx context.Context, r *storage.Reader, h storage.Header, e *spec.Entity, at coord.Binding, fn func(Item) error) (jobs int64, err error) {
	dims := e.DimNames()
	context := e.Producer.ContextNames()
	err = r.Records(h.ID, prefixOf(at, context), func(rec storage.Record) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !at.Match(rec.Coord, context) {
			return nil
		}
		jobs++
		if e.Producer.Spawn == nil {
			return r.Values(h.ID, rec.Coord, 0, 1, func(_ uint32, v value.Value) error {
				return fn(Item{Coord: rec.Coord, Value: v})
			})
		}
		if rec.Hole {
			return holeOfList(r, h, rec, at, dims[len(dims)-1], fn)
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
	return jobs, err
}

// holeOfList hands out the hole in the place of a list: at the coordinate of the
// job, since the list has no items.
func holeOfList(r *storage.Reader, h storage.Header, rec storage.Record, at coord.Binding, spawned string, fn func(Item) error) error {
	if _, one := at[spawned]; one {
		return nil
	}
	return r.Values(h.ID, rec.Coord, 0, 1, func(_ uint32, v value.Value) error {
		return fn(Item{Coord: rec.Coord, Value: v})
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
	names, err := labelsFor(ctx, p, flows)
	if err != nil {
		return err
	}
	if q.At, err = names.bind(r, q.At, q.Labels); err != nil {
		return err
	}
	for _, t := range tasks {
		if h, there := flows[t.Name]; there {
			labelled := func(l Log) error {
				l.Labels = names.of(r, t.Context, l.Coord)
				return fn(l)
			}
			if err := taskLogs(ctx, r, t, h, dir, q, labelled); err != nil {
				return err
			}
		}
	}
	return nil
}

// workerLogs hands out the logs of a task's worker processes.
func workerLogs(t *spec.TaskSpec, dir string, fn func(path string) error) error {
	if t.Body.Kind != spec.BodyWorker {
		return nil
	}
	found, err := filepath.Glob(filepath.Join(escapeGlob(filepath.Join(dir, logsDir, t.Name)), worker.SharedLogs))
	if err != nil {
		return fmt.Errorf("find the logs of the workers of %s: %w", t.Name, err)
	}
	for _, path := range found {
		if err := fn(path); err != nil {
			return err
		}
	}
	return nil
}

// taskLogs merges the logs of finished and of failed jobs in coordinate order.
func taskLogs(ctx context.Context, r *storage.Reader, t *spec.TaskSpec, h storage.Header, dir string, q LogQuery, fn func(Log) error) error {
	dims := t.ContextNames()
	for d := range q.At {
		if !slices.Contains(dims, d) {
			return &UnknownError{What: "dimension", Name: d, Nearest: spec.Nearest(d, dims), Known: dims}
		}
	}
	shared := map[string]bool{} // logs of workers, each of many jobs
	hand := func(c coord.Coord, path string) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !q.At.Match(c, dims) {
			return nil
		}
		full := filepath.Join(dir, logsDir, path)
		if _, err := os.Stat(full); err != nil || shared[full] {
			return nil // pruned, or never written; or a worker's that is there already
		}
		shared[full] = worker.IsShared(path)
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
	err = r.Records(h.ID, prefixOf(q.At, dims), func(rec storage.Record) error {
		if err := before(rec.Coord, false); err != nil || rec.Logged == 0 || q.Failed && !rec.Hole {
			return err
		}
		return hand(rec.Coord, logOf(t, rec))
	})
	if err == nil {
		err = before("", true)
	}
	if err != nil || q.Failed || len(q.At) > 0 {
		return err
	}
	return workerLogs(t, dir, func(path string) error {
		if shared[path] {
			return nil
		}
		return fn(Log{Task: t.Name, Path: path})
	})
}

func unknownEntity(p *spec.Pipeline, name string) error {
	var known []string
	for _, t := range p.Tasks {
		known = append(known, t.Out.Name)
	}
	return &UnknownError{What: "entity", Name: name, Nearest: spec.Nearest(name, known), Known: known}
}

// Values is View's.
func (e *Engine) Values(ctx context.Context, q Query, fn func(Item) error) (found Found, err error) {
	st, err := e.Status(ctx)
	if err != nil {
		return Found{}, err
	}
	p := e.pipeline()
	err = e.stores.data.ViewDurable(func(r *storage.Reader) error {
		found, err = readValues(ctx, r, p, q, st.producing(p, q.Entity), nil, fn)
		return err
	})
	return found, located(e.stores.data, err)
}

// Logs is View's.
func (e *Engine) Logs(ctx context.Context, q LogQuery, fn func(Log) error) error {
	if err := e.begun(ctx); err != nil {
		return err
	}
	p := e.pipeline()
	return e.stores.data.ViewDurable(func(r *storage.Reader) error {
		return readLogs(ctx, r, p, e.dir, q, fn)
	})
}

// producing is the status of the task that produces an entity.
func (s *Status) producing(p *spec.Pipeline, entity string) TaskStatus {
	if e := p.Entity(entity); e != nil {
		for _, t := range s.Tasks {
			if t.Task == e.Producer.Name {
				return t
			}
		}
	}
	return TaskStatus{}
}
