package worker

import (
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// steps are what a walk over a slice does with what it meets, in the order of the
// argument. nil: nothing.
type steps struct {
	// list is called for each list before what it holds, with its length, or
	// value.NoList for a hole in its place.
	list func(level int, n uint32)
	// hole is called for a hole in the place of a list, with the record of it.
	hole func(dataflow uint64, job coord.Coord) error
	// run is called for each innermost list with items: the entity's coordinates
	// index, with 0 to n−1 at pos. It may change index there.
	run func(index []uint32, pos int, n uint32) error
}

// walk goes over the slice that the job at c takes. Everybody who looks at slices
// comes through here, so that none has a shape of its own.
func (in *input) walk(r *storage.Reader, c coord.Coord, s steps) error {
	index := make([]uint32, len(in.from))
	for pos, from := range in.from {
		if from >= 0 {
			index[pos] = c.At(from)
		}
	}
	return in.walkList(r, 0, index, s)
}

// walkList goes over one list of a level, and all below it.
func (in *input) walkList(r *storage.Reader, level int, index []uint32, s steps) error {
	l := in.slice[level]
	dataflow, rec, err := in.length(r, l, index)
	if err != nil {
		return err
	}
	n := rec.Extent
	if rec.Hole {
		n = value.NoList
	}
	if s.list != nil {
		s.list(level, n)
	}
	switch {
	case rec.Hole && s.hole != nil:
		return s.hole(dataflow, rec.Coord)
	case rec.Hole:
		return nil
	case level == len(in.slice)-1:
		if s.run == nil || n == 0 {
			return nil
		}
		return s.run(index, l.pos, n)
	}
	for i := range n {
		index[l.pos] = i
		if err := in.walkList(r, level+1, index, s); err != nil {
			return err
		}
	}
	return nil
}

// length is the record that tells a list's length, and the dataflow that it
// lies in.
func (in *input) length(r *storage.Reader, l level, index []uint32) (uint64, storage.Record, error) {
	at := make([]uint32, len(l.prec))
	for k, p := range l.prec {
		at[k] = index[p]
	}
	dataflow, c, err := in.locate.find(l.spawner, coord.Of(at...))
	if err != nil {
		return 0, storage.Record{}, err
	}
	rec, ok, err := r.Record(dataflow, c)
	if err == nil && !ok {
		err = &storage.Damage{Instance: dataflow, Coord: c, Detail: "the record that tells a dimension's length is missing"}
	}
	return dataflow, rec, err
}

// items are the steps that hand every value of a slice to fn, holes included.
func (in *input) items(r *storage.Reader, fn func(value.Value)) steps {
	hand := func(_ uint32, v value.Value) error { fn(v); return nil }
	return in.runs(
		func(dataflow uint64, job coord.Coord, n uint32) error { return r.Values(dataflow, job, 0, n, hand) },
		func(at coord.Coord) error {
			v, err := in.at(r, at)
			if err == nil {
				fn(v)
			}
			return err
		})
}

// runs are the steps that meet every value of a slice: several with the first n
// items of a job, one with a value at a coordinate of the entity's dimensions. A
// hole in the place of a list is the one item of its job.
func (in *input) runs(several func(dataflow uint64, job coord.Coord, n uint32) error, one func(at coord.Coord) error) steps {
	return steps{
		hole: func(dataflow uint64, job coord.Coord) error { return several(dataflow, job, 1) },
		run: func(index []uint32, pos int, n uint32) error {
			if in.ref.Entity.Producer.Spawn != nil {
				// The innermost dimension is the spawned one: the list is a job's own.
				dataflow, job, err := in.locate.find(in.producer, coord.Of(index[:pos]...))
				if err != nil {
					return err
				}
				return several(dataflow, job, n)
			}
			for i := range n {
				index[pos] = i
				if err := one(coord.Of(index...)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
