package worker

import (
	"operon/spec/coord"
	"operon/storage"
)

// Upstream calls fn with what input n of the job of d at c is made of: runs of
// values of the input's entity, from one coordinate to another that differs from
// it in the last dimension alone, both included, in the order of the argument. A
// hole that stands for a list has no values. It stops with fn's error; those of
// the store are of Keys.Key. d.Runner is not needed.
func (d *Dataflow) Upstream(r *storage.Reader, c coord.Coord, n int, fn func(from, to coord.Coord) error) error {
	d.compile()
	in := &d.inputs[n]
	if len(in.slice) == 0 {
		at := c.Project(in.from)
		return fn(at, at)
	}
	return in.walk(r, c, steps{run: func(index []uint32, pos int, n uint32) error {
		if pos == len(index)-1 {
			job := coord.Of(index[:pos]...)
			return fn(job.Append(0), job.Append(n-1))
		}
		for i := range n { // neighbours in the list are none in the order of coordinates
			index[pos] = i
			at := coord.Of(index...)
			if err := fn(at, at); err != nil {
				return err
			}
		}
		return nil
	}})
}

// Pins is the part of a job's coordinate that input n depends on: jobs that agree
// on it take the same.
func (d *Dataflow) Pins(c coord.Coord, n int) coord.Coord {
	d.compile()
	return c.Project(d.inputs[n].pins)
}
