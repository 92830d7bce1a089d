package engine

import (
	"container/heap"

	"operon/engine/ticket"
	"operon/spec"
	"operon/spec/coord"
)

// queue holds the jobs of one task that may run, first in, first out: as
// ranges, since a million of them are often one. With an order, the jobs are
// compared by it first, and held one by one.
type queue struct {
	dims   int
	order  []spec.OrderKey
	ranges []ticket.Range // without an order; the first from head on
	head   int
	heap   priority // with an order
	size   int
	serial uint64
}

func newQueue(t *spec.TaskSpec) *queue {
	return &queue{dims: len(t.Context), order: t.Order, heap: priority{order: t.Order}}
}

// push adds a range of jobs behind those that are there.
func (q *queue) push(r ticket.Range) {
	q.size += r.Len()
	if len(q.order) > 0 {
		for i := r.Lo; i < r.Hi; i++ {
			q.serial++
			heap.Push(&q.heap, ready{ticket.At(q.dims, r.Prefix, i), q.serial})
		}
		return
	}
	if n := len(q.ranges) - 1; n >= q.head {
		if last := &q.ranges[n]; last.Hi == r.Lo && last.Prefix == r.Prefix {
			last.Hi = r.Hi
			return
		}
	}
	q.ranges = append(q.ranges, r)
}

// pop takes up to n jobs from the front.
func (q *queue) pop(n int) []coord.Coord {
	n = min(n, q.size)
	q.size -= n
	out := make([]coord.Coord, 0, n)
	if len(q.order) > 0 {
		for range n {
			out = append(out, heap.Pop(&q.heap).(ready).c)
		}
		return out
	}
	for len(out) < n {
		r := &q.ranges[q.head]
		for ; r.Lo < r.Hi && len(out) < n; r.Lo++ {
			out = append(out, ticket.At(q.dims, r.Prefix, r.Lo))
		}
		if r.Lo == r.Hi {
			q.ranges[q.head] = ticket.Range{}
			q.head++
		}
	}
	if q.head > 64 && q.head > len(q.ranges)/2 {
		q.ranges = append([]ticket.Range(nil), q.ranges[q.head:]...)
		q.head = 0
	}
	return out
}

// ready is one job in a queue with an order.
type ready struct {
	c      coord.Coord
	serial uint64
}

// priority is a heap of jobs, the next one first: by the order's dimensions,
// then by arrival.
type priority struct {
	order []spec.OrderKey
	jobs  []ready
}

func (p *priority) Len() int { return len(p.jobs) }

func (p *priority) Less(i, j int) bool {
	a, b := p.jobs[i], p.jobs[j]
	for _, k := range p.order {
		x, y := a.c.At(k.Position), b.c.At(k.Position)
		if x != y {
			return x < y != k.Descending
		}
	}
	return a.serial < b.serial
}

func (p *priority) Swap(i, j int) { p.jobs[i], p.jobs[j] = p.jobs[j], p.jobs[i] }

// Push is heap.Interface's.
func (p *priority) Push(x any) { p.jobs = append(p.jobs, x.(ready)) }

// Pop is heap.Interface's.
func (p *priority) Pop() any {
	last := p.jobs[len(p.jobs)-1]
	p.jobs = p.jobs[:len(p.jobs)-1]
	return last
}
