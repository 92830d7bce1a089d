package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"operon/engine/body"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// labels tell the items of lists apart by name. They follow from the values, so
// they are worked out when they are asked for: an edit of a `key` holds at once.
type labels struct {
	ctx   context.Context // of the filters
	p     *spec.Pipeline
	flows []uint64       // of each task: its dataflow, 0 if there is none
	by    []*body.Labels // of each dimension: nil if its items have none
}

// newLabels makes the labels of a pipeline's dimensions.
func newLabels(ctx context.Context, p *spec.Pipeline, flows []uint64) (*labels, error) {
	l := &labels{ctx: ctx, p: p, flows: flows, by: make([]*body.Labels, len(p.Dims))}
	for _, d := range p.Dims {
		var err error
		if l.by[d.Index], err = body.NewLabels(d.Spawner); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// labelsFor makes the labels of a pipeline over the dataflows of a state.
func labelsFor(ctx context.Context, p *spec.Pipeline, flows map[string]storage.Header) (*labels, error) {
	ids := make([]uint64, len(p.Tasks))
	for _, t := range p.Tasks {
		ids[t.Index] = flows[t.Name].ID
	}
	return newLabels(ctx, p, ids)
}

// any reports whether one of the dimensions has labels.
func (l *labels) any(dims []*spec.Dim) bool {
	return l != nil && slices.ContainsFunc(dims, func(d *spec.Dim) bool { return l.by[d.Index] != nil })
}

// of are the labels of a coordinate's indices, "" for those without; nil if
// there are none. What can't be read has no label: labels are for people.
func (l *labels) of(r *storage.Reader, dims []*spec.Dim, c coord.Coord) []string {
	if !l.any(dims) {
		return nil
	}
	out := make([]string, len(dims))
	some := false
	for n, d := range dims {
		if n == c.Len() {
			break // a list that is a hole
		}
		if l.by[d.Index] == nil {
			continue
		}
		list, ok := project(dims, c, d.Prec)
		if !ok {
			continue
		}
		i := c.At(n)
		err := r.Values(l.flows[d.Spawner.Index], list, i, i+1, func(_ uint32, v value.Value) (err error) {
			out[n], err = l.by[d.Index].Of(l.ctx, v)
			return err
		})
		if err != nil {
			out[n] = ""
		}
		some = some || out[n] != ""
	}
	if !some {
		return nil
	}
	return out
}

// labelsAt are the labels of a job's coordinate.
func (l *loop) labelsAt(t *spec.TaskSpec, c coord.Coord) (out []string) {
	if !l.labels.any(t.Context) {
		return nil
	}
	// What was put this turn is not seen yet; a job whose context rests on it has
	// not run.
	_ = l.commits.data.View(func(r *storage.Reader) error {
		out = l.labels.of(r, t.Context, c)
		return nil
	})
	return out
}

// project is what a coordinate of dims is on some of them; ok is false if it
// lacks one.
func project(dims []*spec.Dim, c coord.Coord, on []*spec.Dim) (out coord.Coord, ok bool) {
	for _, d := range on {
		n := slices.Index(dims, d)
		if n < 0 || n >= c.Len() {
			return "", false
		}
		out = out.Append(c.At(n))
	}
	return out, true
}

// LabelError is a label that names no item, or more than one.
type LabelError struct{ Dim, Label, Detail string }

// Error says which label, and what is the matter.
func (e *LabelError) Error() string {
	return fmt.Sprintf("no index of %s for @%s: %s", e.Dim, e.Label, e.Detail)
}

// bind makes indices of labels, given for some dimensions by name, beside the
// indices that are given as such.
func (l *labels) bind(r *storage.Reader, at coord.Binding, names map[string]string) (coord.Binding, error) {
	if len(names) == 0 {
		return at, nil
	}
	out := coord.Binding{}
	maps.Copy(out, at)
	for _, d := range l.p.Dims { // precedents come first
		name, given := names[d.Name]
		if !given {
			continue
		}
		i, err := l.find(r, d, out, name)
		if err != nil {
			return nil, err
		}
		out[d.Name] = i
	}
	for name := range names {
		if _, found := out[name]; !found {
			return nil, unknownDim(l.p, name)
		}
	}
	return out, nil
}

// bindLabels is bind over the dataflows of a state.
func bindLabels(ctx context.Context, r *storage.Reader, p *spec.Pipeline, flows map[string]storage.Header, at coord.Binding, names map[string]string) (coord.Binding, error) {
	if len(names) == 0 {
		return at, nil
	}
	l, err := labelsFor(ctx, p, flows)
	if err != nil {
		return nil, err
	}
	return l.bind(r, at, names)
}

func unknownDim(p *spec.Pipeline, name string) error {
	var known []string
	for _, d := range p.Dims {
		known = append(known, d.Name)
	}
	return &UnknownError{What: "dimension", Name: name, Nearest: spec.Nearest(name, known), Known: known}
}

// find is the index along d that has a label, in the list that at names.
func (l *labels) find(r *storage.Reader, d *spec.Dim, at coord.Binding, label string) (index uint32, err error) {
	bad := func(format string, args ...any) error {
		return &LabelError{Dim: d.Name, Label: label, Detail: fmt.Sprintf(format, args...)}
	}
	if l.by[d.Index] == nil {
		return 0, bad("its items have no labels; task %s gives them some with `key`", d.Spawner.Name)
	}
	list, ok := at.Full(dimNames(d.Prec))
	if !ok {
		return 0, bad("labels are told apart within one list only; say also which %s", strings.Join(dimNames(d.Prec), ", "))
	}
	var found []string
	rec, there, err := r.Record(l.flows[d.Spawner.Index], list)
	if err != nil {
		return 0, err
	}
	if !there {
		return 0, bad("task %s has not made the list yet", d.Spawner.Name)
	}
	err = r.Values(l.flows[d.Spawner.Index], list, 0, rec.Extent, func(i uint32, v value.Value) error {
		if got, err := l.by[d.Index].Of(l.ctx, v); err == nil && got == label {
			index = i
			found = append(found, strconv.FormatUint(uint64(i), 10))
		}
		return l.ctx.Err()
	})
	switch {
	case err != nil:
		return 0, err
	case len(found) == 0:
		return 0, bad("no item has that label")
	case len(found) > 1:
		return 0, bad("items %s have it", strings.Join(found, ", "))
	}
	return index, nil
}

func dimNames(dims []*spec.Dim) []string {
	out := make([]string, len(dims))
	for i, d := range dims {
		out[i] = d.Name
	}
	return out
}

// FormatAt prints a coordinate with the labels beside the indices that have
// some: "doc=17 (invoice-17),page=3".
func FormatAt(c coord.Coord, dims, labels []string) string {
	if len(labels) == 0 {
		return c.Format(dims)
	}
	var parts []string
	for n := range c.Len() {
		part := dims[n] + "=" + strconv.FormatUint(uint64(c.At(n)), 10)
		if n < len(labels) && labels[n] != "" {
			part += " (" + labels[n] + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}

// At is where the job is, with labels.
func (f *Failed) At() string { return FormatAt(f.Coord, f.Dims, f.Labels) }

// At is where the job is, with labels.
func (l *Log) At() string { return FormatAt(l.Coord, l.Dims, l.Labels) }
