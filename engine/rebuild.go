package engine

import (
	"context"
	"errors"
	"time"

	"operon/engine/ticket"
	"operon/meta"
	"operon/spec"
	"operon/storage"
)

// RebuildOptions say how metadata is made again. The zero value keeps all that
// is intact.
type RebuildOptions struct {
	Options // Dir, State, Adopt, Environ, Params, Build, Logger and Hook count
	// Skip names tasks whose results are thrown away, with those of all tasks
	// that hang on them.
	Skip []string
	// Redo names tasks that are to run again in the next run; what hangs on them
	// is kept aside, and taken back where it comes out that it is made of the
	// same bytes.
	Redo []string
	// RedoInconsistent keeps aside what hangs on results that are damaged, to be
	// taken back in the same way. Without it all that is dropped.
	RedoInconsistent bool
	// Progress, if not nil, hears now and then how far it is. It must return
	// quickly.
	Progress func(Progress)
}

// RebuildReport is what a rebuild did.
type RebuildReport struct {
	Pipeline string        `json:"pipeline"`
	Run      string        `json:"run"`
	State    RunState      `json:"state"`
	Why      string        `json:"why"`     // what was wrong with the metadata, "" if nothing was
	Kept     int64         `json:"kept"`    // results
	Dropped  int64         `json:"dropped"` // results that are gone
	Aside    int64         `json:"aside"`   // results that may be taken back
	Tasks    []RebuildTask `json:"tasks"`   // file order
	Memo     RebuildMemo   `json:"memo"`
	// Salvaged is what was done first about a data.db that could not be read, or
	// not be written to; nil: nothing had to be.
	Salvaged *SalvageReport `json:"salvaged,omitempty"`
	Elapsed  float64        `json:"elapsed_s"`
}

// RebuildTask is what a rebuild did with a task's results.
type RebuildTask struct {
	Task    string           `json:"task"`
	Kept    int64            `json:"kept"`
	Dropped int64            `json:"dropped"`
	Aside   int64            `json:"aside"`
	Reasons map[string]int64 `json:"reasons"` // why results were dropped or put aside, counted
}

// RebuildMemo is what a rebuild dropped of the results of earlier definitions,
// which nobody reads but a run that looks for results to take back.
type RebuildMemo struct {
	Dropped int64            `json:"dropped"`
	Reasons map[string]int64 `json:"reasons"` // kinds of faults, counted
}

// Reasons of a rebuild to let go of a result. Those with damage are the kinds of
// faults.
const (
	ReasonUpstream = "needs-dropped" // a result that it needs is gone
	ReasonUnasked  = "not-asked-for" // there is no such job any more
	ReasonChanged  = "changed"       // its task has changed, or one that it needs
	ReasonSkipped  = "skipped"       // as asked for
	ReasonRedo     = "redo"          // as asked for
)

