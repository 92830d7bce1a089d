package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"operon/engine/ticket"
	"operon/meta"
	"operon/spec"
	"operon/spec/coord"
	"operon/storage"
)

// rebuilding is one rebuild under way.
type rebuilding struct {
	e     *Engine
	ask   rebuildAsk
	sv    *survey
	audit *audit
	ids   []uint64 // of each task: the dataflow that it will have
	table *ticket.Table
	fates []fate
	rep   *RebuildReport
}

// fate is what becomes of one task's results.
type fate struct {
	old     uint64        // the dataflow that is there; 0: none
	keep    bool          // the dataflow stays
	records uint64        // of it
	drop    []coord.Coord // results that go
	aside   []coord.Coord // results that may be taken back
	bad     []coord.Coord // of those that go: the damaged ones
	reasons map[string]int64
}

// rebuild makes the metadata again from the data, which it salvages first if it
// must and may.
func (e *Engine) rebuild(ctx context.Context, ask rebuildAsk) (rep *RebuildReport, err error) {
	lost := e.lost
	if lost == nil {
		rep, err = e.rebuildOnce(ctx, ask)
		d, damaged := e.ofData(err)
		if !damaged || ask.strict || e.salvaged != nil {
			return rep, err
		}
		lost = d
		_ = e.stores.close() // what it could not write is of a rebuild that begins anew
		e.stores = nil
	}
	if err := e.salvage(ctx, lost); err != nil {
		return nil, err
	}
	if rep, err = e.rebuildOnce(ctx, ask); err == nil {
		rep.Salvaged = e.salvaged
	}
	return rep, err
}

func (e *Engine) rebuildOnce(ctx context.Context, ask rebuildAsk) (*RebuildReport, error) {
	began := time.Now()
	if ask.say == nil {
		ask.say = func(Progress) {}
	}
	if err := e.stores.data.CheckPages(); err != nil {
		return nil, stateError(e.dir, "look at the pages of the data", err)
	}
	err := e.stores.meta.View(func(r *meta.Reader) error { return r.Verify() })
	if meta.IsDamage(err) {
		err = e.stores.replaceMeta(why(err), e.o.Hook)
	}
	if err != nil {
		return nil, stateError(e.dir, "look at the metadata", err)
	}
	b := &rebuilding{e: e, ask: ask}
	b.rep = &RebuildReport{Pipeline: e.p.Name, Why: e.stores.why, Tasks: []RebuildTask{}, Memo: RebuildMemo{Reasons: map[string]int64{}}}
	if err := b.look(ctx); err != nil {
		return nil, err
	}
	if err := b.replay(ctx); err != nil {
		return nil, stateError(e.dir, "replay the finished jobs", err)
	}
	if err := b.putAside(ctx); err != nil {
		return nil, err
	}
	if err := b.swap(ctx); err != nil {
		return nil, err
	}
	b.rep.Elapsed = time.Since(began).Seconds()
	return b.rep, nil
}

// look looks at everything that is there, and brings order into it where that is
// allowed.
func (b *rebuilding) look(ctx context.Context) error {
	e := b.e
	err := b.survey(ctx)
	if err == nil && errors.Is(e.stores.damage, errDataGone) && b.ask.strict {
		err = e.stores.damage
	}
	if err == nil {
		err = b.examine(ctx)
	}
	var damage *storage.Damage
	switch {
	case err == nil && len(b.audit.damage) == 0 && e.stores.damage == nil:
		return nil
	case errors.As(err, &damage), errors.Is(err, errDataGone):
	case err != nil:
		return stateError(e.dir, "look at the data", err)
	}
	if b.ask.strict && (err != nil || e.stores.damage != nil || slices.ContainsFunc(b.audit.damage, func(d *storage.Damage) bool { return !b.isMemo(d) })) {
		return b.inconsistent(err)
	}
	changed, mendErr := e.stores.data.Mend(ctx)
	if mendErr != nil {
		return stateError(e.dir, "mend the data", mendErr)
	}
	if !changed && err == nil {
		return nil
	}
	if err := b.survey(ctx); err != nil {
		return stateError(e.dir, "look at the mended data", err)
	}
	return stateError(e.dir, "look at the mended data", b.examine(ctx))
}

