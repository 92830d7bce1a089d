package worker

import (
	"fmt"

	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// digestsKept bounds the digests of slices that a Verifier keeps.
const digestsKept = 64 << 10

// Verifier computes job keys without running anything. It holds no slice, however
// long, and no value, only digests. It must not be used by two goroutines at once.
type Verifier struct {
	digests map[sliceKey]value.Digest // of what several jobs take
	sum     value.Identities
	stop    func() error
}

// NewVerifier makes one. stop, if not nil, is called now and then while something
// large is read, and ends that with its error.
func NewVerifier(stop func() error) *Verifier {
	if stop == nil {
		stop = func() error { return nil }
	}
	return &Verifier{digests: map[sliceKey]value.Digest{}, stop: stop}
}

// Key is the key of the job of d at c, from its inputs as they lie in the store
// now. An input that d.Locate does not know is ErrNotLocated; one that can't be
// read is a *storage.Damage.
func (v *Verifier) Key(r *storage.Reader, d *Dataflow, c coord.Coord) (value.Digest, error) {
	var room [8]value.Digest
	digests, err := v.inputs(room[:0], r, d, c)
	if err != nil {
		return value.Digest{}, err
	}
	return spec.JobKey(d.Task, digests, c, d.Content), nil
}

// Inputs are the digests of what the job of d at c takes, in declared order. The
// errors are those of Key.
func (v *Verifier) Inputs(r *storage.Reader, d *Dataflow, c coord.Coord) ([]value.Digest, error) {
	return v.inputs(nil, r, d, c)
}

func (v *Verifier) inputs(digests []value.Digest, r *storage.Reader, d *Dataflow, c coord.Coord) ([]value.Digest, error) {
	d.compile()
	for n := range d.inputs {
		digest, err := v.input(r, d, n, c)
		if err != nil {
			return nil, fmt.Errorf("read input %s of task %s: %w", d.inputs[n].ref, d.Task.Name, err)
		}
		digests = append(digests, digest)
	}
	return digests, nil
}

func (v *Verifier) input(r *storage.Reader, d *Dataflow, n int, c coord.Coord) (value.Digest, error) {
	in := &d.inputs[n]
	if len(in.slice) == 0 && len(in.pins) == len(d.Task.Context) {
		return v.single(r, in, c.Project(in.from))
	}
	key := sliceKey{d.ID, in.ref.Arg, c.Project(in.pins)}
	if digest, ok := v.digests[key]; ok {
		return digest, nil
	}
	var digest value.Digest
	var err error
	if len(in.slice) == 0 {
		digest, err = v.single(r, in, c.Project(in.from))
	} else {
		digest, err = v.slice(r, in, c)
	}
	if err != nil {
		return digest, err
	}
	if len(v.digests) >= digestsKept {
		clear(v.digests)
	}
	v.digests[key] = digest
	return digest, nil
}

// single is the digest of an entity's value at a coordinate of its dimensions.
func (v *Verifier) single(r *storage.Reader, in *input, c coord.Coord) (value.Digest, error) {
	dataflow, job, item, err := in.place(c)
	if err != nil {
		return value.Digest{}, err
	}
	digest, found, err := r.ItemDigest(dataflow, job, item, v.stop)
	if err == nil && !found {
		err = itemMissing(dataflow, job, item)
	}
	return digest, err
}

// slice is the digest of the slice that the job at c takes: first its shape is
// walked, then its values, so that neither has to wait for the other in memory.
func (v *Verifier) slice(r *storage.Reader, in *input, c coord.Coord) (d value.Digest, err error) {
	shape := &value.Slice{Lens: make([][]uint32, len(in.slice))}
	err = in.walk(r, c, steps{list: func(level int, n uint32) { shape.Lens[level] = append(shape.Lens[level], n) }})
	if err != nil {
		return d, err
	}
	v.sum.Reset()
	shape.WriteIdentity(&v.sum)
	err = in.walk(r, c, in.runs(
		func(dataflow uint64, job coord.Coord, n uint32) error {
			_, err := r.Identities(dataflow, job, 0, n, &v.sum, v.stop)
			if err == nil {
				err = v.stop()
			}
			return err
		},
		func(at coord.Coord) error {
			dataflow, job, item, err := in.place(at)
			if err != nil {
				return err
			}
			n, err := r.Identities(dataflow, job, item, item+1, &v.sum, v.stop)
			if err == nil && n == 0 {
				err = itemMissing(dataflow, job, item)
			}
			if err == nil && at.Len() > 0 && at.At(at.Len()-1)%1024 == 0 {
				err = v.stop()
			}
			return err
		}))
	return v.sum.Sum(), err
}
