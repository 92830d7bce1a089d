package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"operon/engine/worker"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// audit is a look at every record and value of a state's data: whether they are
// what was written, and whether each job was made of the inputs that are there.
type audit struct {
	p       *spec.Pipeline
	ids     []uint64       // the dataflow of each task, 0 for none
	content []value.Digest // of each source task: of what it looks at now

	headers map[uint64]storage.Header
	report  storage.Report
	damage  []*storage.Damage         // as it was found
	bad     []map[coord.Coord]finding // of each task: jobs whose result is not to be trusted
	flows   []*worker.Dataflow
}

// finding is what is wrong with a job's result.
type finding struct {
	kind   FaultKind
	detail string
}

// newAudit makes the audit of the dataflows ids, one a task, 0 for none.
func newAudit(p *spec.Pipeline, ids []uint64, content []value.Digest) *audit {
	a := &audit{p: p, ids: ids, content: content, headers: map[uint64]storage.Header{}, bad: make([]map[coord.Coord]finding, len(p.Tasks))}
	spawners := make([]uint64, len(p.Dims))
	for _, d := range p.Dims {
		spawners[d.Index] = ids[d.Spawner.Index]
	}
	for _, t := range p.Tasks {
		a.bad[t.Index] = map[coord.Coord]finding{}
		d := &worker.Dataflow{ID: ids[t.Index], Task: t, Content: content[t.Index], Spawners: spawners}
		for _, in := range t.In {
			d.Producers = append(d.Producers, ids[in.Entity.Producer.Index])
		}
		a.flows = append(a.flows, d)
	}
	return a
}

// run looks at everything. Values and job keys are looked at side by side;
// meanwhile, if it is not nil, is called when the values are done, which takes
// less.
func (a *audit) run(ctx context.Context, data *storage.Store, say func(Progress), meanwhile func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var total, done atomic.Uint64
	err := data.View(func(r *storage.Reader) error {
		headers, err := r.Headers()
		for _, h := range headers {
			a.headers[h.ID] = h
			total.Add(r.Number(h.ID))
		}
		return ignoreDamage(err)
	})
	if err != nil {
		return err
	}
	each := func() error {
		n := done.Add(1)
		if n%1024 != 0 {
			return nil
		}
		say(Progress{Phase: "values", Done: n, Total: total.Load()})
		return ctx.Err()
	}
	var keysErr, valuesErr error
	var keys sync.WaitGroup
	keys.Go(func() {
		keysErr = data.View(func(r *storage.Reader) error { return a.keys(ctx, r) })
	})
	valuesErr = data.View(func(r *storage.Reader) (err error) {
		a.report, err = r.CheckEach(true, each, func(d *storage.Damage) error {
			a.damage = append(a.damage, d)
			return nil
		})
		return err
	})
	if valuesErr == nil && meanwhile != nil {
		valuesErr = meanwhile()
	}
	if valuesErr != nil {
		cancel()
	}
	keys.Wait()
	if err := errors.Join(valuesErr, keysErr); err != nil {
		return err
	}
	a.judge()
	return nil
}

// judge puts damage to the jobs that it is of.
func (a *audit) judge() {
	task := map[uint64]int{}
	for n, id := range a.ids {
		if id != 0 {
			task[id] = n
		}
	}
	for _, d := range a.damage {
		n, ours := task[d.Instance]
		if ours && d.Kind.OfJob() {
			a.bad[n][d.Coord] = finding{faultOf(d.Kind), d.Detail}
		}
	}
}

// keys looks at every record's shape, and at whether its job's key is still the
// one that follows from its inputs.
func (a *audit) keys(ctx context.Context, r *storage.Reader) error {
	v := worker.NewVerifier()
	for _, t := range a.p.Topo {
		id := a.ids[t.Index]
		if id == 0 {
			continue
		}
		bad, seen := a.bad[t.Index], 0
		err := r.Scan(id, func(rec storage.Record, damage *storage.Damage) error {
			if seen++; seen%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if damage != nil {
				return nil
			}
			why, err := a.record(r, v, t, rec)
			if err == nil && why.kind != "" {
				bad[rec.Coord] = why
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// record looks at one record, but not at its values.
func (a *audit) record(r *storage.Reader, v *worker.Verifier, t *spec.TaskSpec, rec storage.Record) (why finding, err error) {
	if why := shapeOf(t, rec); why.kind != "" {
		return why, nil
	}
	if rec.Hole && rec.Key == (value.Digest{}) {
		return why, nil // it took a hole, and never had a key
	}
	key, err := v.Key(r, a.flows[t.Index], rec.Coord)
	switch {
	case storage.IsDamage(err), errors.Is(err, storage.ErrNoRecord), errors.Is(err, storage.ErrReleased):
		return why, ignoreDamage(err) // what it takes is not there; that is the fault of another
	case err != nil:
		return why, err
	case key == rec.Key:
		return why, nil
	}
	return finding{FaultRecordKey, fmt.Sprintf("its key is %s, and of the inputs that are there it would be %s", rec.Key.String()[:12], key.String()[:12])}, nil
}

// shapeOf is what is wrong with the shape of a record of a task.
func shapeOf(t *spec.TaskSpec, rec storage.Record) (why finding) {
	switch {
	case rec.Coord.Len() != len(t.Context):
		return finding{FaultRecordShape, fmt.Sprintf("its record has %d dimensions, and its task has %d", rec.Coord.Len(), len(t.Context))}
	case rec.Spawning && t.Spawn == nil:
		return finding{FaultRecordShape, "its record has a list, and its task makes one value"}
	case !rec.Spawning && t.Spawn != nil:
		return finding{FaultRecordShape, "its record has one value, and its task makes a list"}
	}
	return why
}

// ignoreDamage is err unless it says that a stored thing is damaged, or missing:
// those who look at everything find it in its own place. A damaged file stays an
// error: there is nothing more to look at.
func ignoreDamage(err error) error {
	var d *storage.Damage
	if errors.As(err, &d) || errors.Is(err, storage.ErrNoRecord) || errors.Is(err, storage.ErrReleased) {
		return nil
	}
	return err
}

// faultOf is the kind of fault that damage of a kind is.
func faultOf(k storage.DamageKind) FaultKind {
	switch k {
	case storage.DamagedFootprint:
		return FaultFootprint
	case storage.DamagedHeader:
		return FaultHeaderDamaged
	case storage.DamagedRecord:
		return FaultRecordDamaged
	case storage.DamagedValues:
		return FaultValuesDamaged
	case storage.DamagedBlob:
		return FaultBlobDamaged
	case storage.MissingBlob:
		return FaultBlobMissing
	case storage.DamagedFailure:
		return FaultFailureDamaged
	}
	return FaultStructure
}
