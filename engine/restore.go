package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"operon/engine/ticket"
	"operon/spec"
	"operon/spec/coord"
	"operon/storage"
)

// restored is the ticket table of a state, and what it took to make it.
type restored struct {
	table    *ticket.Table
	runnable []ticket.Range
	adopted  int64           // jobs that the metadata did not have yet
	failed   [][]coord.Coord // of each task: jobs that the last run gave up
	dropped  [][]coord.Coord // of each task: records that nothing asks for any more
}

// finished is what is known of one task's finished jobs: each(fn) calls fn for
// each, in coordinate order.
type finished struct {
	each func(fn func(c coord.Coord, extent uint32, hole bool) error) error
}

// restore makes the ticket table anew by replay, upstream first, through the
// transition function that made it in the first place. Records of jobs that
// are not asked for, as after a list that became shorter, are dropped; with
// retryHoles so are holes, and then what rests on them is not asked for.
func restore(p *spec.Pipeline, done []finished, retryHoles bool) (*restored, error) {
	r := &restored{failed: make([][]coord.Coord, len(p.Tasks)), dropped: make([][]coord.Coord, len(p.Tasks))}
	var ranges []ticket.Range
	r.table, ranges = ticket.New(p)
	for _, t := range p.Topo {
		if done[t.Index].each == nil {
			continue
		}
		err := done[t.Index].each(func(c coord.Coord, extent uint32, hole bool) error {
			more, err := replay(r.table, t.Index, c, extent, hole, retryHoles)
			if err != nil {
				if s := r.table.Status(t.Index, c); s != ticket.Done && s != ticket.Hole {
					r.dropped[t.Index] = append(r.dropped[t.Index], c)
				}
				return nil
			}
			ranges = append(ranges, more...)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("replay task %s: %w", t.Name, err)
		}
	}
	r.runnable = stillQueued(r.table, p, ranges)
	return r, nil
}

// replay applies that a job had ended.
func replay(t *ticket.Table, task int, c coord.Coord, extent uint32, hole, retryHoles bool) ([]ticket.Range, error) {
	switch {
	case hole && retryHoles:
		return nil, errRetried
	case hole:
		return t.OnHole(task, c)
	}
	return t.OnJob(task, c, extent)
}

// errRetried says that a hole is to be tried again.
var errRetried = errors.New("a hole that is tried again")

// restoreFrom restores the tickets of the dataflows that ids names, 0 for none:
// from the metadata's image, with what the data has beyond it; or, where img is
// nil, from the data's records alone, as they are.
func restoreFrom(p *spec.Pipeline, ids []uint64, r *storage.Reader, img *image, retryHoles bool) (*restored, error) {
	done := make([]finished, len(p.Tasks))
	failed := make([][]coord.Coord, len(p.Tasks))
	adopted := int64(0)
	var beyond map[uint64][]storage.Record
	if img != nil {
		var err error
		if beyond, err = adoptable(r, img.applied); err != nil {
			return nil, err
		}
	}
	for _, t := range p.Tasks {
		id := ids[t.Index]
		switch {
		case id == 0:
		case img == nil:
			done[t.Index] = fromRecords(r, id)
		default:
			done[t.Index], failed[t.Index] = fromPages(img.flows[id], t, beyond[id])
			adopted += int64(len(beyond[id]))
		}
	}
	out, err := restore(p, done, retryHoles)
	if err != nil {
		return nil, err
	}
	out.adopted, out.failed = adopted, failed
	return out, nil
}

// adoptable are the records that were committed after what the metadata has
// applied, by dataflow.
func adoptable(r *storage.Reader, applied uint64) (map[uint64][]storage.Record, error) {
	jobs, err := unapplied(r, applied)
	if err != nil {
		return nil, err
	}
	out := map[uint64][]storage.Record{}
	for id, of := range jobs {
		for _, c := range slices.Sorted(maps.Keys(of)) {
			rec, ok, err := r.Record(id, c)
			if err != nil {
				return nil, err
			}
			if ok {
				out[id] = append(out[id], rec)
			}
		}
	}
	return out, nil
}

// stillQueued leaves of the ranges what was not finished since.
func stillQueued(t *ticket.Table, p *spec.Pipeline, ranges []ticket.Range) []ticket.Range {
	var out []ticket.Range
	for _, r := range ranges {
		dims := len(p.Tasks[r.Task].Context)
		for i := r.Lo; i < r.Hi; i++ {
			if t.Status(r.Task, ticket.At(dims, r.Prefix, i)) != ticket.Queued {
				continue
			}
			if n := len(out) - 1; n >= 0 && out[n].Task == r.Task && out[n].Hi == i && out[n].Hole == r.Hole && out[n].Prefix == r.Prefix {
				out[n].Hi++
				continue
			}
			out = append(out, ticket.Range{Task: r.Task, Prefix: r.Prefix, Lo: i, Hi: i + 1, Hole: r.Hole})
		}
	}
	return out
}

// fromPages reads a dataflow's finished jobs from the metadata, and which have
// failed. f may be nil: it knows none.
func fromPages(f *flowImage, t *spec.TaskSpec, beyond []storage.Record) (done finished, failed []coord.Coord) {
	for c := f.cursor(len(t.Context)); c.next(); {
		if c.ticket.status == ticket.Failed {
			failed = append(failed, c.ticket.at)
		}
	}
	each := func(fn func(c coord.Coord, extent uint32, hole bool) error) error {
		c := f.cursor(len(t.Context))
		for c.next() {
			tk := c.ticket
			switch {
			case !tk.ended():
				continue
			case tk.status == ticket.Done && t.Spawn == nil:
				tk.extent = 1
			case tk.status == ticket.Done && !tk.known:
				return fmt.Errorf("ticket %q is done, and the length it returned is missing", tk.at.Format(t.ContextNames()))
			}
			if err := fn(tk.at, tk.extent, tk.status == ticket.Hole); err != nil {
				return err
			}
		}
		if c.err != nil {
			return c.err
		}
		for _, rec := range beyond {
			if err := fn(rec.Coord, rec.Extent, rec.Hole); err != nil {
				return err
			}
		}
		return nil
	}
	return finished{each}, failed
}

// fromRecords reads a dataflow's finished jobs from the data itself.
func fromRecords(r *storage.Reader, id uint64) finished {
	return finished{func(fn func(c coord.Coord, extent uint32, hole bool) error) error {
		return r.Records(id, "", func(rec storage.Record) error { return fn(rec.Coord, rec.Extent, rec.Hole) })
	}}
}
