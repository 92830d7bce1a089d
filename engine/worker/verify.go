package worker

import (
	"crypto/sha256"
	"fmt"

	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// digestsKept bounds the digests of slices that a Verifier keeps.
const digestsKept = 64 << 10

// Verifier computes job keys without running anything. It holds no slice, however
// long, only its digest. It must not be used by two goroutines at once.
type Verifier struct{ digests map[sliceKey]value.Digest }

// NewVerifier makes one.
func NewVerifier() *Verifier { return &Verifier{map[sliceKey]value.Digest{}} }

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
	if len(in.slice) == 0 {
		got, err := in.at(r, c.Project(in.from))
		if err != nil {
			return value.Digest{}, err
		}
		return got.Digest(), nil
	}
	key := sliceKey{d.ID, n, c.Project(in.pins)}
	if digest, ok := v.digests[key]; ok {
		return digest, nil
	}
	digest, err := in.digest(r, c)
	if err != nil {
		return digest, err
	}
	if len(v.digests) >= digestsKept {
		clear(v.digests)
	}
	v.digests[key] = digest
	return digest, nil
}

// digest is the digest of the slice that the job at c takes: first its shape is
// walked, then its values, so that neither has to wait for the other in memory.
func (in *input) digest(r *storage.Reader, c coord.Coord) (d value.Digest, err error) {
	shape := &value.Slice{Lens: make([][]uint32, len(in.slice))}
	err = in.walk(r, c, steps{list: func(level int, n uint32) { shape.Lens[level] = append(shape.Lens[level], n) }})
	if err != nil {
		return d, err
	}
	h := sha256.New()
	shape.WriteIdentity(h)
	err = in.walk(r, c, in.items(r, func(v value.Value) { v.WriteIdentity(h) }))
	return value.Digest(h.Sum(nil)), err
}
