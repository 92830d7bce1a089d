package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

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

	wrongKeys []wrongKey // found beside the scan
}

// wrongKey is a job whose key does not follow from its inputs.
type wrongKey struct {
	task int
	at   coord.Coord
	why  finding
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

// follower is who looks at the records of the tasks while the audit reads them:
// task by task, upstream first, each in the order of the coordinates.
type follower interface {
	begin(t *spec.TaskSpec, id uint64)
	record(rec storage.Record, damage *storage.Damage) error
	end() error
}

// run looks at everything, in one scan: records and values here, and the job keys
// of what the scan has met on another goroutine, which reads the inputs. follow,
// if not nil, makes the follower of the scan, and finish is called after it.
func (a *audit) run(ctx context.Context, data *storage.Store, say func(Progress), follow func(*storage.Reader) (follower, error), finish func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	handed := newKeyQueue()
	var keys sync.WaitGroup
	keys.Go(func() {
		if err := data.View(func(r *storage.Reader) error { return a.keys(ctx, r, handed) }); err != nil {
			cancel(err)
		}
	})
	err := data.View(func(r *storage.Reader) error {
		s := &auditScan{audit: a, ctx: ctx, say: say, handed: handed}
		if follow != nil {
			var err error
			if s.follow, err = follow(r); err != nil {
				return err
			}
		}
		if err := s.run(r); err != nil {
			return err
		}
		if finish != nil {
			finish()
		}
		return nil
	})
	if err != nil {
		cancel(err) // before the queue ends, which would look like all of it
	}
	handed.end()
	keys.Wait()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		return err
	}
	a.judge()
	return nil
}

// auditScan is the scan of an audit.
type auditScan struct {
	*audit
	ctx    context.Context
	say    func(Progress)
	handed *keyQueue
	follow follower // nil: nobody

	task        *spec.TaskSpec
	done, total uint64
}

func (s *auditScan) run(r *storage.Reader) (err error) {
	headers, err := r.Headers()
	if ignoreDamage(err) != nil {
		return err
	}
	for _, h := range headers {
		s.headers[h.ID] = h
		s.total += r.Number(h.ID)
	}
	tasks := map[uint64]*spec.TaskSpec{}
	how := storage.Checking{
		Deep: true,
		Fault: func(d *storage.Damage) error {
			s.damage = append(s.damage, d)
			return nil
		},
		Stop: s.tick,
		Begin: func(id uint64) error {
			s.task = tasks[id]
			if s.follow != nil {
				s.follow.begin(s.task, id)
			}
			return nil
		},
		Record: s.record,
		End: func(uint64) error {
			if err := s.handed.flush(s.ctx); err != nil || s.follow == nil {
				return err
			}
			return s.follow.end()
		},
	}
	for _, t := range s.p.Topo {
		if id := s.ids[t.Index]; id != 0 {
			tasks[id] = t
			how.First = append(how.First, id)
		}
	}
	s.report, err = r.CheckWith(how)
	return err
}

// tick is called before each record and on the way through large values.
func (s *auditScan) tick() error {
	if s.done++; s.done%1024 == 0 {
		s.say(Progress{Phase: "values", Done: min(s.done, s.total), Total: s.total})
	}
	return s.ctx.Err()
}

// record looks at one record, but not at its values, and hands it on.
func (s *auditScan) record(_ uint64, rec storage.Record, damage *storage.Damage) error {
	if s.follow != nil {
		if err := s.follow.record(rec, damage); err != nil {
			return err
		}
	}
	if damage != nil {
		return nil
	}
	if why := shapeOf(s.task, rec); why.kind != "" {
		s.bad[s.task.Index][rec.Coord] = why
		return nil
	}
	if rec.Hole && rec.Key == (value.Digest{}) {
		return nil // it took a hole, and never had a key
	}
	return s.handed.put(s.ctx, s.task.Index, rec.Coord, rec.Key)
}

// judge puts damage to the jobs that it is of.
func (a *audit) judge() {
	for _, w := range a.wrongKeys {
		a.bad[w.task][w.at] = w.why
	}
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

// keys looks whether the keys of the jobs that it is handed are still those that
// follow from their inputs.
func (a *audit) keys(ctx context.Context, r *storage.Reader, handed *keyQueue) error {
	v := worker.NewVerifier(ctx.Err)
	for jobs := range handed.full {
		if ctx.Err() != nil {
			return nil // the cause is known
		}
		for _, job := range jobs.jobs {
			why, err := a.key(r, v, jobs.task, job)
			if err != nil {
				return err
			}
			if why.kind != "" {
				a.wrongKeys = append(a.wrongKeys, wrongKey{jobs.task, job.at, why})
			}
		}
		handed.spare(jobs)
	}
	return nil
}

// key looks at one job's key.
func (a *audit) key(r *storage.Reader, v *worker.Verifier, task int, job keyedJob) (why finding, err error) {
	key, err := v.Key(r, a.flows[task], job.at)
	switch {
	case storage.IsDamage(err), errors.Is(err, storage.ErrNoRecord), errors.Is(err, storage.ErrReleased):
		return why, ignoreDamage(err) // what it takes is not there; that is the fault of another
	case err != nil:
		return why, err
	case key == job.key:
		return why, nil
	}
	return finding{FaultRecordKey, fmt.Sprintf("its key is %s, and of the inputs that are there it would be %s", job.key.String()[:12], key.String()[:12])}, nil
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
