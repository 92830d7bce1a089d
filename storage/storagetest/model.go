package storagetest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// Model is what a store holds, in maps.
type Model struct {
	Commit    uint64 // number of the last batch
	Headers   map[uint64]storage.Header
	Records   map[Job]Output
	Failures  map[Job]storage.Failure
	Footprint *storage.Footprint
	Lists     map[uint64][]storage.Ref
	Released  map[uint64]bool // instances whose values were dropped
	Gone      map[uint64]bool // instances that were dropped
}

// Job names a job of an instance.
type Job struct {
	Instance uint64
	Coord    coord.Coord
}

// Output is a record and the values beside it; nil values were released.
type Output struct {
	Record storage.Record
	Values []value.Value
}

// NewModel is the model of a new store.
func NewModel() *Model {
	return &Model{
		Headers:  map[uint64]storage.Header{},
		Records:  map[Job]Output{},
		Failures: map[Job]storage.Failure{},
		Lists:    map[uint64][]storage.Ref{},
		Released: map[uint64]bool{},
		Gone:     map[uint64]bool{},
	}
}

// Clone is a copy that shares only what never changes.
func (m *Model) Clone() *Model {
	c := *m
	c.Headers = maps.Clone(m.Headers)
	c.Records = maps.Clone(m.Records)
	c.Failures = maps.Clone(m.Failures)
	c.Lists = maps.Clone(m.Lists)
	c.Released = maps.Clone(m.Released)
	c.Gone = maps.Clone(m.Gone)
	return &c
}

func (m *Model) putRecord(inst uint64, r storage.Record, values []value.Value) {
	if !m.Gone[inst] {
		m.Records[Job{inst, r.Coord}] = Output{Record: r, Values: values}
	}
}

func (m *Model) setState(inst uint64, state storage.State) {
	if h, ok := m.Headers[inst]; ok {
		h.State = state
		m.Headers[inst] = h
	}
}

func (m *Model) dropInstance(inst uint64) {
	m.Gone[inst] = true
	delete(m.Headers, inst)
	maps.DeleteFunc(m.Records, func(j Job, _ Output) bool { return j.Instance == inst })
	maps.DeleteFunc(m.Failures, func(j Job, _ storage.Failure) bool { return j.Instance == inst })
}

// jobs are the jobs of an instance under a prefix, in order.
func jobs[V any](of map[Job]V, inst uint64, prefix coord.Coord) []coord.Coord {
	var list []coord.Coord
	for j := range of {
		if j.Instance == inst && strings.HasPrefix(string(j.Coord), string(prefix)) {
			list = append(list, j.Coord)
		}
	}
	slices.Sort(list)
	return list
}

// errDiffers is that a store and a model are not the same.
var errDiffers = errors.New("differs from the model")

func differs(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errDiffers, fmt.Sprintf(format, args...))
}

// Differs reports whether an error says that a store holds something else than
// the model, and not that something could not be read.
func Differs(err error) bool { return errors.Is(err, errDiffers) }

// Compare returns the first thing in which a reader and a model differ, or the
// error that the reader met.
func (m *Model) Compare(r *storage.Reader) error {
	for _, part := range []func(*storage.Reader) error{m.compareHeaders, m.compareInstances, m.compareLists} {
		if err := part(r); err != nil {
			return err
		}
	}
	return nil
}

func (m *Model) compareHeaders(r *storage.Reader) error {
	p, ok, err := r.Footprint()
	if err != nil {
		return err
	}
	if ok != (m.Footprint != nil) || ok && !reflect.DeepEqual(p, *m.Footprint) {
		return differs("footprint %+v, want %+v", p, m.Footprint)
	}
	headers, err := r.Headers()
	if err != nil {
		return err
	}
	if len(headers) != len(m.Headers) {
		return differs("%d headers, want %d", len(headers), len(m.Headers))
	}
	for _, h := range headers {
		if !reflect.DeepEqual(h, m.Headers[h.ID]) {
			return differs("header %+v, want %+v", h, m.Headers[h.ID])
		}
	}
	return nil
}