// inconsistent is the error that data is damaged, and nobody asked to drop it.
func (b *rebuilding) inconsistent(err error) error {
	out := &InconsistentError{Mend: "operon check-consistency --mode exhaustive lists all that is wrong; " + mendState}
	var damage *storage.Damage
	switch {
	case errors.As(err, &damage):
	case err != nil:
		out.Detail = err.Error()
		return out
	case len(b.audit.damage) > 0:
		damage = b.audit.damage[0]
	case errors.As(b.e.stores.damage, &damage):
	}
	out.Detail = damage.Detail
	if b.audit != nil {
		h := b.audit.headers[damage.Instance]
		if out.Task = h.Task; damage.Kind.OfJob() {
			out.Coord = damage.Coord.Format(h.Dims)
		}
		if n := len(b.audit.damage); n > 1 {
			out.Detail += fmt.Sprintf("; %d more", n-1)
		}
	}
	return out
}

// survey decides which tasks keep their dataflow.
func (b *rebuilding) survey(ctx context.Context) error {
	e := b.e
	last := e.stores.last
	last.State = string(StateStopped) // nothing is run again because it is never reused
	err := e.stores.data.View(func(r *storage.Reader) (err error) {
		b.sv, err = lookPast(ctx, e.p, e.bodies, r, last, true)
		return err
	})
	if err != nil {
		return err
	}
	runAgain(e.p, b.sv.decisions, b.ask.skip, "it is skipped, as asked for")
	runAgain(e.p, b.sv.decisions, b.ask.redo, "it is to run again, as asked for")
	return nil
}

// examine audits the data.
func (b *rebuilding) examine(ctx context.Context) error {
	kept := make([]uint64, len(b.e.p.Tasks))
	for n, d := range b.sv.decisions {
		if d.Action == actionKeep {
			kept[n] = d.Old
		}
	}
	b.audit = newAudit(b.e.p, kept, b.sv.content)
	return b.audit.run(ctx, b.e.stores.data, b.ask.say, nil, nil)
}

