package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"operon/engine/ticket"
	"operon/meta"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
	"operon/storage/boltfile"
)

// maxFaults is how many faults of one kind in one task are listed: a check must
// not need more memory the more is wrong.
const maxFaults = 10_000

// checker makes one check.
type checker struct {
	e    *Engine // for what it knows of the pipeline; it runs nothing
	p    *spec.Pipeline
	o    CheckOptions
	lock *boltfile.Lock
	data *storage.Store // nil: it can't be read
	img  *image         // nil: the metadata can't be compared

	said   bool     // the metadata's footprint is that of the data, as it was written last
	ids    []uint64 // the dataflow of each task that is compared, 0 for the others
	rep    CheckReport
	listed map[faultGroup]int
}

type faultGroup struct {
	task string
	kind FaultKind
}

// newChecker opens what there is.
func newChecker(p *spec.Pipeline, o CheckOptions) (*checker, error) {
	e, err := prepare(p, Options{Dir: o.Dir, State: o.State, Environ: o.Environ, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	c := &checker{e: e, p: p, o: o, ids: make([]uint64, len(p.Tasks)), listed: map[faultGroup]int{}}
	c.rep = CheckReport{Mode: o.Mode, Notes: map[string]int64{}, Faults: []Fault{}}
	if c.o.Progress == nil {
		c.o.Progress = func(Progress) {}
	}
	if !anythingIn(e.dir) {
		return nil, ErrNoState
	}
	if c.lock, err = acquire(e.dir, true); err != nil {
		return nil, err
	}
	if err := c.open(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// anythingIn reports whether a state directory holds one of the two stores.
func anythingIn(dir string) bool {
	for _, name := range []string{storage.DataFile, meta.FileName} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

func (c *checker) open() (err error) {
	c.data, err = storage.Open(c.e.dir, storage.Options{ReadOnly: true})
	var foot storage.Footprint
	found := false
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.fault(nil, "", FaultDataMissing, "it is gone")
	case storage.IsDamage(err):
		kind := FaultDataDamaged
		if d, ok := errors.AsType[*boltfile.DamagedError](err); ok && d.Empty {
			kind = FaultDataEmpty
		}
		c.fault(nil, "", kind, why(err))
	case err != nil:
		return stateError(c.e.dir, "open the data", err)
	default:
		if d := c.data.FreeListDamage(); d != nil {
			c.fault(nil, "", FaultFreeList, d.Detail)
		}
		err := c.data.View(func(r *storage.Reader) (err error) {
			foot, found, err = r.Footprint()
			return ignoreDamage(err) // it is reported with the other damage
		})
		if err != nil {
			return c.lost(err)
		}
	}
	if found && foot.Pipeline != "" && foot.Pipeline != c.p.Name {
		return &ForeignError{Dir: c.e.dir, Pipeline: foot.Pipeline, File: foot.File}
	}
	if found && foot.Format > formatVersion {
		return &NewerError{Dir: c.e.dir, Have: foot.Format, Know: formatVersion}
	}
	if err := c.openMeta(foot, found); err != nil {
		return err
	}
	if c.data == nil || found || !c.emptyData() {
		return nil
	}
	if c.img == nil || !c.img.found {
		return ErrNoState // a run that was cut short before it had begun
	}
	// A run that was refused for it has made an empty one since.
	c.fault(nil, "", FaultDataMissing, "it holds nothing")
	return nil
}

// emptyData reports whether the data holds nothing.
func (c *checker) emptyData() bool {
	empty := false
	err := c.data.View(func(r *storage.Reader) error {
		_, _, footErr := r.Footprint()
		headers, err := r.Headers()
		empty = footErr == nil && err == nil && len(headers) == 0
		return nil
	})
	return err == nil && empty
}

// openMeta reads the metadata and sees whether it is of this data.
func (c *checker) openMeta(data storage.Footprint, inData bool) error {
	s, err := meta.Open(c.e.dir, meta.Options{ReadOnly: true})
	var older *meta.OlderError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if inData {
			c.fault(nil, "", FaultMetaMissing, "there is no "+meta.FileName)
		}
		return nil
	case errors.As(err, &older):
		c.fault(nil, "", FaultMetaOlder, older.Error())
		return nil
	case meta.IsDamage(err):
		c.fault(nil, "", FaultMetaDamaged, why(err))
		return nil
	case err != nil:
		return stateError(c.e.dir, "open the metadata", err)
	}
	defer s.Close() // read only: nothing can be lost
	if d := s.FreeListDamage(); d != nil {
		c.fault(nil, "", FaultMetaDamaged, d.Detail)
	}
	err = s.View(func(r *meta.Reader) error { return r.Verify() })
	if err == nil {
		c.img, err = readImage(s, true)
	}
	if meta.IsDamage(err) {
		c.img = nil
		c.fault(nil, "", FaultMetaDamaged, why(err))
		return nil
	}
	if err != nil {
		return stateError(c.e.dir, "read the metadata", err)
	}
	c.belongs(data, inData)
	return nil
}

// belongs sees whether the metadata is of this data, and leaves it alone if not.
func (c *checker) belongs(data storage.Footprint, inData bool) {
	img := c.img
	switch {
	case c.data == nil:
	case !inData:
		return
	case img.applied > c.data.LastCommit():
		c.fault(nil, "", FaultDataBehind, fmt.Sprintf("the data ends with commit %d, and the metadata has applied commit %d", c.data.LastCommit(), img.applied))
	case cutShort(img, data, inData):
		c.note(NoteUnappliedRun, 1)
	case !img.found:
		c.fault(nil, "", FaultMetaMissing, "it is empty")
	case img.foot.RunID != data.RunID:
		c.fault(nil, "", FaultMetaForeign, fmt.Sprintf("it is of run %s, and the data of run %s", img.foot.RunID, data.RunID))
	default:
		c.said = img.foot.Updated.Equal(data.Updated) && img.foot.State == data.State
		return
	}
	c.img = nil
}

func (c *checker) close() error {
	var err error
	if c.data != nil {
		err = c.data.Close()
	}
	if c.lock != nil {
		err = errors.Join(err, c.lock.Release())
	}
	return err
}

// run looks at what there is, as closely as asked for.
func (c *checker) run(ctx context.Context) error {
	if c.data == nil || c.o.Mode == TrustAll {
		return nil
	}
	return c.lost(c.look(ctx))
}

// lost makes a fault of an error that says that the data can't be read on.
func (c *checker) lost(err error) error {
	var damaged *boltfile.DamagedError
	if errors.As(err, &damaged) {
		c.fault(nil, "", FaultDataDamaged, damaged.Detail)
		return nil
	}
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return stateError(c.e.dir, "check the data", err)
	}
	return err
}

func (c *checker) look(ctx context.Context) error {
	sv, err := c.survey(ctx)
	if err != nil || sv == nil {
		return err
	}
	for _, d := range sv.decisions {
		if d.Action == actionReplace {
			c.note(NoteChangedTasks, 1)
		}
	}
	for _, t := range c.p.Tasks {
		if d := sv.decisions[t.Index]; d.Action == actionKeep {
			c.ids[t.Index] = d.Old
		}
	}
	if c.o.Mode == Exhaustive {
		return c.exhaustive(ctx, sv)
	}
	return c.data.View(func(r *storage.Reader) error {
		table, err := c.compare(ctx, r)
		if err != nil {
			return err
		}
		if c.o.Mode == Quick {
			return c.boundary(ctx, r, table)
		}
		return nil
	})
}

// survey decides which tasks are compared with the pipeline: those that a run
// would keep, even if they are never reused in a new one. Without headers there
// is nothing to compare with: then it is nil, and the damage is said.
func (c *checker) survey(ctx context.Context) (sv *survey, err error) {
	if c.o.Mode != Exhaustive { // which reads sources too
		if err := c.e.bodies.LoadDigests(filepath.Join(c.e.dir, digestsFile)); err != nil {
			c.e.log.Warn("sources are read again", "err", err)
		}
	}
	last := meta.Footprint{State: string(StateStopped)}
	if c.img != nil {
		last.Asked = c.img.foot.Asked
	}
	err = c.data.View(func(r *storage.Reader) error {
		sv, err = lookPast(ctx, c.p, c.e.bodies, r, last, true)
		return err
	})
	if err == nil || ignoreDamage(err) != nil {
		return sv, err
	}
	if c.o.Mode != Exhaustive {
		var d *storage.Damage
		errors.As(err, &d)
		c.damage(d, "")
		return nil, nil
	}
	a := newAudit(c.p, c.ids, make([]value.Digest, len(c.p.Tasks)))
	if err := a.run(ctx, c.data, c.o.Progress, nil, nil); err != nil {
		return nil, err
	}
	c.audited(a)
	return nil, nil
}

// exhaustive looks at everything: the data, and the metadata against it.
func (c *checker) exhaustive(ctx context.Context, sv *survey) error {
	a := newAudit(c.p, c.ids, sv.content)
	var m *comparison
	err := a.run(ctx, c.data, c.o.Progress, func(r *storage.Reader) (_ follower, err error) {
		m, err = newComparison(ctx, c, r, true)
		return m, err
	}, func() { m.finish() })
	if err == nil {
		c.audited(a)
	}
	return err
}

// audited takes in what an audit found.
func (c *checker) audited(a *audit) {
	c.rep.Checked.Records = int64(a.report.Records)
	c.rep.Checked.Values = int64(a.report.Values)
	c.rep.Checked.Blobs = int64(a.report.Blobs)
	c.note(NoteItems, int64(a.report.StrayChunks))
	c.note(NoteFiles, int64(a.report.StrayFiles))
	for _, d := range a.damage {
		h := a.headers[d.Instance]
		if h.State == storage.Retired && d.Kind.OfJob() {
			c.add(Fault{Task: h.Task, Coord: d.Coord, Dims: h.Dims, Kind: faultOf(d.Kind), Detail: "of an earlier definition: " + d.Detail, Mend: mendEarlier})
			continue
		}
		c.damage(d, h.Task)
	}
	for _, t := range c.p.Tasks {
		for at, why := range a.bad[t.Index] {
			if why.kind == FaultRecordKey || why.kind == FaultRecordShape {
				c.fault(t, at, why.kind, why.detail)
			}
		}
	}
}

// damage makes a fault of damage in an instance of a task.
func (c *checker) damage(d *storage.Damage, task string) {
	t := c.p.Task(task)
	if t == nil || !d.Kind.OfJob() && d.Kind != storage.DamagedFailure {
		f := Fault{Task: task, Kind: faultOf(d.Kind), Detail: d.Detail}
		if d.Kind.OfJob() {
			f.Coord = d.Coord
		}
		c.add(f)
		return
	}
	c.fault(t, d.Coord, faultOf(d.Kind), d.Detail)
}

// boundary looks at what unfinished tasks or the user will read: whether the
// values are there, as many as there must be.
func (c *checker) boundary(ctx context.Context, r *storage.Reader, table *ticket.Table) error {
	for _, t := range c.p.Tasks {
		id := c.ids[t.Index]
		if id == 0 || !c.isBoundary(t, table) {
			continue
		}
		seen := 0
		err := r.Scan(id, func(rec storage.Record, damage *storage.Damage) error {
			if seen++; seen%1024 == 0 {
				c.o.Progress(Progress{Phase: "boundaries of " + t.Name, Done: uint64(seen), Total: r.Number(id)})
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
			if damage != nil {
				return nil // said already
			}
			values, blobs, err := r.Look(id, rec.Coord)
			c.rep.Checked.Values += int64(values)
			c.rep.Checked.Blobs += int64(blobs)
			var d *storage.Damage
			if errors.As(err, &d) {
				c.damage(d, t.Name)
				return nil
			}
			if errors.Is(err, storage.ErrReleased) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// isBoundary reports whether somebody will still read the values of a task: the
// user, or a task that is not complete.
func (c *checker) isBoundary(t *spec.TaskSpec, table *ticket.Table) bool {
	taken := false
	for _, other := range c.p.Tasks {
		for _, in := range other.In {
			if in.Entity == t.Out {
				if c.ids[other.Index] == 0 || !table.Counts(other.Index).Complete() {
					return true
				}
				taken = true
			}
		}
	}
	return !taken
}

// fault notes a fault of a job; t is nil where it is not of one task.
func (c *checker) fault(t *spec.TaskSpec, at coord.Coord, kind FaultKind, detail string) {
	f := Fault{Kind: kind, Detail: detail, Coord: at}
	if t != nil {
		f.Task, f.Dims = t.Name, t.ContextNames()
	}
	c.add(f)
}

func (c *checker) add(f Fault) {
	g := faultGroup{f.Task, f.Kind}
	if c.listed[g]++; c.listed[g] > maxFaults {
		c.note(NoteMore, 1)
		return
	}
	f.Mend = cmp.Or(f.Mend, mendOf(f.Kind))
	c.rep.Faults = append(c.rep.Faults, f)
}

func (c *checker) note(kind string, n int64) {
	if n > 0 {
		c.rep.Notes[kind] += n
	}
}

// report is what was found, in order.
func (c *checker) report() *CheckReport {
	place := func(f Fault) int {
		if t := c.p.Task(f.Task); t != nil {
			return t.Index + 1
		}
		return 0
	}
	slices.SortStableFunc(c.rep.Faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Coord, b.Coord), cmp.Compare(a.Kind, b.Kind))
	})
	c.rep.Consistent = len(c.rep.Faults) == 0
	return &c.rep
}
