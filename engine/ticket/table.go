package ticket

import (
	"operon/spec"
	"operon/spec/coord"
)

// Table is the state of all tickets of one pipeline.
type Table struct {
	p       *spec.Pipeline
	tasks   []*task // as Pipeline.Tasks
	dims    []*dim  // as Pipeline.Dims
	watch   map[extent][]*share
	out     []Range // promoted by the event under way
	dirty   dirty
	holed   bool   // there are holes: without any, nobody need look for them
	updates uint64 // share counters changed, for tests of cost
	rules   rules
}

// extent names one length: of a dimension, at a coordinate of its precedents.
type extent struct {
	dim int
	at  coord.Coord
}

// dim is a dimension as the table sees it.
type dim struct {
	spec    *spec.Dim
	index   int
	spawner *task
	over    []*task // tasks with the dimension in their context
}

// task is one task's tickets.
type task struct {
	spec      *spec.TaskSpec
	index     int
	ctx       []*dim
	prec      [][]int // of each context dimension: its precedents' positions in ctx, canonical order
	inner     []bool  // of each context dimension: whether another of the context depends on it
	refs      []*ref  // its inputs
	consumers []*ref  // inputs of other tasks that take its entity
	rows      map[coord.Coord]*row
	counts    Counts
}

// ref is one input of a task.
type ref struct {
	task  *task // the consumer
	index int   // position in its inputs
	up    *task // the producer
	// pins are the producer's context dimensions that are not sliced: their
	// positions in the producer's context and in the consumer's.
	pinsUp, pinsHere []int
	sliced           []bool     // of each of the producer's context dimensions
	slice            []sliceDim // written order; empty: the reference slices nothing
	holesNull        bool       // holes in the slice are passed on as nulls
	shares           map[coord.Coord]*share
}

// sliceDim is one dimension of a slice: where the indices of its precedents
// come from, in canonical order.
type sliceDim struct {
	dim  *dim
	from []source
}

// source is a precedent's index: of the pins, or of an earlier slice dimension.
type source struct {
	pin bool
	pos int
}

// New makes the tables of a pipeline at its start: one ticket a task, with all
// slots unresolved. Runnable are the tickets that may run at once.
func New(p *spec.Pipeline) (t *Table, runnable []Range) {
	return newTable(p, rules{})
}

func newTable(p *spec.Pipeline, r rules) (*Table, []Range) {
	t := &Table{p: p, watch: map[extent][]*share{}, rules: r}
	for i, s := range p.Tasks {
		t.tasks = append(t.tasks, &task{
			spec: s, index: i, rows: map[coord.Coord]*row{},
			counts: Counts{Tickets: 1},
		})
	}
	for i, d := range p.Dims {
		t.dims = append(t.dims, &dim{spec: d, index: i, spawner: t.tasks[d.Spawner.Index]})
	}
	for _, tk := range t.tasks {
		t.compileContext(tk)
	}
	for _, tk := range t.tasks {
		for i, in := range tk.spec.In {
			t.compileRef(tk, i, in)
		}
	}
	for _, tk := range t.tasks {
		t.each(tk, binding{}, func(prefix coord.Coord, lo, hi uint32) { t.promote(tk, prefix, lo, hi) })
	}
	return t, t.take()
}

func (t *Table) compileContext(tk *task) {
	position := map[*spec.Dim]int{}
	for i, d := range tk.spec.Context {
		position[d] = i
		tk.ctx = append(tk.ctx, t.dims[d.Index])
		t.dims[d.Index].over = append(t.dims[d.Index].over, tk)
	}
	tk.inner = make([]bool, len(tk.ctx))
	for _, d := range tk.spec.Context {
		var prec []int
		for _, p := range d.Prec {
			prec = append(prec, position[p])
			tk.inner[position[p]] = true
		}
		tk.prec = append(tk.prec, prec)
	}
}

func (t *Table) compileRef(tk *task, index int, in *spec.Input) {
	r := &ref{task: tk, index: index, up: t.tasks[in.Entity.Producer.Index], holesNull: in.HolesNull}
	here := map[*spec.Dim]int{}
	for i, d := range tk.spec.Context {
		here[d] = i
	}
	pinAt := map[*spec.Dim]int{}
	for i, d := range r.up.spec.Context {
		r.sliced = append(r.sliced, in.Sliced(d))
		if !in.Sliced(d) {
			pinAt[d] = len(r.pinsUp)
			r.pinsUp = append(r.pinsUp, i)
			r.pinsHere = append(r.pinsHere, here[d])
		}
	}
	sliceAt := map[*spec.Dim]int{}
	for i, d := range in.Slice {
		sd := sliceDim{dim: t.dims[d.Index]}
		for _, p := range d.Prec {
			if at, ok := sliceAt[p]; ok {
				sd.from = append(sd.from, source{pos: at})
			} else {
				sd.from = append(sd.from, source{pin: true, pos: pinAt[p]})
			}
		}
		r.slice = append(r.slice, sd)
		sliceAt[d] = i
	}
	if len(r.slice) > 0 {
		r.shares = map[coord.Coord]*share{}
	}
	tk.refs = append(tk.refs, r)
	r.up.consumers = append(r.up.consumers, r)
}

// Counts are the tickets of a task, by its index in the pipeline.
func (t *Table) Counts(task int) Counts { return t.tasks[task].counts }

// Complete reports whether every ticket of every task is done or a hole.
func (t *Table) Complete() bool {
	for _, tk := range t.tasks {
		if !tk.counts.Complete() {
			return false
		}
	}
	return true
}

// Status is what the ticket at c of a task is in: Waiting, Queued, Done, Failed
// or Hole. A coordinate that does not exist (yet) is Waiting.
func (t *Table) Status(task int, c coord.Coord) Status {
	tk := t.tasks[task]
	prefix, last := tk.split(c)
	r := tk.rows[prefix]
	switch {
	case r == nil || last >= r.n || !r.promoted.has(last):
		return Waiting
	case r.done.has(last):
		return Done
	case r.failed.has(last):
		return Failed
	case r.holes.has(last):
		return Hole
	}
	return Queued
}

// Extent is the length of a dimension at a coordinate of its precedents, and
// whether it is known.
func (t *Table) Extent(dim int, at coord.Coord) (n uint32, known bool) {
	d := t.dims[dim]
	prefix, last := d.spawner.split(at)
	return d.spawner.rows[prefix].extent(last)
}

func (t *Table) take() []Range {
	out := t.out
	t.out = nil
	return out
}

// split takes a coordinate of the context apart: the row it lies in, and its
// place there.
func (tk *task) split(c coord.Coord) (prefix coord.Coord, last uint32) {
	n := len(tk.ctx)
	if n == 0 {
		return "", 0
	}
	return c.Prefix(n - 1), c.At(n - 1)
}

// At is the coordinate of the ticket at index i of a row of a task whose context
// has dims dimensions.
func At(dims int, prefix coord.Coord, i uint32) coord.Coord {
	if dims == 0 {
		return ""
	}
	return prefix.Append(i)
}
