package reference

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"operon/spec"
	"operon/spec/coord"
)

// Lengths says how long the list is that the spawner of a dimension returns at
// a coordinate of its context (indices in canonical order).
type Lengths func(dim string, at []uint32) uint32

// Values are what a pipeline ends with: for each entity its values by their
// coordinate of the entity's dimensions.
type Values map[string]map[coord.Coord]string

// Evaluate computes what a pipeline means: every task once for each coordinate
// of its context, every input bound by that coordinate, slices as nested lists
// in index order.
func Evaluate(p *spec.Pipeline, lengths Lengths) Values {
	return EvaluateHoles(p, lengths, func(string, []uint32) bool { return false })
}

// Hole is the value of a job that is a hole; a spawning one has it at the
// coordinate of the job.
const Hole = "(hole)"

// Holes says which jobs fail so that they are holes, by task and coordinate of
// its context. Others are holes because of what they take.
type Holes func(task string, at []uint32) bool

// EvaluateHoles computes what a pipeline means if some jobs are holes: a list
// that was to come from one has no items, and what is made of holes is one.
func EvaluateHoles(p *spec.Pipeline, lengths Lengths, holes Holes) Values {
	out := Values{}
	lengths = withHoles(p, lengths, out)
	for _, t := range p.Topo {
		out[t.Out.Name] = map[coord.Coord]string{}
		loop(t.Context, map[*spec.Dim]uint32{}, lengths, func(at map[*spec.Dim]uint32) {
			value := Job(t, at, lengths, out)
			c := Coord(t.Context, at)
			if value == Hole || holes(t.Name, c.Indices()) {
				out[t.Out.Name][c] = Hole
				return
			}
			if t.Spawn == nil {
				out[t.Out.Name][c] = value
				return
			}
			for i := range lengths(t.Spawn.Name, c.Indices()) {
				out[t.Out.Name][c.Append(i)] = ItemOf(value, i)
			}
		})
	}
	return out
}

// withHoles gives the lists of holes no items.
func withHoles(p *spec.Pipeline, lengths Lengths, have Values) Lengths {
	return func(dim string, at []uint32) uint32 {
		if have.holeAt(p.Dim(dim), coord.Of(at...)) {
			return 0
		}
		return lengths(dim, at)
	}
}

// holeAt reports whether the list along d at a coordinate of its precedents was
// to come from a hole.
func (v Values) holeAt(d *spec.Dim, c coord.Coord) bool { return v[d.Spawner.Out.Name][c] == Hole }

// Job is the value of the job of t at a coordinate of its context, Hole if it
// takes one. It asks have for the values that it takes, and panics if one is
// missing there.
func Job(t *spec.TaskSpec, at map[*spec.Dim]uint32, lengths Lengths, have Values) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s@%s", t.Name, Coord(t.Context, at).Format(t.ContextNames()))
	hole := false
	for _, in := range t.In {
		text := argument(in, 0, at, lengths, have)
		hole = hole || text == Hole || !in.HolesNull && strings.Contains(text, Hole)
		b.WriteByte(';')
		b.WriteString(strings.ReplaceAll(text, Hole, "null"))
	}
	if hole {
		return Hole
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:8])
}

// ItemOf is the value of item i of a job's list.
func ItemOf(value string, i uint32) string { return fmt.Sprintf("%s.%d", value, i) }

// argument is one argument: a value, or a nested list over the slice. Where a
// value or a list is a hole, it says so.
func argument(in *spec.Input, level int, at map[*spec.Dim]uint32, lengths Lengths, have Values) string {
	if level == len(in.Slice) {
		c := Coord(in.Entity.Dims, at)
		value, ok := have[in.Entity.Name][c]
		if !ok {
			panic(Missing{in.Entity.Name, c.Format(in.Entity.DimNames())})
		}
		return value
	}
	d := in.Slice[level]
	n := lengths(d.Name, Coord(d.Prec, at).Indices())
	if have.holeAt(d, Coord(d.Prec, at)) {
		return Hole
	}
	saved, bound := at[d]
	var b strings.Builder
	b.WriteByte('[')
	for i := range n {
		at[d] = i
		b.WriteString(argument(in, level+1, at, lengths, have))
		b.WriteByte(' ')
	}
	b.WriteByte(']')
	if bound {
		at[d] = saved
	} else {
		delete(at, d)
	}
	return b.String()
}

// Missing is what Job panics with: a value that is not there yet.
type Missing struct{ Entity, Coord string }

// loop calls fn for every coordinate of dims, which are in canonical order.
func loop(dims []*spec.Dim, at map[*spec.Dim]uint32, lengths Lengths, fn func(map[*spec.Dim]uint32)) {
	if len(dims) == 0 {
		fn(at)
		return
	}
	d := dims[0]
	for i := range lengths(d.Name, Coord(d.Prec, at).Indices()) {
		at[d] = i
		loop(dims[1:], at, lengths, fn)
	}
	delete(at, d)
}

// Coord is the coordinate of dims that at binds.
func Coord(dims []*spec.Dim, at map[*spec.Dim]uint32) coord.Coord {
	indices := make([]uint32, len(dims))
	for n, d := range dims {
		indices[n] = at[d]
	}
	return coord.Of(indices...)
}

// Bind is the binding that a coordinate of dims stands for.
func Bind(dims []*spec.Dim, c coord.Coord) map[*spec.Dim]uint32 {
	at := map[*spec.Dim]uint32{}
	for n, d := range dims {
		at[d] = c.At(n)
	}
	return at
}
