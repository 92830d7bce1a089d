package engine

import (
	"errors"
	"fmt"

	"operon/engine/ticket"
	"operon/meta"
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
// from the metadata, with what the data has beyond it; or, in a rebuild, from
// the data's records alone.
func restoreFrom(p *spec.Pipeline, ids []uint64, r *storage.Reader, m *meta.Reader, rebuild, retryHoles bool) (*restored, error) {
	done := make([]finished, len(p.Tasks))
	failed := make([][]coord.Coord, len(p.Tasks))
	adopted := int64(0)
	var beyond map[uint64][]storage.Record
	if !rebuild {
		var err error
		if beyond, err = adoptable(r, m.Applied()); err != nil {
			return nil, err
		}
	}
	for _, t := range p.Tasks {
		id := ids[t.Index]
		switch {
		case id == 0:
		case rebuild:
			done[t.Index] = fromRecords(r, id)
		default:
			var err error
			if done[t.Index], failed[t.Index], err = fromPages(m, id, t, beyond[id]); err != nil {
				return nil, err
			}
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
	out := map[uint64][]storage.Record{}
	seen := map[storage.Ref]bool{}
	err := r.Commits(applied, func(_ uint64, jobs []storage.Ref) error {
		for _, ref := range jobs {
			if seen[ref] {
				continue
			}
			seen[ref] = true
			rec, ok, err := r.Record(ref.Instance, ref.Coord)
			if err != nil {
				return err
			}
			if ok {
				out[ref.Instance] = append(out[ref.Instance], rec)
			}
		}
		return nil
	})
	return out, err
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

// fromPages reads a dataflow's finished jobs from the metadata.
func fromPages(r *meta.Reader, id uint64, t *spec.TaskSpec, beyond []storage.Record) (finished, []coord.Coord, error) {
	lengths := map[coord.Coord][]uint32{} // by prefix: 1 + the length, 0 if unknown
	if t.Spawn != nil {
		err := r.Resolutions(id, func(prefix coord.Coord, page uint32, data []byte) error {
			row := lengths[prefix]
			err := ticket.DecodeExtents(page, data, func(i, n uint32) error {
				for uint32(len(row)) <= i {
					row = append(row, 0)
				}
				row[i] = n + 1
				return nil
			})
			lengths[prefix] = row
			return err
		})
		if err != nil {
			return finished{}, nil, err
		}
	}
	type page struct {
		prefix coord.Coord
		number uint32
		data   []byte
	}
	var all []page
	var failed []coord.Coord
	err := r.Tickets(id, func(prefix coord.Coord, number uint32, data []byte) error {
		all = append(all, page{prefix, number, append([]byte(nil), data...)})
		return ticket.DecodeTickets(number, data, func(i uint32, s ticket.Status) error {
			if s == ticket.Failed {
				failed = append(failed, ticket.At(len(t.Context), prefix, i))
			}
			return nil
		})
	})
	if err != nil {
		return finished{}, nil, err
	}
	each := func(fn func(c coord.Coord, extent uint32, hole bool) error) error {
		for _, pg := range all {
			row := lengths[pg.prefix]
			err := ticket.DecodeTickets(pg.number, pg.data, func(i uint32, s ticket.Status) error {
				switch s {
				case ticket.Hole:
					return fn(ticket.At(len(t.Context), pg.prefix, i), 0, true)
				case ticket.Done:
				default:
					return nil
				}
				extent := uint32(1)
				if t.Spawn != nil {
					if uint32(len(row)) <= i || row[i] == 0 {
						return fmt.Errorf("ticket %q is done, and the length it returned is missing", ticket.At(len(t.Context), pg.prefix, i).Format(t.ContextNames()))
					}
					extent = row[i] - 1
				}
				return fn(ticket.At(len(t.Context), pg.prefix, i), extent, false)
			})
			if err != nil {
				return err
			}
		}
		for _, rec := range beyond {
			if err := fn(rec.Coord, rec.Extent, rec.Hole); err != nil {
				return err
			}
		}
		return nil
	}
	return finished{each}, failed, nil
}

// fromRecords reads a dataflow's finished jobs from the data itself.
func fromRecords(r *storage.Reader, id uint64) finished {
	return finished{func(fn func(c coord.Coord, extent uint32, hole bool) error) error {
		return r.Records(id, "", func(rec storage.Record) error { return fn(rec.Coord, rec.Extent, rec.Hole) })
	}}
}
