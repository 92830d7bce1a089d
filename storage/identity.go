package storage

import (
	"fmt"
	"math"

	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage/boltfile"
)

// Identities writes the identities of the items [lo, hi) of a job's output to a
// digest, as Values and Value.WriteIdentity would, but makes no values: however
// large a text is, it is not held. It returns how many items there were. stop, if
// not nil, is called on the way through large texts, and ends it with its error.
// The errors are those of Values.
func (r *Reader) Identities(inst uint64, job coord.Coord, lo, hi uint32, to *value.Identities, stop func() error) (items uint32, err error) {
	w, err := r.identityWalk(inst, job, to, stop)
	if err != nil {
		return 0, err
	}
	if hi = min(hi, w.rec.items()); lo >= hi {
		return 0, nil
	}
	return hi - lo, w.some(lo, hi)
}

// ItemDigest is the digest of an item's identity, as Value.Digest tells it; ok is
// false if there is no such item. stop and the errors are those of Identities.
func (r *Reader) ItemDigest(inst uint64, job coord.Coord, item uint32, stop func() error) (d value.Digest, ok bool, err error) {
	sum := &r.ident.sum
	sum.Reset()
	w, err := r.identityWalk(inst, job, sum, stop)
	if err != nil || item >= w.rec.items() {
		return d, false, err
	}
	w.alone = true
	if err := w.some(item, item+1); err != nil {
		return d, false, err
	}
	if w.known != (value.Digest{}) {
		return w.known, true, nil
	}
	d = sum.Sum()
	if w.blob != (blobID{}) {
		r.ident.keep(w.blob, d)
	}
	return d, true, nil
}

// identityRoom is what a reader of identities uses again and again.
type identityRoom struct {
	last   lastRecord
	room   storedRecord
	sum    value.Identities
	pieces pieces
	texts  map[blobID]value.Digest // digests of values whose texts are blobs
}

// keep remembers the digest of a value whose text is a blob.
func (m *identityRoom) keep(id blobID, d value.Digest) {
	if m.texts == nil || len(m.texts) >= outputsKept {
		m.texts = map[blobID]value.Digest{}
	}
	m.texts[id] = d
}

// identityWalk begins a walk through the output of a job.
func (r *Reader) identityWalk(inst uint64, job coord.Coord, to *value.Identities, stop func() error) (w identityWalk, err error) {
	r.ident.last.room = &r.ident.room
	rec, out, err := r.findIn(&r.ident.last, inst, job)
	switch {
	case err != nil:
		r.ident.last.record = nil
		return w, err
	case rec == nil:
		return w, ErrNoRecord
	case rec.released() || r.store.pending.valuesGone(inst):
		return w, ErrReleased
	}
	return identityWalk{r: r, inst: inst, rec: rec, out: out, to: to, pieces: &r.ident.pieces, stop: stop}, nil
}

// identityWalk goes through the items of one output and writes their identities.
type identityWalk struct {
	r      *Reader
	inst   uint64
	rec    *storedRecord
	out    *Output
	to     *value.Identities
	pieces *pieces
	stop   func() error
	blobs  *deepCheck // nil: files are not looked at

	alone bool         // one item is all: its digest will do
	blob  blobID       // that holds its text, if one does
	known value.Digest // of the item, if it was known
}

// all goes through all items, and sees whether there is anything beside them.
func (w *identityWalk) all() error {
	if w.rec.flags&flagInlined != 0 {
		return w.some(0, w.rec.items())
	}
	chunks, err := w.chunks(0, w.rec.items())
	if err == nil && chunks != w.rec.chunks {
		err = w.damaged("there are %d chunks of items, not %d", chunks, w.rec.chunks)
	}
	return err
}

// some goes through the items [lo, hi).
func (w *identityWalk) some(lo, hi uint32) error {
	if w.rec.flags&flagInlined == 0 {
		_, err := w.chunks(lo, hi)
		return err
	}
	f := boltfile.NewFields(w.rec.inline)
	for i := range hi {
		it := takeItem(f)
		if !f.OK() || i == w.rec.items()-1 && f.More() {
			return w.damaged("item %d makes no sense", i)
		}
		if i < lo {
			continue
		}
		if err := w.item(i, &it); err != nil {
			return err
		}
	}
	return nil
}

func (w *identityWalk) chunks(lo, hi uint32) (n uint32, err error) {
	for i := lo; i < hi; n++ {
		view, err := w.r.chunk(w.inst, w.rec.Coord, w.out, i)
		if err != nil {
			return n, err
		}
		last := min(view.last, hi-1)
		for ; ; i++ {
			it, ok := view.item(i)
			if !ok {
				return n, w.damaged("item %d makes no sense", i)
			}
			if err := w.item(i, &it); err != nil {
				return n, err
			}
			if i == last {
				break
			}
		}
		if last == math.MaxUint32 {
			return n + 1, nil
		}
		i = last + 1
	}
	return n, nil
}

func (w *identityWalk) damaged(format string, args ...any) error {
	return &Damage{Kind: DamagedValues, Instance: w.inst, Coord: w.rec.Coord, Detail: fmt.Sprintf(format, args...)}
}

// item writes one item's identity, and verifies its blob if that is asked for.
func (w *identityWalk) item(i uint32, it *item) error {
	switch it.kind {
	case itemJSON:
		w.to.Text(int64(len(it.text)))
		_, _ = w.to.Write(it.text)
		return nil
	case itemHole:
		w.to.Value(value.Value{Kind: value.Hole})
		return nil
	case itemBlob:
		return atItem(w.inst, w.rec.Coord, i, w.text(it))
	}
	if id, size, ok := it.blob(); ok && w.blobs != nil {
		if err := w.blobs.blob(w.r.store, id, size); err != nil {
			return atItem(w.inst, w.rec.Coord, i, err)
		}
	}
	file := it.file
	w.to.Value(value.FromFile(file))
	return nil
}

// text writes the identity of a text that is a blob.
func (w *identityWalk) text(it *item) error {
	id := blobID{digest: it.digest}
	if w.blobs != nil {
		if seen, known := w.blobs.blobs[id]; known && seen.damage != nil {
			return seen.damage
		}
	}
	if w.alone {
		w.blob = id
		if w.known = w.r.ident.texts[id]; w.known != (value.Digest{}) {
			return nil
		}
	}
	w.to.Text(it.size)
	damage, err := w.r.store.verifyBlob(id, it.size, w.pieces, w.to, w.stop)
	if err != nil {
		return err
	}
	seen := seenBlob{it.size, damage}
	if w.blobs != nil {
		w.blobs.blobs[id] = seen
	}
	return seen.err()
}
