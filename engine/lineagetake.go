package engine

import (
	"context"
	"errors"
	"slices"

	"operon/engine/worker"
	"operon/spec"
	"operon/spec/coord"
	"operon/storage"
)

// collector finds what jobs of one task take.
type collector struct {
	flow     *worker.Dataflow
	takes    []LineageTake
	entities []*spec.Entity
	sets     []*spanSet
	seen     []map[coord.Coord]bool // of each slice: free coordinates that were looked at
	over     []overDim
}

// overDim is a dimension that a task runs over and takes nothing along: its
// jobs are there because a list is long enough.
type overDim struct {
	entity *spec.Entity
	from   []int // positions in the task's context of the entity's dimensions
}

func newCollector(t *spec.TaskSpec, flow *worker.Dataflow) *collector {
	c := &collector{flow: flow}
	for _, in := range t.In {
		c.expect(in.Entity, LineageTake{Ref: in.String()})
		var seen map[coord.Coord]bool
		if len(in.Slice) > 0 {
			seen = map[coord.Coord]bool{}
		}
		c.seen = append(c.seen, seen)
	}
	for _, d := range t.Context {
		if !indexed(t, d) {
			c.over = append(c.over, overOf(t, d))
			c.expect(d.Spawner.Out, LineageTake{Ref: d.Name, Over: true})
		}
	}
	return c
}

func (c *collector) expect(e *spec.Entity, take LineageTake) {
	take.Entity, take.Dims = e.Name, e.DimNames()
	c.takes = append(c.takes, take)
	c.entities = append(c.entities, e)
	c.sets = append(c.sets, &spanSet{dims: len(e.Dims)})
}

// indexed reports whether something else that a job takes lies at the job's index
// along d, and so leads back to d's list by itself.
func indexed(t *spec.TaskSpec, d *spec.Dim) bool {
	for _, in := range t.In {
		if slices.Contains(in.Free, d) {
			return true
		}
	}
	for _, x := range t.Context {
		if x.DependsOn(d) {
			return true
		}
	}
	return false
}

func overOf(t *spec.TaskSpec, d *spec.Dim) overDim {
	here := map[*spec.Dim]int{}
	for i, x := range t.Context {
		here[x] = i
	}
	o := overDim{entity: d.Spawner.Out}
	for _, x := range o.entity.Dims {
		o.from = append(o.from, here[x])
	}
	return o
}

// job adds what the job at c takes.
func (c *collector) job(r *storage.Reader, at coord.Coord) error {
	for n, seen := range c.seen {
		if seen != nil {
			pins := c.flow.Pins(at, n)
			if seen[pins] {
				continue
			}
			seen[pins] = true
		}
		err := c.flow.Upstream(r, at, n, func(from, to coord.Coord) error {
			c.sets[n].add(spanOf(from, to))
			return nil
		})
		if err != nil {
			return err
		}
	}
	for n, o := range c.over {
		index := at.Project(o.from)
		c.sets[len(c.seen)+n].add(spanOf(index, index))
	}
	return nil
}

// errTouched ends a look at an input that has been found to touch a set.
var errTouched = errors.New("touched")

// down goes from the first task that takes of the entity to the last.
func (l *lineage) down(e *spec.Entity, fn func(*LineageStep) error) error {
	for _, t := range l.p.Topo {
		var step *LineageStep
		var err error
		if t == e.Producer {
			if step, err = l.step(t, l.sets[e]); err != nil {
				return err
			}
			err = l.jobs(t, l.sets[e], func(coord.Coord) error { step.Jobs++; return nil })
		} else {
			step, err = l.made(t)
		}
		if err != nil {
			return err
		}
		if step == nil {
			continue
		}
		if err := fn(step); err != nil {
			return err
		}
	}
	return nil
}

// made is what a task made from the values so far, nil for nothing.
func (l *lineage) made(t *spec.TaskSpec) (*LineageStep, error) {
	reach := newReach(l, t)
	if reach == nil {
		return nil, nil
	}
	set := &spanSet{dims: len(t.Out.Dims)}
	jobs := int64(0)
	err := l.r.Records(l.headers[t.Index].ID, "", func(rec storage.Record) error {
		if l.ctx.Err() != nil {
			return context.Cause(l.ctx)
		}
		hit, err := reach.job(l.r, rec.Coord)
		if err != nil || !hit {
			return err
		}
		jobs++
		if made, ok := madeBy(t.Out, rec); ok {
			set.add(made)
		}
		return nil
	})
	if err != nil || jobs == 0 {
		return nil, err
	}
	set.seal()
	l.sets[t.Out] = set
	step, err := l.step(t, set)
	if err != nil {
		return nil, err
	}
	step.Jobs = jobs
	for n, take := range reach.takes {
		if reach.hit[n] {
			step.Takes = append(step.Takes, take)
		}
	}
	return step, nil
}

// reach tells which jobs of a task take of the values so far.
type reach struct {
	*collector
	known []map[coord.Coord]bool // of each slice: whether the free coordinate touches
	want  []*spanSet             // of each take; nil: nothing of that entity
	hit   []bool                 // takes through which something came
}

// newReach is nil if the task takes of nothing so far.
func newReach(l *lineage, t *spec.TaskSpec) *reach {
	c := newCollector(t, l.flows[t.Index])
	w := &reach{collector: c, known: c.seen, hit: make([]bool, len(c.takes))}
	some := false
	for _, e := range c.entities {
		w.want = append(w.want, l.sets[e])
		some = some || l.sets[e] != nil
	}
	if !some {
		return nil
	}
	return w
}

// job reports whether the job at c takes of the values so far.
func (w *reach) job(r *storage.Reader, at coord.Coord) (bool, error) {
	any := false
	for n, want := range w.want {
		if want == nil {
			continue
		}
		hit, err := w.input(r, at, n, want)
		if err != nil {
			return false, err
		}
		w.hit[n] = w.hit[n] || hit
		any = any || hit
	}
	return any, nil
}

func (w *reach) input(r *storage.Reader, at coord.Coord, n int, want *spanSet) (bool, error) {
	if over := n - len(w.seen); over >= 0 {
		index := at.Project(w.over[over].from)
		return want.touches(spanOf(index, index)), nil
	}
	known, pins := w.known[n], coord.Coord("")
	if known != nil {
		pins = w.flow.Pins(at, n)
		if hit, ok := known[pins]; ok {
			return hit, nil
		}
	}
	err := w.flow.Upstream(r, at, n, func(from, to coord.Coord) error {
		if want.touches(spanOf(from, to)) {
			return errTouched
		}
		return nil
	})
	hit := errors.Is(err, errTouched)
	if hit {
		err = nil
	}
	if known != nil {
		known[pins] = hit
	}
	return hit, err
}
