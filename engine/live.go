package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"operon/engine/body"
	"operon/engine/frontier"
	"operon/engine/ticket"
	"operon/engine/worker"
	"operon/meta"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// Decision is what reconcile decided about one task.
type Decision struct {
	Task   string `json:"task"`
	Action string `json:"action"`         // keep, replace, create, drop
	Rule   string `json:"rule,omitempty"` // the first rule that failed, where it is replaced
	Reason string `json:"reason"`         // what it found; "" where it is kept
	Old    uint64 `json:"old,omitempty"`
	New    uint64 `json:"new,omitempty"`
}

// Reconciled is what became of a running engine's dataflows when it was told
// what is wanted anew.
type Reconciled struct {
	Run   string     `json:"run"`
	Tasks []Decision `json:"tasks"` // the wanted ones in file order, then the dropped ones
	// How many tasks there are of each.
	Kept     int `json:"kept"`
	Replaced int `json:"replaced"`
	Created  int `json:"created"`
	Dropped  int `json:"dropped"`
}

// Reconcile tells a running engine what is wanted from now on: another version of
// its pipeline, and what it is asked for (of o: Until, KeepGoing, MaxFailures,
// Redo, Only and Sample). Dataflows that are kept go on meanwhile, their jobs not
// interrupted; those that are replaced, or that nobody wants any more, are frozen
// and dropped, and what replaces one starts once no worker can run it. Jobs that
// failed are tried again. It returns once the decision is durable. On an error
// nothing has changed, unless the state can't be written or ctx has ended: then that
// is not known. A run that is about to end is ErrNotRunning, a pipeline of
// another name a *ForeignError.
func (e *Engine) Reconcile(ctx context.Context, p *spec.Pipeline, o Options) (*Reconciled, error) {
	if err := e.begun(ctx); err != nil {
		return nil, err
	}
	next, err := e.successor(p, o)
	if err != nil {
		return nil, err
	}
	content, err := contents(ctx, p, next.bodies)
	if err != nil {
		return nil, err
	}
	type outcome struct {
		rec *Reconciled
		err error
	}
	v, err := e.ask(ctx, func(l *loop) any {
		rec, err := l.reconcile(e, next, content)
		return outcome{rec, err}
	})
	if err != nil {
		return nil, err
	}
	if out := v.(outcome); out.err != nil {
		return nil, out.err
	}
	return v.(outcome).rec, e.unwritten()
}

// successor is the engine as it would have been made for another version of its
// pipeline.
func (e *Engine) successor(p *spec.Pipeline, o Options) (*Engine, error) {
	e.mu.Lock()
	was, name, file := e.o, e.p.Name, filepath.Base(e.p.File)
	e.mu.Unlock()
	dir := was.Dir
	if o.Dir != "" {
		var err error
		if dir, err = filepath.Abs(o.Dir); err != nil {
			return nil, &MachineError{Doing: "find the pipeline's folder", Err: err}
		}
	}
	if p.Name != name || dir != was.Dir || filepath.Base(p.File) != file {
		return nil, &ForeignError{Dir: e.dir, Pipeline: name, File: file}
	}
	was.Until, was.Redo, was.Only, was.Sample = o.Until, o.Redo, o.Only, o.Sample
	was.KeepGoing, was.MaxFailures = o.KeepGoing, o.MaxFailures
	was.State = e.dir
	return prepare(p, was)
}

