package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"operon/engine/body"
	"operon/engine/worker"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// LineageQuery names values, and which way to go from them.
type LineageQuery struct {
	Entity string
	At     coord.Binding // any subset of the entity's dimensions
	Down   bool          // what was made from the values, not what they were made from
	// Dir is the pipeline file's folder, to look whether sources are as they
	// were; "": they are not looked at.
	Dir string
}

// LineageStep is one task on the way: values of its entity, and what its jobs
// took to make them.
type LineageStep struct {
	Entity string
	Dims   []string // of the entity
	Task   string
	Kind   spec.BodyKind
	Values int64  // of the entity, that belong to the lineage
	Spans  []Span // those values, in coordinate order
	Jobs   int64  // that made them
	// Takes are the inputs of the jobs, in declared order, and then the lists
	// that say over which indices the jobs run, where no input does. Going down,
	// only those through which the values came.
	Takes  []LineageTake
	Fields []spec.Field // what the task was made of: params, deps, source; see LineageStep.Field
	Source SourceState

	files func(fn func(Item) error) error
}

// LineageTake is one input of a step's jobs.
type LineageTake struct {
	Ref    string   // as it is written; of a list that only gives indices, the dimension
	Over   bool     // it is such a list
	Entity string   // what is taken
	Dims   []string // of the entity
	Values int64
	Spans  []Span // of the entity, those that are taken; nil going down
}

// SourceState says whether a source is as it was when its task read it.
type SourceState string

// The states of sources.
const (
	SourceUnknown SourceState = ""        // it is no file, or was not looked at
	SourceSame    SourceState = "same"    // it is as it was
	SourceChanged SourceState = "changed" // it is not, or can't be read
)

// Files hands those of the step's values that are files to fn, in coordinate
// order. It is valid while the step is handed out.
func (s *LineageStep) Files(fn func(Item) error) error { return s.files(fn) }

// Lineage hands to fn what the values that a query names were made from, back to
// the sources, or what was made from them: a step a task, so that each comes
// before what it leads to; the first is that of the entity itself. Memory grows
// with the number of runs of neighbouring values, not with that of values.
//
// An unknown entity, dimension or coordinate is an *UnknownError; a value that is
// not there yet counts as an unknown coordinate.
func (s *State) Lineage(ctx context.Context, q LineageQuery, fn func(*LineageStep) error) error {
	e := s.p.Entity(q.Entity)
	if e == nil {
		return unknownEntity(s.p, q.Entity)
	}
	for d := range q.At {
		if names := e.DimNames(); !slices.Contains(names, d) {
			return &UnknownError{What: "dimension", Name: d, Nearest: spec.Nearest(d, names), Known: names}
		}
	}
	err := s.data.View(func(r *storage.Reader) error {
		l, err := newLineage(ctx, s, r, q)
		if err != nil {
			return err
		}
		if err := l.start(e); err != nil {
			return err
		}
		if q.Down {
			return l.down(e, fn)
		}
		return l.up(fn)
	})
	var damage *storage.Damage
	if errors.As(err, &damage) {
		return s.readError("follow the lineage", err)
	}
	return err
}

// lineage is the way from some values.
type lineage struct {
	ctx     context.Context
	q       LineageQuery
	p       *spec.Pipeline
	r       *storage.Reader
	headers []storage.Header   // of each task; ID 0: it has none
	flows   []*worker.Dataflow // of each task
	fields  map[string][]spec.Field
	sets    map[*spec.Entity]*spanSet // values that belong to it
}

