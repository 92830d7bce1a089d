package engine

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"operon/engine/worker"
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
	keep := next.recallDigests()
	content, err := contents(ctx, p, next.bodies)
	keep()
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
		failed := make([][]coord.Coord, len(next.p.Tasks))
		for n, id := range t.plan.kept() {
			if id == 0 {
				continue
			}
			err := r.Failures(id, func(f storage.Failure) error {
				failed[n] = append(failed[n], f.Coord)
				return nil
			})
			if err != nil {
				return err
			}
		}
		if t.restored, err = restoreFrom(next.p, t.plan.kept(), r, nil, false); err == nil {
			t.restored.failed = failed
		}
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
	kept     []*flow            // of each task: its dataflow, nil if that is not kept
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
	pl := &plan{survey: sv, redo: maps.Clone(l.pl.redo), aside: l.pl.aside}
	for _, name := range next.o.Redo {
		pl.redo[name] = true
	}
	pl.number(next.stores.data)
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
	current := map[uint64]*flow{}
	for _, f := range l.flows {
		current[f.id] = f
	}
	for _, task := range next.p.Tasks {
		df, err := next.dataflow(t.plan, task)
		if err != nil {
			return err
		}
		old := current[df.ID]
		t.kept = append(t.kept, old)
		if old != nil {
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