// reconcile carries out what Reconcile says. Up to become, it changes nothing.
func (l *loop) reconcile(e, next *Engine, content []value.Digest) (*Reconciled, error) {
	if l.stopping || l.sick != nil {
		return nil, ErrNotRunning
	}
	if err := l.crew.revive(); err != nil {
		return nil, &MachineError{Doing: "start a worker in the place of one that died", Err: err}
	}
	l.commit(true) // what has ended must be there for readers
	next.stores = e.stores
	var t turn
	err := e.stores.data.View(func(r *storage.Reader) (err error) {
		if err = l.decide(&t, next, content, r); err != nil {
			return err
		}
		t.failed = make([][]coord.Coord, len(next.p.Tasks))
		for n, id := range t.plan.kept() {
			if id == 0 {
				continue
			}
			err := r.Failures(id, func(f storage.Failure) error {
				t.failed[n] = append(t.failed[n], f.Coord)
				return nil
			})
			if err != nil {
				return err
			}
		}
		t.restored, err = restoreFrom(next.p, t.plan.kept(), r, nil, false)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reconcile with what is wanted: %w", err)
	}
	if err := l.prepare(&t, next); err != nil {
		return nil, err
	}
	e.become(next)
	return l.become(&t, next), nil
}

// turn is a change of what is wanted, worked out and not carried out.
type turn struct {
	plan     *plan
	restored *restored
	failed   [][]coord.Coord    // of each task that is kept: what the run gave up
	flows    []*worker.Dataflow // of each task: under its configuration from now on
	labels   *labels
	only     *selection
	saver    *saver
}

// decide finds out what becomes of each task.
func (l *loop) decide(t *turn, next *Engine, content []value.Digest, r *storage.Reader) error {
	sv := &survey{content: content, memo: map[value.Digest][]uint64{}, released: map[uint64]bool{}}
	f := facts{old: map[string]oldFlow{}, content: map[string]bool{}, unfinished: map[string]bool{}}
	was := l.saver.note(decodeAsked(l.pl.foot.Asked))
	f.saves = was.Saves
	if err := sv.lookAt(next.p, r, &f, was); err != nil {
		return err
	}
	if sv.damage != nil {
		return sv.damage
	}
	for n, of := range l.flows {
		f.unfinished[of.task.Name] = !l.table.Counts(n).Complete()
		if old, ok := f.old[of.task.Name]; ok && of.cut() {
			old.Dropped = true
			f.old[of.task.Name] = old
		}
	}
	sv.facts = f
	sv.decisions, sv.orphans = reconcile(next.p, f)
	sv.runAgain(next.p, next.o.Redo, "it is to run again, as asked for")
	pl := &plan{survey: sv, ids: make([]uint64, len(next.p.Tasks)), redo: maps.Clone(l.pl.redo), aside: l.pl.aside}
	for _, name := range next.o.Redo {
		pl.redo[name] = true
	}
	for _, task := range next.p.Tasks {
		if d := sv.decisions[task.Index]; d.Action == actionKeep {
			pl.ids[task.Index] = d.Old
		} else {
			pl.ids[task.Index] = next.stores.data.AllocateInstance()
		}
	}
	pl.foot = l.pl.foot
	now := next.asked(pl)
	now.Saves = was.Saves.still(next.p, sv.decisions)
	for _, task := range next.p.Tasks {
		if reason, ok := was.Reasons[task.Name]; ok && sv.decisions[task.Index].Action == actionKeep {
			now.Reasons[task.Name] = reason
		}
	}
	pl.foot.Asked, pl.foot.Source, pl.foot.Updated = now.encode(), next.p.Snapshot(), time.Now()
	t.plan = pl
	return nil
}

// prepare makes what can fail.
func (l *loop) prepare(t *turn, next *Engine) (err error) {
	for _, task := range next.p.Tasks {
		df, err := next.dataflow(t.plan, task)
		if err != nil {
			return err
		}
		if old := l.current(df.ID); old != nil {
			if old.df.Memo != nil {
				df.Memo, df.Uncached = old.df.Memo, !task.Cache // claims under way are settled in it
			}
			if sameRunner(l.p, next.p, old.task, task) {
				df.Runner = old.df.Runner // its processes go on
			}
		}
		t.flows = append(t.flows, df)
	}
	if t.labels, err = newLabels(l.ctx, next.p, t.plan.ids); err != nil {
		return err
	}
	if t.only, err = newSelection(next.p, next.o.Only, next.o.Sample); err != nil {
		return err
	}
	t.saver, err = next.newSaver(l.ctx, t.plan.ids)
	return err
}

// current is the flow of a dataflow that is some task's; nil if there is none.
func (l *loop) current(id uint64) *flow {
	for _, f := range l.flows {
		if f.id == id {
			return f
		}
	}
	return nil
}

// sameRunner reports whether two versions of a task with one fingerprint are run
// alike: what is no part of it may have changed.
func sameRunner(p, q *spec.Pipeline, a, b *spec.TaskSpec) bool {
	secrets := func(p *spec.Pipeline) map[string]string {
		out := map[string]string{}
		for _, param := range p.Params {
			if param.Secret {
				out[param.Name] = param.Text()
			}
		}
		return out
	}
	sameArgs := slices.EqualFunc(a.In, b.In, func(x, y *spec.Input) bool { return x.Arg == y.Arg }) // a body knows them by their place
	return sameArgs && a.Timeout == b.Timeout && a.Grace == b.Grace && a.Mem == b.Mem && a.KeyFilter == b.KeyFilter &&
		a.Body.Concurrency == b.Body.Concurrency && maps.Equal(secrets(p), secrets(q))
}

// become makes the engine that of another version of its pipeline.
func (e *Engine) become(next *Engine) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.p, e.o, e.bodies = next.p, next.o, next.bodies
}