// instances are all that the model has heard of.
func (m *Model) instances() []uint64 {
	all := map[uint64]bool{}
	for j := range m.Records {
		all[j.Instance] = true
	}
	for j := range m.Failures {
		all[j.Instance] = true
	}
	for inst := range m.Headers {
		all[inst] = true
	}
	for inst := range m.Gone {
		all[inst] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func (m *Model) compareInstances(r *storage.Reader) error {
	for _, inst := range m.instances() {
		if err := m.compareRecords(r, inst); err != nil {
			return err
		}
		if err := m.compareFailures(r, inst); err != nil {
			return err
		}
	}
	return nil
}

func (m *Model) compareRecords(r *storage.Reader, inst uint64) error {
	want := jobs(m.Records, inst, "")
	prefixes := map[coord.Coord]bool{"": true}
	if len(want) > 0 {
		prefixes[want[len(want)/2]] = true
	}
	for _, c := range want {
		if err := m.CompareJob(r, inst, c); err != nil {
			return err
		}
		for n := range c.Len() {
			prefixes[c.Prefix(n)] = true
		}
	}
	for prefix := range prefixes {
		var got []coord.Coord
		err := r.Records(inst, prefix, func(rec storage.Record) error {
			got = append(got, rec.Coord)
			if want := m.Records[Job{inst, rec.Coord}].Record; rec != want {
				return differs("record %+v, want %+v", rec, want)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if !slices.Equal(got, jobs(m.Records, inst, prefix)) {
			return differs("instance %d has the jobs %x under %x, want %x", inst, got, prefix, jobs(m.Records, inst, prefix))
		}
	}
	return nil
}

// CompareJob compares the record and values of one job.
func (m *Model) CompareJob(r *storage.Reader, inst uint64, c coord.Coord) error {
	rec, ok, err := r.Record(inst, c)
	if err != nil {
		return err
	}
	want, there := m.Records[Job{inst, c}]
	if there && !ok {
		return fmt.Errorf("%w: job %x: %w", errDiffers, c, storage.ErrNoRecord)
	}
	if ok != there || rec != want.Record {
		return differs("record of %x is %+v, want %+v", c, rec, want.Record)
	}
	if !there {
		if err := r.Values(inst, c, 0, 1, nil); !errors.Is(err, storage.ErrNoRecord) {
			return differs("values without a record: %v", err)
		}
		return nil
	}
	if want.Values == nil || m.Released[inst] {
		if err := r.Values(inst, c, 0, 1, nil); !errors.Is(err, storage.ErrReleased) {
			return differs("values that were released: %v", err)
		}
		return nil
	}
	n := uint32(len(want.Values))
	for _, span := range [][2]uint32{{0, n}, {0, 1 << 31}, {n / 2, n/2 + 1}, {n / 3, n / 2}, {n, n + 5}} {
		if err := compareValues(r, inst, c, span[0], span[1], want.Values); err != nil {
			return err
		}
	}
	return nil
}

// compareValues compares the values [lo, hi) of a job with all it has.
func compareValues(r *storage.Reader, inst uint64, c coord.Coord, lo, hi uint32, all []value.Value) error {
	next := lo
	err := r.Values(inst, c, lo, hi, func(i uint32, v value.Value) error {
		if i != next || !same(v, all[i]) {
			return differs("item %d of %x is %s, want %s", i, c, v.AppendJSON(nil), all[next].AppendJSON(nil))
		}
		next++
		return nil
	})
	if err != nil {
		return err
	}
	if want := min(hi, uint32(len(all))); next != max(want, lo) {
		return differs("items of %x from %d end at %d, want %d", c, lo, next, want)
	}
	return nil
}

// same compares values with what their digests leave out.
func same(a, b value.Value) bool {
	if a.Kind != value.File || b.Kind != value.File {
		return a.Kind == b.Kind && string(a.JSON) == string(b.JSON)
	}
	return a.Digest() == b.Digest() && a.File.Size == b.File.Size && a.File.Ref == b.File.Ref && (!a.File.Ref || a.File.Path == b.File.Path)
}

func (m *Model) compareFailures(r *storage.Reader, inst uint64) error {
	want := jobs(m.Failures, inst, "")
	var got []coord.Coord
	err := r.Failures(inst, func(f storage.Failure) error {
		got = append(got, f.Coord)
		one, ok, err := r.Failure(inst, f.Coord)
		if err != nil {
			return err
		}
		if w := m.Failures[Job{inst, f.Coord}]; !ok || !reflect.DeepEqual(f, w) || !reflect.DeepEqual(one, w) {
			return differs("failure %+v, want %+v", f, w)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		return differs("instance %d has the failures %x, want %x", inst, got, want)
	}
	return nil
}

func (m *Model) compareLists(r *storage.Reader) error {
	got := map[uint64][]storage.Ref{}
	last := uint64(0)
	err := r.Commits(0, func(commit uint64, jobs []storage.Ref) error {
		if commit <= last {
			return differs("commit %d after %d", commit, last)
		}
		last = commit
		got[commit] = jobs
		return nil
	})
	if err != nil {
		return err
	}
	if len(got) != len(m.Lists) {
		return differs("%d lists of commits, want %d", len(got), len(m.Lists))
	}
	byKey := func(a, b storage.Ref) int {
		if a.Instance != b.Instance {
			return int(a.Instance) - int(b.Instance)
		}
		return strings.Compare(string(a.Coord), string(b.Coord))
	}
	for commit, jobs := range got {
		a, b := slices.SortedFunc(slices.Values(jobs), byKey), slices.SortedFunc(slices.Values(m.Lists[commit]), byKey)
		if !slices.Equal(a, b) {
			return differs("commit %d lists %v, want %v", commit, a, b)
		}
	}
	return nil
}
