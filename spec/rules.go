package spec

import (
	"cmp"
	"slices"
	"strings"
)

// The rules of well-formedness, numbered as in the language: 1 is declareOut, 2
// is checkCycles, 11 is nameArguments, and half of 10 is in linkContext and
// linkInput, which must refuse a name that stands twice before anything counts.
// 8 and 9 allow, and have nothing to check.

// checkShapes orders the dimensions and checks rules 4 to 7 and 10, for every
// task whose own names could be found.
func (l *loader) checkShapes() {
	l.orderDims()
	for _, t := range l.pipeline.Topo {
		d := l.drafts[t.Index]
		if d.broken {
			continue
		}
		l.checkClosed(d)
		for i, in := range d.In {
			if l.drafts[in.Entity.Producer.Index].broken {
				continue
			}
			at := d.inputs[i].at
			if l.checkSliceInDims(d, in, at) {
				l.checkNothingHangs(d, in, at)
				l.checkNoneStaysFixed(in, at)
				l.checkSliceOrder(d, i)
			}
		}
	}
}

// orderDims finds what each dimension depends on (rule 3), and with it the
// canonical order: fewer dependencies first, then by name. Both follow from the
// dimensions alone.
func (l *loader) orderDims() {
	p := l.pipeline
	for _, t := range p.Topo {
		if t.Spawn != nil {
			t.Spawn.Prec = closure(t.Context)
		}
	}
	slices.SortFunc(p.Dims, func(a, b *Dim) int {
		return cmp.Or(cmp.Compare(len(a.Prec), len(b.Prec)), cmp.Compare(a.Name, b.Name))
	})
	for i, d := range p.Dims {
		d.Index = i
	}
	for _, d := range p.Dims {
		canonical(d.Prec)
	}
	for _, t := range p.Topo {
		canonical(t.Context)
		if t.Out != nil {
			t.Out.Dims = slices.Clone(t.Context)
			if t.Spawn != nil {
				t.Out.Dims = append(t.Out.Dims, t.Spawn)
			}
		}
	}
	for _, t := range p.Topo {
		for _, in := range t.In {
			in.Free = nil
			for _, d := range in.Entity.Dims {
				if !in.Sliced(d) {
					in.Free = append(in.Free, d)
				}
			}
		}
	}
}

// closure is dims and all that they depend on. A context that rule 4 allows
// holds its own closure, so where it is many more than a context may have the
// rest is left out: rule 4 refuses the task already.
func closure(dims []*Dim) []*Dim {
	var out []*Dim
	add := func(d *Dim) {
		if len(out) < 2*maxDims && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	for _, d := range dims {
		add(d)
		for _, p := range d.Prec {
			add(p)
		}
	}
	return out
}

func canonical(dims []*Dim) {
	slices.SortFunc(dims, func(a, b *Dim) int { return cmp.Compare(a.Index, b.Index) })
}

// checkClosed checks rule 4: who iterates over a dimension iterates over what it
// depends on.
func (l *loader) checkClosed(d *draft) {
	for _, n := range d.dims {
		dim := l.pipeline.dims[n.text]
		var missing []string
		for _, p := range dim.Prec {
			if !slices.Contains(d.Context, p) {
				missing = append(missing, p.Name)
			}
		}
		if len(missing) > 0 {
			l.errorf(n.at, "context-closed", "add "+list(missing)+" to `for`",
				"iterating over `%s` needs %s too: `%s` has its own length for each", n.text, list(missing), n.text)
		}
	}
}

// checkSliceInDims checks rule 5: an entity is sliced over its own dimensions.
func (l *loader) checkSliceInDims(d *draft, in *Input, at *node) bool {
	ok := true
	for i, dim := range in.Slice {
		if slices.Contains(in.Entity.Dims, dim) {
			continue
		}
		ref, _ := ParseRef(at.text)
		start := ref.DimAt[i]
		has := "it has none"
		if names := in.Entity.DimNames(); len(names) > 0 {
			has = "it has " + list(names)
		}
		l.errorf(l.within(at, start, start+len(dim.Name)), "slice-dimension", "",
			"`%s` has no dimension `%s` to slice over; %s", in.Entity.Name, dim.Name, has)
		ok = false
	}
	return ok
}

// checkNothingHangs checks rule 6: every dimension of the entity is iterated
// over or sliced.
func (l *loader) checkNothingHangs(d *draft, in *Input, at *node) {
	var hanging []*Dim
	context := closure(d.Context) // what rule 4 asks for already need not be said again
	for _, dim := range in.Free {
		if !slices.Contains(context, dim) {
			hanging = append(hanging, dim)
		}
	}
	if len(hanging) == 0 {
		return
	}
	names := dimNames(hanging)
	sliced := slices.Concat(in.Slice, hanging)
	canonical(sliced)
	l.errorf(at.at, "hanging-dimension",
		"iterate over it (`for: "+forText(slices.Concat(d.Context, hanging))+"`) or take all of it (`"+in.Entity.Name+"<"+strings.Join(dimNames(sliced), ", ")+">`)",
		"`%s` has a value for each %s, and the task `%s` does not say which", in.Entity.Name, list(names), d.Name)
}

func forText(dims []*Dim) string {
	dims = slices.Clone(dims)
	canonical(dims)
	if len(dims) == 1 {
		return dims[0].Name
	}
	return "[" + strings.Join(dimNames(dims), ", ") + "]"
}

// checkNoneStaysFixed checks rule 7: no slicing over an outer dimension while an
// inner one that depends on it stays fixed.
func (l *loader) checkNoneStaysFixed(in *Input, at *node) {
	for _, outer := range in.Slice {
		for _, inner := range in.Free {
			if !inner.DependsOn(outer) {
				continue
			}
			sliced := append(slices.Clone(in.Slice), inner)
			canonical(sliced)
			l.errorf(at.at, "inner-dimension-fixed", "slice over both: `"+in.Entity.Name+"<"+strings.Join(dimNames(sliced), ", ")+">`",
				"the slice goes over all `%s` while `%s`, which has its own length for each, stays at one index", outer.Name, inner.Name)
			return
		}
	}
}

// checkSliceOrder checks the other half of rule 10: a slice names a dimension
// after those it depends on.
func (l *loader) checkSliceOrder(d *draft, i int) {
	in, written := d.In[i], d.inputs[i]
	for j, later := range in.Slice {
		for k, earlier := range in.Slice[:j] {
			if !earlier.DependsOn(later) {
				continue
			}
			start := written.ref.DimAt[k]
			sorted := slices.Clone(in.Slice)
			canonical(sorted)
			l.errorf(l.within(written.at, start, start+len(earlier.Name)), "slice-order", "write `"+in.Entity.Name+"<"+strings.Join(dimNames(sorted), ", ")+">`",
				"`%s` stands before `%s`, on which it depends: its length is not known before that index is", earlier.Name, later.Name)
			return
		}
	}
}
