package engine

import (
	"context"
	"errors"
	"slices"

	"operon/spec"
	"operon/spec/coord"
	"operon/storage"
)

// asideStep is how many results are put aside in one commit.
const asideStep = 8 << 10

// putAside copies results of a task that may be taken back to a dataflow that is
// retired from the start, which is where a run looks for results by key. It
// returns its id, 0 if there was nothing to copy. Cut short, it has changed
// nothing that counts.
func (e *Engine) putAside(ctx context.Context, t *spec.TaskSpec, from uint64, jobs []coord.Coord) (id uint64, err error) {
	data := e.stores.data
	for part := range slices.Chunk(jobs, asideStep) {
		batch := &storage.Batch{Urgent: true}
		if id == 0 {
			id = data.AllocateInstance()
			h := headerOf(t, id)
			h.State = storage.Retired
			batch.PutHeader(h)
		}
		err := data.View(func(r *storage.Reader) error { return copyRecords(r, batch, from, id, part) })
		if err != nil {
			return id, stateError(e.dir, "put results aside", err)
		}
		data.Submit(batch)
		if err := data.Flush(ctx); err != nil {
			return id, &MachineError{Doing: "put results aside", Err: err}
		}
	}
	return id, nil
}

// copyRecords copies results. Holes, and what can't be read or was released, are
// nothing that could be taken back.
func copyRecords(r *storage.Reader, batch *storage.Batch, from, to uint64, jobs []coord.Coord) error {
	for _, c := range jobs {
		rec, ok, err := r.Record(from, c)
		if err != nil {
			return err
		}
		if !ok || rec.Hole {
			continue
		}
		out, err := r.Output(from, c)
		switch {
		case err == nil:
			batch.PutRecord(to, rec, out)
		case ignoreDamage(err) != nil && !errors.Is(err, storage.ErrReleased):
			return err
		}
	}
	return nil
}

// asideOfHoles keeps what rests on holes that are tried again where it is looked
// up by key: a hole that comes out as one again, or a list that wants it as null
// either way, changes nothing of what was made of it. It lies beside what the run
// drops at its start until the run is complete, whatever happens in between.
func (e *Engine) asideOfHoles(ctx context.Context, pl *plan, r *restored) error {
	for _, t := range e.p.Tasks {
		if !t.Cache || len(r.dropped[t.Index]) == 0 {
			continue
		}
		id, err := e.putAside(ctx, t, pl.ids[t.Index], r.dropped[t.Index])
		if err != nil {
			return err
		}
		pl.memo[t.Fingerprint] = append(pl.memo[t.Fingerprint], id)
		pl.aside = append(pl.aside, id)
	}
	return nil
}