// become carries out a change of what is wanted: first what is dropped, then what
// is kept and what is new, in one session for all workers.
func (l *loop) become(t *turn, next *Engine) *Reconciled {
	was := l.flows
	m := &meta.Batch{}
	kept := map[uint64]*flow{}
	for n, d := range t.plan.decisions {
		if d.Action == actionKeep {
			kept[t.plan.ids[n]] = l.current(d.Old)
		}
	}
	var gone []string // of these tasks a dataflow is over with the commit
	for _, f := range was {
		if kept[f.id] == nil && l.dismiss(f, m) {
			gone = append(gone, f.task.Name)
		}
	}
	l.p, l.pl, l.table, l.labels, l.only = next.p, t.plan, t.restored.table, t.labels, t.only
	l.takers, l.transient = consumers(next.p), newTransients(next.p)
	l.succeed(t.saver)
	l.limitMemory()
	l.keepGoing, l.maxFailures = next.o.KeepGoing || next.o.MaxFailures > 0, next.o.MaxFailures
	l.failures, l.failing, l.holed = failures{}, false, nil
	pools := l.remapPools()
	busy := l.busyJobs()
	paused := map[string]bool{}
	for _, f := range was {
		paused[f.task.Name] = f.paused
	}
	l.flows = nil
	wanted := next.wanted()
	for n, task := range next.p.Tasks {
		f := kept[t.plan.ids[n]]
		if f == nil {
			f = &flow{id: t.plan.ids[n], said: DataflowWaiting}
		}
		f.configure(next.p, task, t.flows[n])
		f.wanted, f.paused = wanted[n], paused[task.Name]
		if size, set := l.sizes[task.Name]; set {
			f.pool = size
		}
		l.flows = append(l.flows, f)
	}
	for rank, task := range next.p.Topo {
		l.flows[task.Index].rank = rank
	}
	l.room.pools = pools
	l.requeue(t.restored.runnable, busy)
	rec := l.install(t, m)
	footprints(t.plan.foot, l.data, m)
	l.adopt(t, m)
	l.commitWith(m, true)
	for _, task := range gone {
		l.whenDurable(func() { l.left(task) })
	}
	return rec
}

// dismiss ends a dataflow that no task has any more, and reports whether it is
// over already. What has ended of it stays as memo.
func (l *loop) dismiss(f *flow, m *meta.Batch) (over bool) {
	l.leaving[f.task.Name]++
	l.data.SetState(f.id, storage.Retired)
	m.PutDataflow(f.noted(DataflowFrozen))
	switch {
	case f.frozen && !f.over:
		f.gone = true
	case f.over || !f.installed:
		m.DropDataflow(f.id) // no worker has it
		return true
	default:
		f.gone = true
		l.freeze(f, frontier.Dropped)
	}
	return false
}

// busyJobs are the jobs that the loop knows one by one: those under way, those
// that wait for their next attempt, or for another job with their key.
func (l *loop) busyJobs() map[*flow]map[coord.Coord]struct{} {
	out := map[*flow]map[coord.Coord]struct{}{}
	add := func(f *flow, c coord.Coord) {
		if out[f] == nil {
			out[f] = map[coord.Coord]struct{}{}
		}
		out[f][c] = struct{}{}
	}
	for _, o := range l.crew.orders {
		for _, job := range o.jobs {
			add(o.flow, job.Coord)
		}
	}
	for _, d := range l.timers {
		add(d.flow, d.job.Coord)
	}
	for _, f := range l.flows {
		for _, job := range f.again {
			add(f, job.Coord)
		}
		for _, p := range f.pins {
			for _, w := range p.jobs {
				add(f, w.job.Coord)
			}
		}
		for _, jobs := range f.parked {
			for _, job := range jobs {
				add(f, job.Coord)
			}
		}
	}
	return out
}