// replay replays what is intact, upstream first, and decides about the rest.
func (b *rebuilding) replay(ctx context.Context) error {
	p := b.e.p
	b.table, _ = ticket.New(p)
	b.fates = make([]fate, len(p.Tasks))
	return b.e.stores.data.View(func(r *storage.Reader) error {
		for _, t := range p.Topo {
			if err := b.task(ctx, r, t); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *rebuilding) task(ctx context.Context, r *storage.Reader, t *spec.TaskSpec) error {
	d, f := b.sv.decisions[t.Index], &b.fates[t.Index]
	f.reasons = map[string]int64{}
	f.old = d.Old
	if d.Old != 0 {
		f.records = r.Number(d.Old)
	}
	if d.Action != actionKeep {
		if f.records > 0 {
			f.reasons[b.whyReplaced(t)] += int64(f.records)
		}
		return nil
	}
	kept := uint64(0)
	err := r.Scan(d.Old, func(rec storage.Record, damage *storage.Damage) error {
		if kept++; kept%1024 == 0 {
			b.ask.say(Progress{Phase: "tickets of " + t.Name, Done: kept, Total: f.records})
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		b.record(t, f, rec, damage)
		return nil
	})
	if err != nil {
		return err
	}
	f.keep = len(f.drop)+len(f.aside) == 0 || uint64(len(f.drop)+len(f.aside)) < f.records
	if !f.keep {
		return nil
	}
	return ignoreDamage(r.Failures(d.Old, func(fail storage.Failure) error {
		if b.table.Status(t.Index, fail.Coord) == ticket.Queued {
			return b.table.OnFailed(t.Index, fail.Coord)
		}
		return nil
	}))
}

// record decides about one result of a task that keeps its dataflow.
func (b *rebuilding) record(t *spec.TaskSpec, f *fate, rec storage.Record, damage *storage.Damage) {
	why, bad := b.audit.bad[t.Index][rec.Coord]
	switch {
	case damage != nil:
		bad, why.kind = true, FaultRecordDamaged
	case bad:
	default:
		if _, err := replay(b.table, t.Index, rec.Coord, rec.Extent, rec.Hole, false); err == nil {
			return
		}
	}
	if bad {
		f.reasons[string(why.kind)]++
		f.drop = append(f.drop, rec.Coord)
		f.bad = append(f.bad, rec.Coord)
		return
	}
	reason := ReasonUnasked
	if b.somethingAbove(t) {
		reason = ReasonUpstream
	}
	f.reasons[reason]++
	if b.ask.aside && reason == ReasonUpstream {
		f.aside = append(f.aside, rec.Coord)
	} else {
		f.drop = append(f.drop, rec.Coord)
	}
}

// somethingAbove reports whether a task that t needs has lost results.
func (b *rebuilding) somethingAbove(t *spec.TaskSpec) bool {
	for _, up := range t.AllUpstreamTasks() {
		if f := &b.fates[up.Index]; !f.keep || len(f.drop)+len(f.aside) > 0 {
			return true
		}
	}
	return len(b.audit.damage) > 0 || b.e.salvaged != nil // a record that is gone without a trace
}

func (b *rebuilding) whyReplaced(t *spec.TaskSpec) string {
	for d := b.sv.decisions[t.Index]; ; d = b.sv.decisions[t.Index] {
		if d.Cause == nil {
			break
		}
		t = d.Cause
	}
	switch {
	case slices.Contains(b.ask.skip, t.Name):
		return ReasonSkipped
	case slices.Contains(b.ask.redo, t.Name):
		return ReasonRedo
	}
	return ReasonChanged
}

// putAside copies what may be taken back to where a run looks for results.
func (b *rebuilding) putAside(ctx context.Context) error {
	for _, t := range b.e.p.Tasks {
		f := &b.fates[t.Index]
		if !f.keep {
			continue // it is retired as a whole
		}
		if _, err := b.e.putAside(ctx, t, f.old, f.aside); err != nil {
			return err
		}
	}
	return nil
}

// swap lets go of what is not kept, and puts the new metadata in the place of
// the old: the data in one commit, then the metadata in one. A crash between the
// two leaves metadata that does not tell of just the results that are there,
// which the next run notices.
func (b *rebuilding) swap(ctx context.Context) error {
	e := b.e
	d, m := &storage.Batch{}, &meta.Batch{}
	m.Reset()
	b.dropDamaged(d)
	b.dropSkipped(d)
	b.ids = make([]uint64, len(e.p.Tasks))
	for _, o := range b.sv.orphans {
		d.SetState(o.ID, storage.Retired)
	}
	for _, t := range e.p.Tasks {
		b.swapTask(t, d)
	}
	st := &Status{Tasks: []TaskStatus{}}
	for _, t := range e.p.Tasks {
		c := b.table.Counts(t.Index)
		m.PutDataflow(meta.Dataflow{ID: b.ids[t.Index], Task: t.Name, Fingerprint: t.Fingerprint, Dims: t.ContextNames(), Spawn: spawnName(t), State: string(dataflowState(c, 0))})
	}
	writeChanges(m, b.ids, b.table.Changes()) // before anybody asks the table, which makes counters
	st.Tasks = tableStatus(e.p, b.ids, b.table)
	foot, err := b.footprint(st)
	if err != nil {
		return err
	}
	footprints(foot, d, m)
	commits := newCommitter(e.stores.data, e.stores.meta)
	commits.submit(d, m, true)
	if err := commits.flush(ctx); err != nil {
		return &MachineError{Doing: "write the new metadata", Err: err}
	}
	b.sum(st, foot)
	e.stores.last, e.stores.found, e.stores.rebuild, e.stores.why, e.stores.damage = foot, true, false, "", nil
	if b.rep.Dropped+b.rep.Aside > 0 || len(b.audit.damage) > 0 || e.salvaged != nil {
		if _, err := e.stores.data.Sweep(ctx); err != nil {
			return &MachineError{Doing: "remove files that nothing names", Err: err}
		}
	}
	e.stores.image, err = readImage(e.stores.meta, false)
	return stateError(e.dir, "read the new metadata", err)
}

// dropDamaged drops what is damaged, in dataflows that are retired too.
func (b *rebuilding) dropDamaged(d *storage.Batch) {
	for _, damage := range b.audit.damage {
		switch {
		case damage.Kind.OfJob():
			if b.isMemo(damage) {
				b.rep.Memo.Dropped++
				b.rep.Memo.Reasons[string(faultOf(damage.Kind))]++
			}
			d.DropRecord(damage.Instance, damage.Coord)
		case damage.Kind == storage.DamagedFailure:
			d.DropFailure(damage.Instance, damage.Coord)
		}
	}
}

// isMemo reports whether damage is of a result that is kept of an earlier
// definition.
func (b *rebuilding) isMemo(d *storage.Damage) bool {
	h, known := b.audit.headers[d.Instance]
	return known && h.State == storage.Retired && d.Kind.OfJob()
}

// dropSkipped drops the dataflows of skipped tasks, and earlier ones that a run
// would find the same results in.
func (b *rebuilding) dropSkipped(d *storage.Batch) {
	if len(b.ask.skip) == 0 {
		return
	}
	for n, skipped := range downstream(b.e.p, b.ask.skip) {
		if !skipped {
			continue
		}
		for _, id := range b.sv.memo[b.e.p.Tasks[n].Fingerprint] {
			d.DropInstance(id)
		}
	}
}

// swapTask gives a task the dataflow that it will have.
func (b *rebuilding) swapTask(t *spec.TaskSpec, d *storage.Batch) {
	f := &b.fates[t.Index]
	if f.keep {
		b.ids[t.Index] = f.old
		for _, c := range f.drop {
			d.DropRecord(f.old, c)
		}
		for _, c := range f.aside {
			d.DropRecord(f.old, c)
		}
		return
	}
	if f.old != 0 {
		b.letGo(t, f, d)
	}
	b.ids[t.Index] = b.e.stores.data.AllocateInstance()
	d.PutHeader(headerOf(t, b.ids[t.Index]))
}

// letGo lets go of a dataflow as a whole: it is retired where a run may take
// results back from it, and dropped where all of it has lost its ground.
func (b *rebuilding) letGo(t *spec.TaskSpec, f *fate, d *storage.Batch) {
	kept := b.sv.decisions[t.Index].Action == actionKeep
	if kept && len(f.aside) == 0 {
		d.DropInstance(f.old)
		return
	}
	for _, c := range f.drop {
		d.DropRecord(f.old, c)
	}
	d.SetState(f.old, storage.Retired)
}

// footprint is that of the new metadata: a run that was complete stays so if
// nothing was lost.
func (b *rebuilding) footprint(st *Status) (meta.Footprint, error) {
	e := b.e
	pl := &plan{survey: b.sv, ids: b.ids, redo: e.redoing(b.ask.redo, e.wasComplete())}
	last := e.stores.last
	foot := meta.Footprint{
		Format: formatVersion, RunID: last.RunID, Asked: e.asked(pl).encode(),
		File: filepath.Base(e.p.File), Pipeline: e.p.Name, Source: e.p.Snapshot(), Build: e.o.Build,
		Started: last.Started, Updated: time.Now(),
	}
	if foot.RunID == "" {
		foot.RunID, foot.Started = uuid.NewString(), foot.Updated
	}
	complete, failed := true, false
	sum := Summary{Pipeline: e.p.Name, Run: foot.RunID}
	for _, t := range st.Tasks {
		complete = complete && b.table.Counts(e.p.Task(t.Task).Index).Complete()
		failed = failed || t.Failed > 0
		sum.Tasks = append(sum.Tasks, TaskSummary{TaskStatus: t})
		sum.Reused += t.Done
		sum.Failed += t.Failed
		sum.Blocked += t.Blocked
		sum.Holes += t.Holes
	}
	switch {
	case failed:
		sum.State = StateFailed
	case complete && e.wasComplete():
		sum.State = StateComplete
	default:
		sum.State = StateStopped
	}
	foot.State = string(sum.State)
	var err error
	if foot.Summary, err = json.Marshal(&sum); err != nil {
		return foot, fmt.Errorf("this is a bug: %w", err)
	}
	return foot, nil
}

// wasComplete reports whether the data says that its run had got to its end.
func (e *Engine) wasComplete() bool {
	complete := false
	err := e.stores.data.View(func(r *storage.Reader) error {
		foot, ok, err := r.Footprint()
		complete = ok && RunState(foot.State) == StateComplete
		return err
	})
	return err == nil && complete
}

// sum sums up what became of every result.
func (b *rebuilding) sum(st *Status, foot meta.Footprint) {
	b.rep.Run, b.rep.State = foot.RunID, RunState(foot.State)
	for _, t := range b.e.p.Tasks {
		f, c := &b.fates[t.Index], b.table.Counts(t.Index)
		out := RebuildTask{Task: t.Name, Kept: c.Done + c.Holes, Dropped: int64(len(f.drop)), Aside: int64(len(f.aside)), Reasons: f.reasons}
		if b.sv.decisions[t.Index].Action != actionKeep {
			if f.reasons[ReasonSkipped] > 0 {
				out.Dropped = int64(f.records)
			} else {
				out.Aside = int64(f.records)
			}
		}
		b.rep.Kept += out.Kept
		b.rep.Dropped += out.Dropped
		b.rep.Aside += out.Aside
		b.rep.Tasks = append(b.rep.Tasks, out)
	}
}

func headerOf(t *spec.TaskSpec, id uint64) storage.Header {
	return storage.Header{
		ID: id, Task: t.Name, Entity: t.Out.Name, Fingerprint: t.Fingerprint, Dims: t.ContextNames(),
		Spawn: spawnName(t), State: storage.Current, Created: time.Now(),
	}
}

// tableStatus is where every task stands by a table when nothing runs.
func tableStatus(p *spec.Pipeline, ids []uint64, table *ticket.Table) []TaskStatus {
	blocked := table.Blocked()
	out := make([]TaskStatus, len(p.Tasks))
	for _, t := range p.Tasks {
		f := &flow{task: t, id: ids[t.Index]}
		s := f.status(table.Counts(t.Index))
		s.Blocked = blocked[t.Index]
		s.Waiting += s.Queued - s.Blocked
		s.Queued = 0 // nothing runs that it could be queued for
		s.Reused = s.Done
		out[t.Index] = s
	}
	return out
}

// String says what was done in one sentence.
func (r *RebuildReport) String() string {
	text := "made the metadata again from the data"
	if r.Why != "" {
		text += " (" + r.Why + ")"
	}
	text += fmt.Sprintf(": kept %d results", r.Kept)
	if r.Dropped > 0 {
		text += fmt.Sprintf(", dropped %d", r.Dropped)
	}
	if r.Memo.Dropped > 0 {
		text += fmt.Sprintf(", dropped %d damaged ones of earlier definitions", r.Memo.Dropped)
	}
	if r.Aside > 0 {
		text += fmt.Sprintf(", put %d aside", r.Aside)
	}
	if r.Salvaged != nil {
		text = r.Salvaged.String() + ", " + text
	}
	var parts []string
	for _, t := range r.Tasks {
		if t.Dropped+t.Aside > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", t.Task, t.Dropped+t.Aside))
		}
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}

// String says how far it is.
func (p Progress) String() string {
	if p.Total == 0 {
		return fmt.Sprintf("looked at %d: %s", p.Done, p.Phase)
	}
	return fmt.Sprintf("looked at %d of %d: %s", min(p.Done, p.Total), p.Total, p.Phase)
}
