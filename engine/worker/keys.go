package worker

import (
	"errors"

	"operon/spec/coord"
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

// Keys reads what jobs take without running anything.
type Keys struct{ assembler }

// NewKeys makes one.
func NewKeys() *Keys { return &Keys{assembler{slices: newSlices(), trust: newTrust()}} }