// requeue makes ready again what may run, but for jobs that are busy.
func (l *loop) requeue(runnable []ticket.Range, busy map[*flow]map[coord.Coord]struct{}) {
	l.active = nil
	again := make([][]worker.Job, len(l.flows))
	pins := make([][]*pinned, len(l.flows))
	for n, f := range l.flows {
		f.queue, f.skipped = newQueue(f.task), 0
		if len(f.pins) > 0 && len(f.pins[0].gpus) != f.needs.gpus {
			f.again = append(f.again, f.unpinned()...) // it takes another number now
		}
		again[n], f.again = f.again, nil
		pins[n], f.pins = f.pins, nil
	}
	for _, r := range runnable {
		f := l.flows[r.Task]
		if len(busy[f]) == 0 {
			l.push([]ticket.Range{r})
			continue
		}
		for i := r.Lo; i < r.Hi; i++ {
			if _, under := busy[f][ticket.At(len(f.task.Context), r.Prefix, i)]; !under {
				l.push([]ticket.Range{{Task: r.Task, Prefix: r.Prefix, Lo: i, Hi: i + 1, Hole: r.Hole}})
			}
		}
	}
	for n, jobs := range again {
		for _, job := range jobs {
			l.putBack(l.flows[n], job)
		}
		if len(pins[n]) > 0 {
			l.activate(l.flows[n])
			l.flows[n].pins = pins[n]
		}
	}
}

// remapPools makes the pools of the new version, with what runs in them. Of one
// whose rate is as before the starts count on.
func (l *loop) remapPools() []pool {
	out := newPools(l.p)
	for _, o := range l.crew.orders {
		if o.shared == noPool {
			continue
		}
		name := l.room.pools[o.shared].name
		o.shared = slices.IndexFunc(out, func(p pool) bool { return p.name == name })
		if o.shared != noPool {
			out[o.shared].running++
		}
	}
	for n := range out {
		if size, set := l.sizes[out[n].name]; set {
			out[n].size = size
		}
		for _, old := range l.room.pools {
			if old.name == out[n].name && old.starts.same(out[n].starts) {
				out[n].starts = old.starts
			}
		}
	}
	return out
}

// install tells the workers what is wanted now.
func (l *loop) install(t *turn, m *meta.Batch) *Reconciled {
	rec := &Reconciled{Run: l.runID}
	var flows []*worker.Dataflow
	for n, d := range t.plan.decisions {
		f := l.flows[n]
		out := Decision{Task: f.task.Name, Action: string(d.Action), Rule: string(d.Rule), Reason: d.Reason, Old: d.Old, New: f.id}
		switch d.Action {
		case actionKeep:
			rec.Kept++
			if f.installed && !f.frozen {
				flows = append(flows, f.df)
			}
		default:
			out.Reason = rootCause(f.task, t.plan.decisions)
			f.installed = true
			if d.Action == actionReplace {
				rec.Replaced++
			} else {
				rec.Created++
			}
			flows = append(flows, f.df)
			l.data.PutHeader(f.header(t.plan.foot.Updated))
			m.PutDataflow(f.noted(DataflowRunning))
		}
		rec.Tasks = append(rec.Tasks, out)
	}
	for _, o := range t.plan.orphans {
		rec.Dropped++
		rec.Tasks = append(rec.Tasks, Decision{Task: o.Task, Action: "drop", Reason: "the pipeline has it no more", Old: o.ID})
	}
	l.tally.add(t.plan.decisions, len(t.plan.orphans))
	l.log.Info("told what is wanted anew", "kept", rec.Kept, "replaced", rec.Replaced, "created", rec.Created, "dropped", rec.Dropped)
	for _, d := range rec.Tasks {
		if d.Action != string(actionKeep) {
			l.log.Info("task "+d.Action, "task", d.Task, "why", d.Reason)
		}
	}
	l.crew.greet(flows)
	for _, f := range l.flows {
		l.schedule(f)
		l.conclude(f)
	}
	return rec
}

// adopt writes the tickets of the dataflows that are kept anew, and forgets
// failures, which are tried again.
func (l *loop) adopt(t *turn, m *meta.Batch) {
	for n, d := range t.plan.decisions {
		f := l.flows[n]
		if d.Action != actionKeep {
			continue
		}
		m.DropTickets(f.id)
		for _, c := range t.failed[n] {
			l.data.DropFailure(f.id, c)
		}
		for _, c := range t.restored.dropped[n] {
			l.data.DropRecord(f.id, c)
		}
	}
}

// contents are the digests of what a pipeline's sources look at now.
func contents(ctx context.Context, p *spec.Pipeline, bodies *body.Config) ([]value.Digest, error) {
	out := make([]value.Digest, len(p.Tasks))
	for _, t := range p.Tasks {
		if t.Body.Kind != spec.BodySource {
			continue
		}
		digest, err := body.SourceKey(ctx, bodies, t)
		if err != nil {
			if stopped := context.Cause(ctx); errors.Is(err, stopped) && stopped != nil {
				return nil, stopped
			}
			// A source that can't be read is the job's failure, not the run's.
			digest = value.Digest{1}
		}
		out[t.Index] = digest
	}
	return out, nil
}
