package storage

import (
	"operon/spec/coord"
)

// Batch is a list of changes that become durable together, in the order of the
// calls. The zero Batch is empty. Once submitted, it is the store's.
type Batch struct {
	// Applied is the number of the last commit that metadata holds: the lists
	// of jobs of the commits up to it may go. 0: nothing new is known of that.
	Applied uint64
	// Urgent says that somebody waits for the commit.
	Urgent bool
	// Done, if not nil, is called by the writer once the batch is durable, with
	// its number, or with the error that it is not. It must not wait for a
	// commit.
	Done func(commit uint64, err error)

	ops []op
}

type opKind uint8

const (
	opHeader opKind = iota
	opState
	opFootprint
	opRecord
	opDropRecord
	opFailure
	opDropFailure
	opDropValues
	opDropInstance
)

// op is one change. Which fields it uses, its kind says.
type op struct {
	kind      opKind
	state     State
	inst      uint64
	coord     coord.Coord
	record    *storedRecord
	output    *Output
	failure   *Failure
	header    *Header
	footprint *Footprint
}

// Len is the number of changes.
func (b *Batch) Len() int { return len(b.ops) }

// PutHeader puts the header of an instance, in the place of an earlier one.
func (b *Batch) PutHeader(h Header) {
	b.ops = append(b.ops, op{kind: opHeader, inst: h.ID, header: &h})
}

// SetState changes the state in the header of an instance.
func (b *Batch) SetState(inst uint64, state State) {
	b.ops = append(b.ops, op{kind: opState, inst: inst, state: state})
}

// PutFootprint puts the store's copy of the footprint.
func (b *Batch) PutFootprint(p Footprint) {
	b.ops = append(b.ops, op{kind: opFootprint, footprint: &p})
}

// PutRecord puts the record of a job and its output, in the place of earlier
// ones. Digest, Extent, Spawning and Hole are taken from the output. Without an
// output (nil) the record is one whose values were released. What is put under
// an instance that was dropped is ignored: a job may end after its dataflow did.
//
// An output may be put several times, in one batch.
func (b *Batch) PutRecord(inst uint64, r Record, o *Output) {
	stored := &storedRecord{Record: r}
	if o != nil {
		stored.flags = o.flags()
		stored.Digest, stored.Spawning, stored.Hole, stored.Extent = o.digest, o.spawning, o.hole, 0
		if o.spawning && !o.hole {
			stored.Extent = o.items
		}
		stored.inline, stored.chunks = o.inline, uint32(len(o.chunks))
	} else {
		stored.flags = releasedFlags(r)
	}
	b.ops = append(b.ops, op{kind: opRecord, inst: inst, coord: r.Coord, record: stored, output: o})
}

// DropRecord removes the record of a job, if there is one, and its output, also
// where they are damaged.
func (b *Batch) DropRecord(inst uint64, c coord.Coord) {
	b.ops = append(b.ops, op{kind: opDropRecord, inst: inst, coord: c})
}

// PutFailure puts the failure of a job, in the place of an earlier one.
func (b *Batch) PutFailure(inst uint64, f Failure) {
	b.ops = append(b.ops, op{kind: opFailure, inst: inst, coord: f.Coord, failure: &f})
}

// DropFailure removes the failure of a job, if there is one.
func (b *Batch) DropFailure(inst uint64, c coord.Coord) {
	b.ops = append(b.ops, op{kind: opDropFailure, inst: inst, coord: c})
}

// DropValues removes all values of an instance and leaves its records; the
// header's state becomes Released with it. Readers get ErrReleased from the
// submission on; the space is given back in steps.
func (b *Batch) DropValues(inst uint64) {
	b.ops = append(b.ops, op{kind: opDropValues, inst: inst})
}

// DropInstance removes an instance: header, records, values, failures. Readers
// do not see it from the submission on; the space is given back in steps.
func (b *Batch) DropInstance(inst uint64) {
	b.ops = append(b.ops, op{kind: opDropInstance, inst: inst})
}
