package storage

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"sync/atomic"

	"operon/spec/coord"
	"operon/spec/value"
)

const (
	// InlineLimit is the largest JSON text, in bytes, that lies in data.db;
	// larger ones are blobs.
	InlineLimit = 16 << 10

	// recordLimit is the most bytes of items that lie in their record. It is
	// small so that a scan over records, which need not read values, stays one.
	recordLimit = 1 << 10
)

// Output is what a job returned, ready to be put beside its record: digested,
// packed, and its files and large values in blobs.
type Output struct {
	store    *Store
	digest   value.Digest
	items    uint32
	spawning bool
	hole     bool
	inline   []byte  // the items, if they lie in the record
	chunks   []chunk // else
	blobs    []blobID
	sizes    []int64             // of blobs, in bytes
	held     map[blobID]struct{} // blobs, while they are being collected
	renamed  uint64              // blobs.renames after the last of them
	pinned   atomic.Bool
}

// Digest is the SHA-256 over the items' identities, their number before them.
func (o *Output) Digest() value.Digest { return o.digest }

// Extent is the number of items.
func (o *Output) Extent() uint32 { return o.items }

// DigestOf is the digest of an output of these items.
func DigestOf(items []value.Value) value.Digest {
	h := newIdentity(len(items))
	for _, v := range items {
		v.WriteIdentity(h)
	}
	return value.Digest(h.Sum(nil))
}

func newIdentity(items int) hash.Hash {
	h := sha256.New()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(items))
	h.Write(n[:])
	return h
}

// Prepare makes an Output of what a job returned: any number of items of one
// that spawns a dimension, else exactly one. Large values and files are written
// to blobs and synced, each under its digest; a file under Options.Scratch is
// moved there if it can be, any other copied, and a file by reference left
// alone. Size and SHA256 of a file that is not by reference are found out here.
//
// It may be called by any goroutine. The blobs stay until the output has been
// put in a batch that was submitted, or Discard is called.
func (s *Store) Prepare(items []value.Value, spawning bool) (*Output, error) {
	if s.file.ReadOnly() {
		return nil, ErrReadOnly
	}
	if !spawning && len(items) != 1 {
		return nil, fmt.Errorf("prepare output: %d values of a job that returns one", len(items))
	}
	if uint64(len(items)) > coord.MaxExtent {
		return nil, fmt.Errorf("prepare output: %d items, more than %d", len(items), uint32(coord.MaxExtent))
	}
	o := &Output{store: s, spawning: spawning, items: uint32(len(items))}
	o.pinned.Store(true)
	p := packer{}
	identity := newIdentity(len(items))
	for i, v := range items {
		it, err := s.takeValue(o, v)
		if err != nil {
			o.Discard()
			return nil, fmt.Errorf("prepare item %d: %w", i, err)
		}
		it.writeIdentity(identity, v)
		p.add(it)
	}
	o.held = nil
	o.digest = value.Digest(identity.Sum(nil))
	o.pack(&p)
	return o, nil
}

// PrepareHole makes the Output of a job that has no value, with the reason.
func (s *Store) PrepareHole(reason string, spawning bool) *Output {
	v := value.NewHole(reason)
	p := packer{}
	p.add(&item{kind: itemHole, text: v.JSON})
	o := &Output{store: s, spawning: spawning, hole: true, items: 1, digest: DigestOf([]value.Value{v})}
	o.pack(&p)
	return o
}

// pack keeps a small output for its record, and any other as chunks.
func (o *Output) pack(p *packer) {
	if len(p.chunks) == 0 && len(p.data) <= recordLimit {
		o.inline = p.data
		if o.inline == nil {
			o.inline = []byte{}
		}
		return
	}
	p.cut()
	o.chunks = p.chunks
}

// writeIdentity writes the identity of the value that the item was made of.
func (it *item) writeIdentity(h hash.Hash, v value.Value) {
	if it.kind == itemFile {
		value.FromFile(it.file).WriteIdentity(h)
		return
	}
	v.WriteIdentity(h)
}

// Discard lets go of the blobs of an output that will not be put.
func (o *Output) Discard() {
	if o.pinned.Swap(false) {
		o.store.blobs.unpin(o.blobs)
	}
}

// hold pins a blob for the output, once.
func (o *Output) hold(id blobID, size int64) {
	if _, held := o.held[id]; held {
		return
	}
	if o.held == nil {
		o.held = map[blobID]struct{}{}
	}
	o.held[id] = struct{}{}
	o.store.blobs.pin([]blobID{id})
	o.blobs = append(o.blobs, id)
	o.sizes = append(o.sizes, size)
}

// flags are those of a record with this output.
func (o *Output) flags() (flags byte) {
	if o.spawning {
		flags |= flagSpawning
	}
	if o.hole {
		flags |= flagHole
	}
	if o.inline != nil {
		flags |= flagInlined
	} else {
		flags |= flagChunked
	}
	if len(o.blobs) > 0 {
		flags |= flagBlobs
	}
	return flags
}
