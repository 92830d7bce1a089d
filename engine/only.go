package engine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"operon/engine/ticket"
	"operon/spec"
	"operon/spec/coord"
	"operon/storage"
)

// selection is which coordinates a run is asked for: of some dimensions a few
// indices, of the others all. nil is everything.
type selection struct {
	p       *spec.Pipeline
	choices map[*spec.Dim]*choice
}

// choice is which indices of a dimension.
type choice struct {
	first   uint32 // these many from 0 on
	indices map[uint32]bool
	labels  map[string]bool
}

// newSelection reads Only and Sample.
func newSelection(p *spec.Pipeline, only map[string][]string, sample map[string]int) (*selection, error) {
	if len(only) == 0 && len(sample) == 0 {
		return nil, nil
	}
	s := &selection{p: p, choices: map[*spec.Dim]*choice{}}
	for _, name := range slices.Sorted(maps.Keys(only)) {
		d := p.Dim(name)
		if d == nil {
			return nil, unknownDim(p, name)
		}
		for _, text := range only[name] {
			if err := s.add(d, text); err != nil {
				return nil, err
			}
		}
	}
	for name, n := range sample {
		d := p.Dim(name)
		if d == nil && name != "" {
			return nil, unknownDim(p, name)
		}
		if n < 1 || int64(n) >= coord.MaxExtent {
			return nil, &UnknownError{What: "sample size", Name: strconv.Itoa(n), Known: []string{"1 and more"}}
		}
		for _, x := range p.Dims {
			if x == d || d == nil && len(x.Prec) == 0 {
				s.of(x).first = uint32(n)
			}
		}
	}
	return s, nil
}

func (s *selection) of(d *spec.Dim) *choice {
	if s.choices[d] == nil {
		s.choices[d] = &choice{indices: map[uint32]bool{}, labels: map[string]bool{}}
	}
	return s.choices[d]
}

// add adds an index, or a label with an @ before it.
func (s *selection) add(d *spec.Dim, text string) error {
	if label, ok := strings.CutPrefix(text, "@"); ok {
		s.of(d).labels[label] = true
		return nil
	}
	i, err := strconv.ParseUint(text, 10, 32)
	if err != nil || i >= coord.MaxExtent {
		return &UnknownError{What: "coordinate", Name: d.Name + "=" + text, Known: []string{"indices from 0 on", "labels as @label"}}
	}
	s.of(d).indices[uint32(i)] = true
	return nil
}

// concerns reports whether jobs over these dimensions may be left out.
func (s *selection) concerns(dims []*spec.Dim) bool {
	return s != nil && slices.ContainsFunc(dims, func(d *spec.Dim) bool { return s.choices[d] != nil })
}

// labelled reports whether it takes labels to know which jobs are asked for.
func (s *selection) labelled(dims []*spec.Dim) bool {
	return slices.ContainsFunc(dims, func(d *spec.Dim) bool { return s.choices[d] != nil && len(s.choices[d].labels) > 0 })
}

// has reports whether a coordinate of dims is asked for, as far as its indices
// are known. labels are those of the indices, where they matter.
func (s *selection) has(dims []*spec.Dim, c coord.Coord, labels func() []string) bool {
	if s == nil {
		return true
	}
	for n, d := range dims {
		ch := s.choices[d]
		i := c.At(n)
		switch {
		case ch == nil || i == coord.MaxExtent || i < ch.first || ch.indices[i]:
			continue
		case len(ch.labels) == 0:
			return false
		}
		if names := labels(); n >= len(names) || !ch.labels[names[n]] {
			return false
		}
	}
	return true
}

// selected reports whether the run is asked for a job.
func (l *loop) selected(t *spec.TaskSpec, c coord.Coord) bool {
	return l.only.has(t.Context, c, func() []string { return l.labelsAt(t, c) })
}

// choose splits a range of jobs into those that are asked for; the others stay
// as they are.
func (l *loop) choose(f *flow, r ticket.Range) []ticket.Range {
	if !l.only.concerns(f.task.Context) {
		return []ticket.Range{r}
	}
	if l.puts > 0 && l.only.labelled(f.task.Context) {
		l.commit(false) // labels are read from the store, which may not have the list yet
	}
	var out []ticket.Range
	for i := r.Lo; i < r.Hi; i++ {
		if !l.selected(f.task, ticket.At(len(f.task.Context), r.Prefix, i)) {
			f.skipped++
			continue
		}
		if n := len(out) - 1; n >= 0 && out[n].Hi == i {
			out[n].Hi++
			continue
		}
		out = append(out, ticket.Range{Task: r.Task, Prefix: r.Prefix, Lo: i, Hi: i + 1, Hole: r.Hole})
	}
	return out
}

// leftOut are the tasks with jobs that were asked for and could not run, because
// they take what was not: they would have been partial.
func (l *loop) leftOut() (out []string) {
	if l.only == nil {
		return nil
	}
	for n, f := range l.flows {
		found := false
		if f.wanted {
			l.table.EachWaiting(n, func(c coord.Coord) { found = found || l.selected(f.task, c) })
		}
		if found {
			out = append(out, f.task.Name)
		}
	}
	return out
}

// missing is the error that a coordinate was asked for which is not there. It
// looks at the lists that roots have made: others differ from place to place.
func (l *loop) missing() error {
	if l.only == nil {
		return nil
	}
	for _, d := range l.p.Dims {
		ch := l.only.choices[d]
		if ch == nil || len(d.Prec) > 0 {
			continue
		}
		n, known := l.table.Extent(d.Index, "")
		if !known {
			continue
		}
		for _, i := range slices.Sorted(maps.Keys(ch.indices)) {
			if i >= n {
				return &UnknownError{What: "coordinate", Name: fmt.Sprintf("%s=%d", d.Name, i), Known: []string{fmt.Sprintf("%d on %s", n, d.Name)}}
			}
		}
		for _, label := range slices.Sorted(maps.Keys(ch.labels)) {
			err := l.commits.data.View(func(r *storage.Reader) error {
				_, err := l.labels.find(r, d, coord.Binding{}, label)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// goOn takes over the coordinates that the run which is gone on with was asked
// for, if this one is asked for nothing else.
func (e *Engine) goOn() {
	if len(e.o.Only)+len(e.o.Sample)+len(e.o.Until) > 0 || !e.stores.found || RunState(e.stores.last.State) == StateComplete {
		return
	}
	last := decodeAsked(e.stores.last.Asked)
	if s, err := newSelection(e.p, last.Only, last.Sample); s == nil || err != nil {
		return // nothing, or what the pipeline does not have any more
	}
	e.mu.Lock()
	e.o.Only, e.o.Sample = last.Only, last.Sample
	e.mu.Unlock()
	e.note("going on with the coordinates that the last run was asked for: " + selectionText(last.Only, last.Sample))
}

// selectionText is what a person has asked for.
func selectionText(only map[string][]string, sample map[string]int) string {
	var parts []string
	for _, d := range slices.Sorted(maps.Keys(only)) {
		for _, text := range only[d] {
			parts = append(parts, d+"="+text)
		}
	}
	for _, d := range slices.Sorted(maps.Keys(sample)) {
		if d == "" {
			parts = append(parts, fmt.Sprintf("the first %d of each list", sample[d]))
		} else {
			parts = append(parts, fmt.Sprintf("the first %d of %s", sample[d], d))
		}
	}
	return strings.Join(parts, ", ")
}

// answered is what a run was asked for when that is done: a later one is not to
// go on with it.
func (a asked) answered() asked {
	a.Only, a.Sample = nil, nil
	return a
}