// Rebuild makes the metadata of a state again from its data alone, whatever is
// there now: it may be missing, damaged, of an older format, or of another shape
// of the pipeline. Every result is kept whose record, values and inputs are
// intact and whose job key is the one that follows from its inputs now; the rest
// goes, with all that hangs on it. The new metadata takes the place of the old
// in one commit, and until then nothing has changed; another rebuild changes
// nothing. A run then goes on, and executes what was dropped.
//
// The errors are those of New, and ErrNoState where there is nothing. Data of which
// nothing can be read is a *DamagedError.
func Rebuild(ctx context.Context, p *spec.Pipeline, o RebuildOptions) (*RebuildReport, error) {
	for _, name := range append(append([]string(nil), o.Skip...), o.Redo...) {
		if p.Task(name) == nil {
			return nil, unknownTask(p, name)
		}
	}
	o.Fresh, o.Rebuild = false, true
	e, err := prepare(p, o.Options)
	if err != nil {
		return nil, err
	}
	if !anythingIn(e.dir) {
		return nil, ErrNoState
	}
	if e.lock, err = holdDir(e.dir); err != nil {
		return nil, err
	}
	if err := e.open(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	if e.lost == nil && !e.stores.found {
		return nil, errors.Join(ErrNoState, e.Close())
	}
	if err := e.endStrays(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	rep, err := e.rebuild(ctx, rebuildAsk{skip: o.Skip, redo: o.Redo, aside: o.RedoInconsistent, say: o.Progress})
	if closed := e.Close(); err == nil {
		err = stateError(e.dir, "close the state", closed)
	}
	if err != nil {
		return nil, err
	}
	return rep, nil
}

// rebuildAsk is what a rebuild is asked for.
type rebuildAsk struct {
	skip, redo []string
	aside      bool
	strict     bool // nobody asked to drop damaged results: they are an error
	say        func(Progress)
}

// runAgain lets tasks be replaced although they could be kept, with all that
// hangs on them.
func runAgain(p *spec.Pipeline, decisions []decision, names []string, reason string) {
	again := map[string]bool{}
	for _, name := range names {
		again[name] = true
	}
	for _, t := range p.Topo {
		d := &decisions[t.Index]
		if d.Action != actionKeep {
			continue
		}
		if again[t.Name] {
			*d = decision{Action: actionReplace, Old: d.Old, Rule: ruleAsked, Reason: reason}
			continue
		}
		for _, up := range t.Upstream() {
			if decisions[up.Index].Action != actionKeep {
				*d = decision{Action: actionReplace, Old: d.Old, Rule: ruleUpstream, Reason: "it needs " + up.Name, Cause: up}
				break
			}
		}
	}
}

// downstream are the named tasks and all that hang on them, by index.
func downstream(p *spec.Pipeline, names []string) []bool {
	out := make([]bool, len(p.Tasks))
	for _, name := range names {
		out[p.Task(name).Index] = true
	}
	for _, t := range p.Topo {
		for _, up := range t.Upstream() {
			out[t.Index] = out[t.Index] || out[up.Index]
		}
	}
	return out
}

// mend makes the metadata again before a run where that is needed or asked for.
func (e *Engine) mend(ctx context.Context) error {
	asked := e.salvages()
	if e.lost == nil && (!e.stores.found || !e.stores.rebuild && !asked) {
		return nil
	}
	began := time.Now()
	said := began
	rep, err := e.rebuild(ctx, rebuildAsk{skip: e.o.Skip, aside: e.o.RedoInconsistent, strict: !asked, say: func(p Progress) {
		if now := time.Now(); now.Sub(said) > noteEvery {
			said = now
			e.note(p.String())
		}
	}})
	if err != nil {
		return err
	}
	e.note(rep.String())
	return nil
}

// noteEvery is the time between two notes of how far a rebuild is.
const noteEvery = 5 * time.Second

// redoing are the tasks that take no results from other dataflows: those that
// were asked for now, and those that the run which is gone on with was asked
// for.
func (e *Engine) redoing(now []string, newRun bool) map[string]bool {
	out := map[string]bool{}
	if !newRun {
		for _, name := range decodeAsked(e.stores.last.Asked).Redo {
			out[name] = true
		}
	}
	for _, name := range now {
		out[name] = true
	}
	return out
}

// writeChanges puts the changes of the tables into a metadata batch; ids is the
// dataflow of each task.
func writeChanges(m *meta.Batch, ids []uint64, c ticket.Changes) {
	for _, p := range c.Resolutions {
		m.PutResolutions(ids[p.Task], p.Prefix, p.Number, p.Data)
	}
	for _, p := range c.Tickets {
		m.PutTickets(ids[p.Task], p.Prefix, p.Number, p.Data)
	}
	for _, s := range c.Shares {
		m.PutShare(ids[s.Task], s.Ref, s.Pins, s.Done, s.Quota)
	}
}

// inconsistent is the error that a job has met damaged data.
func (l *loop) inconsistent(d *storage.Damage) error {
	out := &InconsistentError{Detail: d.Detail, Mend: mendJob}
	for _, f := range l.flows {
		if f.id == d.Instance {
			out.Task, out.Coord = f.task.Name, d.Coord.Format(f.task.ContextNames())
		}
	}
	return out
}

// located is an error that is told as it is, but for damage, which is told with its
// place.
func located(data *storage.Store, err error) error {
	if d, damaged := errors.AsType[*storage.Damage](err); damaged {
		return inconsistentAt(data, d)
	}
	return err
}

// inconsistentAt is the error that something in the data is damaged which a
// rebuild drops.
func inconsistentAt(data *storage.Store, d *storage.Damage) *InconsistentError {
	out := &InconsistentError{Detail: d.Detail, Mend: mendState}
	_ = data.View(func(r *storage.Reader) error { // without, it does not say where
		if h, ok, _ := r.Header(d.Instance); ok {
			out.Task = h.Task
			if d.Kind.OfJob() {
				out.Coord = d.Coord.Format(h.Dims)
			}
		}
		return nil
	})
	return out
}