func newLineage(ctx context.Context, s *State, r *storage.Reader, q LineageQuery) (*lineage, error) {
	l := &lineage{
		ctx: ctx, q: q, p: s.p, r: r, headers: make([]storage.Header, len(s.p.Tasks)), flows: make([]*worker.Dataflow, len(s.p.Tasks)),
		fields: decodeAsked(s.foot.Asked).Fields, sets: map[*spec.Entity]*spanSet{},
	}
	all, err := r.Headers()
	if err != nil {
		return nil, err
	}
	for _, h := range all {
		if t := s.p.Task(h.Task); t != nil && h.State != storage.Retired {
			l.headers[t.Index] = h
		}
	}
	spawners := make([]uint64, len(s.p.Dims))
	for _, d := range s.p.Dims {
		spawners[d.Index] = l.headers[d.Spawner.Index].ID
	}
	for _, t := range s.p.Tasks {
		df := &worker.Dataflow{ID: l.headers[t.Index].ID, Task: t, Spawners: spawners}
		for _, in := range t.In {
			df.Producers = append(df.Producers, l.headers[in.Entity.Producer.Index].ID)
		}
		l.flows[t.Index] = df
	}
	return l, nil
}

// start puts the values of the query into their set.
func (l *lineage) start(e *spec.Entity) error {
	set := l.set(e)
	h := l.headers[e.Producer.Index]
	job, dims := coord.Binding{}, e.Producer.ContextNames()
	for d, i := range l.q.At {
		if slices.Contains(dims, d) {
			job[d] = i
		}
	}
	err := l.r.Records(h.ID, prefixOf(job, dims), func(rec storage.Record) error {
		if !job.Match(rec.Coord, dims) {
			return context.Cause(l.ctx)
		}
		made, ok := madeBy(e, rec)
		if e.Producer.Spawn != nil {
			if i, bound := l.q.At[e.Producer.Spawn.Name]; ok && bound {
				ok = i <= made.Hi
				made.Lo, made.Hi = i, i
			}
		}
		if ok {
			set.add(made)
		}
		return context.Cause(l.ctx)
	})
	if err != nil {
		return err
	}
	set.seal()
	if len(set.spans) == 0 {
		return &UnknownError{What: "value", Name: e.Name + atText(l.q.At)}
	}
	return nil
}

// atText is a binding as it is written: <i=0,j=2>, by the names.
func atText(at coord.Binding) string {
	if len(at) == 0 {
		return ""
	}
	var parts []string
	for _, d := range slices.Sorted(maps.Keys(at)) {
		parts = append(parts, fmt.Sprintf("%s=%d", d, at[d]))
	}
	return "<" + strings.Join(parts, ",") + ">"
}

// madeBy are the values that a job made, ok is false if there are none.
func madeBy(e *spec.Entity, rec storage.Record) (s Span, ok bool) {
	if e.Producer.Spawn == nil {
		return spanOf(rec.Coord, rec.Coord), true
	}
	if rec.Hole || rec.Extent == 0 {
		return s, false
	}
	return Span{rec.Coord, 0, rec.Extent - 1}, true
}

func (l *lineage) set(e *spec.Entity) *spanSet {
	s := l.sets[e]
	if s == nil {
		s = &spanSet{dims: len(e.Dims)}
		l.sets[e] = s
	}
	return s
}

// up goes from the last task to the first: when one is met, all that takes of it
// has been.
func (l *lineage) up(fn func(*LineageStep) error) error {
	for _, t := range slices.Backward(l.p.Topo) {
		set := l.sets[t.Out]
		if set == nil {
			continue
		}
		set.seal()
		step, err := l.step(t, set)
		if err != nil {
			return err
		}
		if err := l.takes(step, t, set); err != nil {
			return err
		}
		if err := fn(step); err != nil {
			return err
		}
	}
	return nil
}

// jobs calls fn with the jobs that made the values of a set.
func (l *lineage) jobs(t *spec.TaskSpec, set *spanSet, fn func(c coord.Coord) error) error {
	if t.Spawn == nil {
		return set.each(func(c coord.Coord) error {
			if l.ctx.Err() != nil {
				return context.Cause(l.ctx)
			}
			return fn(c)
		})
	}
	for i, sp := range set.spans {
		if i > 0 && set.spans[i-1].Prefix == sp.Prefix {
			continue
		}
		if l.ctx.Err() != nil {
			return context.Cause(l.ctx)
		}
		if err := fn(sp.Prefix); err != nil {
			return err
		}
	}
	return nil
}

