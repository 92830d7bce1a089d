package storage

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"operon/spec/value"
)

// deepCheck reads outputs and verifies their digests. Each blob is read once,
// and so is each output that is the same as another.
type deepCheck struct {
	stop   func() error // nil: never
	sum    value.Identities
	pieces pieces
	blobs  map[blobID]seenBlob
	// outputs are the digests of small outputs with texts in blobs, by what lies
	// in the record: the texts need not be read for each record again.
	outputs map[value.Digest]value.Digest
}

// seenBlob is a blob that was read before.
type seenBlob struct {
	size   int64
	damage *Damage // nil: it is whole
}

// outputsKept bounds deepCheck.outputs.
const outputsKept = 64 << 10

func newDeepCheck(stop func() error) *deepCheck {
	return &deepCheck{stop: stop, blobs: map[blobID]seenBlob{}, outputs: map[value.Digest]value.Digest{}}
}

// output verifies an output.
func (d *deepCheck) output(r *Reader, inst uint64, rec *storedRecord, out *Output) error {
	d.sum.Reset()
	d.sum.Count(rec.items())
	got, err := d.identities(r, inst, rec, out)
	if err != nil {
		return err
	}
	if got != rec.Digest {
		return &Damage{Kind: DamagedValues, Instance: inst, Coord: rec.Coord, Detail: "the values do not have the digest that the record tells"}
	}
	return nil
}

// identities is the digest of an output as it lies there.
func (d *deepCheck) identities(r *Reader, inst uint64, rec *storedRecord, out *Output) (sum value.Digest, err error) {
	w := identityWalk{r: r, inst: inst, rec: rec, out: out, to: &d.sum, pieces: &d.pieces, stop: d.stop, blobs: d}
	if rec.flags&flagBlobs == 0 || rec.flags&flagInlined == 0 {
		err := w.all()
		return d.sum.Sum(), err
	}
	key := value.Digest(sha256.Sum256(binary.BigEndian.AppendUint32(rec.inline[:len(rec.inline):len(rec.inline)], rec.items())))
	if sum, known := d.outputs[key]; known {
		return sum, nil
	}
	if err := w.all(); err != nil {
		return sum, err
	}
	if len(d.outputs) >= outputsKept {
		clear(d.outputs)
	}
	sum = d.sum.Sum()
	d.outputs[key] = sum
	return sum, nil
}

// blob verifies a blob that no text is read of.
func (d *deepCheck) blob(s *Store, id blobID, size int64) error {
	seen, known := d.blobs[id]
	if !known {
		damage, err := s.verifyBlob(id, size, &d.pieces, nil, d.stop)
		if err != nil {
			return err
		}
		seen = seenBlob{size, damage}
		d.blobs[id] = seen
	}
	if seen.damage == nil && seen.size != size {
		return &Damage{Kind: DamagedBlob, Detail: fmt.Sprintf("blob %s has %d bytes of %d", id.name(), seen.size, size)}
	}
	return seen.err()
}

func (b seenBlob) err() error {
	if b.damage == nil {
		return nil // and not a *Damage that is nil
	}
	return b.damage
}

// pieces is room for a blob to be read through.
type pieces struct {
	room []byte
	hash hash.Hash
}

const pieceSize = 256 << 10

// verifyBlob reads a blob through, piece by piece, and writes it to a sink if
// there is one. It returns what is damaged about it.
func (s *Store) verifyBlob(id blobID, size int64, p *pieces, to io.Writer, stop func() error) (*Damage, error) {
	err := s.blobThere(id, size)
	if d, damaged := errors.AsType[*Damage](err); damaged {
		return d, nil
	}
	if err != nil {
		return nil, err
	}
	f, _, err := s.openBlob(id)
	if d, damaged := errors.AsType[*Damage](err); damaged {
		return d, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if p.room == nil {
		p.room, p.hash = make([]byte, pieceSize), sha256.New()
	}
	p.hash.Reset()
	for {
		if stop != nil {
			if err := stop(); err != nil {
				return nil, err
			}
		}
		n, err := f.Read(p.room)
		p.hash.Write(p.room[:n])
		if to != nil {
			_, _ = to.Write(p.room[:n]) // a digest, which takes everything
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read blob: %w", err)
		}
	}
	if value.Digest(p.hash.Sum(nil)) != id.digest {
		return notWritten(id), nil
	}
	return nil, nil
}

// blobThere looks whether a blob is there, in its size.
func (s *Store) blobThere(id blobID, size int64) error {
	got, err := s.blobExists(id)
	if err != nil {
		return err
	}
	if got != size {
		return &Damage{Kind: DamagedBlob, Detail: fmt.Sprintf("blob %s has %d bytes of %d", id.name(), got, size)}
	}
	return nil
}
