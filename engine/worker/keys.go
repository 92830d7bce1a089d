package worker

import (
	"errors"

	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// Locate says where the record of a dataflow's job lies: in which dataflow, at
// which coordinate. ok is false if it is not known yet. It lets keys be computed
// of a run that has not happened.
type Locate func(dataflow uint64, job coord.Coord) (at uint64, c coord.Coord, ok bool)

// ErrNotLocated is an input that is not known yet.
var ErrNotLocated = errors.New("the record is not known yet")

func (l Locate) find(dataflow uint64, job coord.Coord) (uint64, coord.Coord, error) {
	if l == nil {
		return dataflow, job, nil
	}
	at, c, ok := l(dataflow, job)
	if !ok {
		return 0, "", ErrNotLocated
	}
	return at, c, nil
}

// Keys computes job keys without running anything.
type Keys struct{ assembler }

// NewKeys makes one.
func NewKeys() *Keys { return &Keys{assembler{slices: newSlices()}} }

// Key is the key of the job of d at c, from its inputs as they lie in the store
// now. An input that d.Locate does not know is ErrNotLocated; one that can't be
// read is a *storage.Damage.
func (k *Keys) Key(r *storage.Reader, d *Dataflow, c coord.Coord) (value.Digest, error) {
	if d.inputs == nil {
		d.compile()
	}
	in, err := k.assemble(r, d, c)
	if err != nil {
		return value.Digest{}, err
	}
	return spec.JobKey(d.Task, in.digests, c, d.Content), nil
}

// Inputs are the digests of what the job of d at c takes, in declared order. The
// errors are those of Key.
func (k *Keys) Inputs(r *storage.Reader, d *Dataflow, c coord.Coord) ([]value.Digest, error) {
	if d.inputs == nil {
		d.compile()
	}
	in, err := k.assemble(r, d, c)
	return in.digests, err
}