// takes finds what the jobs of a step took, and adds it to the sets.
func (l *lineage) takes(step *LineageStep, t *spec.TaskSpec, set *spanSet) error {
	collect := newCollector(t, l.flows[t.Index])
	err := l.jobs(t, set, func(c coord.Coord) error {
		step.Jobs++
		return collect.job(l.r, c)
	})
	if err != nil {
		return err
	}
	for n, take := range collect.takes {
		from := collect.sets[n]
		from.seal()
		take.Values, take.Spans = from.count(), from.spans
		step.Takes = append(step.Takes, take)
		whole := l.set(collect.entities[n])
		for _, sp := range from.spans {
			whole.add(sp)
		}
	}
	return nil
}

// step is what can be said of a task whose values belong to the lineage.
func (l *lineage) step(t *spec.TaskSpec, set *spanSet) (*LineageStep, error) {
	step := &LineageStep{
		Entity: t.Out.Name, Dims: t.Out.DimNames(), Task: t.Name, Kind: t.Body.Kind,
		Values: set.count(), Spans: set.spans, Fields: l.fields[t.Name],
		files: func(fn func(Item) error) error { return l.files(t, set, fn) },
	}
	var err error
	step.Source, err = l.source(t)
	return step, err
}

// source says whether a source is as it was.
func (l *lineage) source(t *spec.TaskSpec) (SourceState, error) {
	h := l.headers[t.Index]
	if l.q.Dir == "" || t.Body.Kind != spec.BodySource || t.Fingerprint != h.Fingerprint {
		return SourceUnknown, nil
	}
	now, err := body.SourceKey(l.ctx, &body.Config{Pipeline: l.p, Dir: l.q.Dir}, t)
	if err != nil {
		return SourceChanged, nil // it can't be read: that is what there is to say
	}
	if now == (value.Digest{}) {
		return SourceUnknown, nil
	}
	state := SourceSame
	err = l.r.Records(h.ID, "", func(rec storage.Record) error {
		if rec.Key != spec.JobKey(t, nil, rec.Coord, now) {
			state = SourceChanged
		}
		return nil
	})
	return state, err
}

// files hands the files among the values of a set to fn.
func (l *lineage) files(t *spec.TaskSpec, set *spanSet, fn func(Item) error) error {
	h := l.headers[t.Index]
	hand := func(at coord.Coord, v value.Value) error {
		if v.Kind != value.File {
			return errNoFiles // nor are the others: an entity is all files or none
		}
		return fn(Item{Coord: at, Value: v})
	}
	for _, sp := range set.spans {
		err := l.values(h.ID, t, sp, hand)
		if errors.Is(err, errNoFiles) || errors.Is(err, storage.ErrReleased) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errNoFiles ends a look at values that are no files.
var errNoFiles = errors.New("no files")

// values hands the values of a span to fn, holes left out.
func (l *lineage) values(id uint64, t *spec.TaskSpec, sp Span, fn func(coord.Coord, value.Value) error) error {
	hand := func(at coord.Coord) func(uint32, value.Value) error {
		return func(i uint32, v value.Value) error {
			if v.Kind == value.Hole {
				return nil
			}
			if t.Spawn != nil {
				return fn(at.Append(i), v)
			}
			return fn(at, v)
		}
	}
	if t.Spawn != nil {
		return l.r.Values(id, sp.Prefix, sp.Lo, sp.Hi+1, hand(sp.Prefix))
	}
	one := spanSet{dims: len(t.Context), spans: []Span{sp}}
	return one.each(func(c coord.Coord) error { return l.r.Values(id, c, 0, 1, hand(c)) })
}
