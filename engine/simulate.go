package engine

import (
	"context"
	"errors"
	"path/filepath"

	"operon/engine/ticket"
	"operon/engine/worker"
	"operon/meta"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// PlanRun says what a run with the same options would do, and why, without
// running a body or changing anything. A state that an engine holds is an
// *InUseError.
func PlanRun(ctx context.Context, p *spec.Pipeline, o Options) (*Plan, error) {
	e, err := prepare(p, o)
	if err != nil {
		return nil, err
	}
	if err := e.bodies.LoadDigests(filepath.Join(e.dir, digestsFile)); err != nil {
		e.log.Warn("sources are read again", "err", err)
	}
	s, err := openFiles(e.dir)
	if errors.Is(err, ErrNoState) {
		return e.planFrom(ctx, nil, meta.Footprint{})
	}
	if err != nil {
		return nil, err
	}
	var plan *Plan
	err = s.data.View(func(r *storage.Reader) error {
		plan, err = e.planFrom(ctx, r, s.foot)
		return err
	})
	return plan, errors.Join(stateError(e.dir, "read what is there", err), s.Close())
}

// planFrom plans over what a reader sees; r is nil where there is nothing yet.
func (e *Engine) planFrom(ctx context.Context, r *storage.Reader, last meta.Footprint) (*Plan, error) {
	var sv *survey
	var err error
	if r == nil {
		sv = &survey{content: make([]value.Digest, len(e.p.Tasks))}
		sv.decisions, _ = reconcile(e.p, facts{})
	} else if sv, err = look(ctx, e.p, e.bodies, r, last, true); err != nil {
		return nil, err
	}
	sv.runAgain(e.p, e.o.Redo, "it is to run again, as asked for")
	for _, name := range e.o.Redo {
		delete(sv.memo, e.p.Task(name).Fingerprint)
	}
	sim := newSimulation(e.p, sv, r)
	if err := sim.run(ctx); err != nil {
		return nil, err
	}
	plan := &Plan{}
	for _, t := range e.p.Tasks {
		above := func(up *spec.TaskSpec) string { return rootCause(up, sv.decisions) }
		plan.Tasks = append(plan.Tasks, planTask(t, sv.decisions[t.Index], sim.tally(t.Index), above))
	}
	for _, o := range sv.orphans {
		plan.Tasks = append(plan.Tasks, TaskPlan{Task: o.Task, Action: ActionDrop, Reason: "the pipeline has it no more", Jobs: &PlanJobs{}})
	}
	return plan, nil
}

// simulation is a run in which a job ends at once if its result is there, and
// never if it is not. What is still waiting in the end hangs on what would run.
type simulation struct {
	p       *spec.Pipeline
	sv      *survey
	r       *storage.Reader // nil: nothing is there
	table   *ticket.Table
	queue   []ticket.Range
	keys    *worker.Verifier
	flows   []*worker.Dataflow
	memos   []*worker.Memo
	hits    []map[coord.Coord]where // of each task that is not kept: results found
	seen    []map[value.Digest]bool // of each task: keys of jobs that would run
	tallies []tally
}

// where is a result's place.
type where struct {
	dataflow uint64
	job      coord.Coord
}

func newSimulation(p *spec.Pipeline, sv *survey, r *storage.Reader) *simulation {
	s := &simulation{p: p, sv: sv, r: r, keys: worker.NewVerifier(nil), tallies: make([]tally, len(p.Tasks))}
	s.table, s.queue = ticket.New(p)
	// A dataflow of the simulation has the number of its task, from 1.
	spawners := make([]uint64, len(p.Dims))
	for _, d := range p.Dims {
		spawners[d.Index] = uint64(d.Spawner.Index) + 1
	}
	for _, t := range p.Tasks {
		d := &worker.Dataflow{ID: uint64(t.Index) + 1, Task: t, Content: sv.content[t.Index], Spawners: spawners, Locate: s.locate}
		for _, in := range t.In {
			d.Producers = append(d.Producers, uint64(in.Entity.Producer.Index)+1)
		}
		s.flows = append(s.flows, d)
		var memo *worker.Memo
		if t.Cache {
			memo = worker.NewMemo(sv.memo[t.Fingerprint])
		}
		s.memos = append(s.memos, memo)
		s.hits = append(s.hits, map[coord.Coord]where{})
		s.seen = append(s.seen, map[value.Digest]bool{})
	}
	return s
}

// locate is worker.Locate: kept results lie where they belong, found ones where
// they were found.
func (s *simulation) locate(dataflow uint64, job coord.Coord) (uint64, coord.Coord, bool) {
	task := int(dataflow) - 1
	if d := s.sv.decisions[task]; d.Action == actionKeep {
		return d.Old, job, true
	}
	h, ok := s.hits[task][job]
	return h.dataflow, h.job, ok
}

func (s *simulation) run(ctx context.Context) error {
	for len(s.queue) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		r := s.queue[0]
		s.queue = s.queue[1:]
		for i := r.Lo; i < r.Hi; i++ {
			c := ticket.At(len(s.p.Tasks[r.Task].Context), r.Prefix, i)
			hole, err := s.hole(r.Task, c, r.Hole)
			if err == nil && !hole {
				err = s.job(r.Task, c)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// hole makes a hole of a job that takes one, or is one and stays.
func (s *simulation) hole(task int, c coord.Coord, takes bool) (bool, error) {
	if d := s.sv.decisions[task]; !takes && d.Action == actionKeep && s.r != nil {
		rec, ok, err := s.r.Record(d.Old, c)
		if err != nil {
			return false, err
		}
		takes = ok && rec.Hole
	}
	if !takes {
		return false, nil
	}
	more, err := s.table.OnHole(task, c)
	s.queue = append(s.queue, more...)
	return true, err
}

// job looks for the result of a job, and ends it if there is one.
func (s *simulation) job(task int, c coord.Coord) error {
	extent, found, err := s.find(task, c)
	if err != nil {
		return err
	}
	if !found {
		return nil
	}
	s.tallies[task].reuse++
	more, err := s.table.OnJob(task, c, extent)
	s.queue = append(s.queue, more...)
	return err
}

func (s *simulation) find(task int, c coord.Coord) (extent uint32, found bool, err error) {
	if s.r == nil {
		s.tallies[task].run++
		return 0, false, nil
	}
	if d := s.sv.decisions[task]; d.Action == actionKeep {
		rec, ok, err := s.r.Record(d.Old, c)
		if err != nil || ok {
			return rec.Extent, ok, err
		}
		s.tallies[task].run++
		if _, failed, err := s.r.Failure(d.Old, c); err == nil && failed {
			s.tallies[task].failed++
		}
		return 0, false, nil
	}
	if s.memos[task] == nil {
		s.tallies[task].run++
		return 0, false, nil
	}
	return s.lookUp(task, c)
}

// lookUp looks a job of a dataflow that is made anew up in the memo.
func (s *simulation) lookUp(task int, c coord.Coord) (extent uint32, found bool, err error) {
	key, err := s.keys.Key(s.r, s.flows[task], c)
	if err != nil {
		return 0, false, err
	}
	at, job, found, err := s.memos[task].Lookup(s.r, key)
	if err != nil {
		return 0, false, err
	}
	if found {
		rec, ok, err := s.r.Record(at, job)
		if err != nil {
			return 0, false, err
		}
		if ok && !worker.Released(s.r, at, job) {
			s.hits[task][c] = where{at, job}
			return rec.Extent, true, nil
		}
	}
	if s.seen[task][key] {
		s.tallies[task].reuse++ // equal to another that runs
		return 0, false, nil
	}
	s.seen[task][key] = true
	s.tallies[task].run++
	return 0, false, nil
}

// tally is what the simulation counted for a task, with what still waits.
func (s *simulation) tally(task int) tally {
	c := s.tallies[task]
	bound, open := s.table.Waiting(task)
	c.waiting, c.open = bound, open > 0
	return c
}
