package storage

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage/boltfile"
)

// chunkCache is the chunk that was read last.
type chunkCache struct {
	inst uint64
	job  coord.Coord
	view chunkView
	body []byte // what view is of
	kept bool   // it is of the transaction, else of an output that is pending
}

// Values calls fn with the items [lo, hi) of a job's output, with their
// indices, until it returns an error; a job that spawns no dimension has one
// item, 0, and what lies beyond the last item is left out. What fn gets stays
// valid. A file's Path is absolute, but by reference as it was stored.
//
// ErrNoRecord: the job has no record; ErrReleased: its values were dropped;
// *Damage: they are not what was written.
func (r *Reader) Values(inst uint64, job coord.Coord, lo, hi uint32, fn func(i uint32, v value.Value) error) error {
	rec, out, err := r.find(inst, job)
	if err != nil {
		return err
	}
	if rec == nil {
		return ErrNoRecord
	}
	return r.values(inst, rec, out, lo, hi, fn)
}

func (r *Reader) values(inst uint64, rec *storedRecord, out *Output, lo, hi uint32, fn func(i uint32, v value.Value) error) error {
	if rec.released() || r.store.pending.valuesGone(inst) {
		return ErrReleased
	}
	if hi = min(hi, rec.items()); lo >= hi {
		return nil
	}
	if rec.flags&flagInlined != 0 {
		return r.inlineValues(inst, rec, lo, hi, fn)
	}
	for i := lo; i < hi; {
		view, err := r.chunk(inst, rec.Coord, out, i)
		if err != nil {
			return err
		}
		last := min(view.last, hi-1)
		if err := r.chunkValues(inst, rec.Coord, view, i, last, fn); err != nil {
			return err
		}
		i = last + 1
	}
	return nil
}

// inlineValues hands out items that lie in a record.
func (r *Reader) inlineValues(inst uint64, rec *storedRecord, lo, hi uint32, fn func(i uint32, v value.Value) error) error {
	return inlineItems(inst, rec, hi, func(i uint32, it *item) error {
		if i < lo {
			return nil
		}
		return r.hand(inst, rec.Coord, i, it, true, fn)
	})
}

// inlineItems calls fn with the first n items in a record.
func inlineItems(inst uint64, rec *storedRecord, n uint32, fn func(i uint32, it *item) error) error {
	f := boltfile.NewFields(rec.inline)
	for i := range n {
		it := takeItem(f)
		if !f.OK() || i == rec.items()-1 && f.More() {
			return &Damage{Kind: DamagedValues, Instance: inst, Coord: rec.Coord, Detail: fmt.Sprintf("item %d makes no sense", i)}
		}
		if err := fn(i, &it); err != nil {
			return err
		}
	}
	return nil
}

// chunk is the chunk with item i of a job.
func (r *Reader) chunk(inst uint64, job coord.Coord, out *Output, i uint32) (*chunkView, error) {
	if out != nil {
		return r.pendingChunk(inst, job, out, i)
	}
	c := &r.cache
	if c.kept && c.inst == inst && c.view.first <= i && i <= c.view.last && c.job == job {
		return &c.view, nil
	}
	f := &r.instance(inst).chunks
	r.key = appendChunkKey(r.key[:0], job, i)
	k, v := f.seek(r.key)
	last, ok := chunkOf(k, job)
	if k == nil || !ok {
		return nil, &Damage{Kind: DamagedValues, Instance: inst, Coord: job, Detail: fmt.Sprintf("item %d is missing", i)}
	}
	body, ok := boltfile.Unseal(f.name, k, v)
	if !ok {
		return nil, &Damage{Kind: DamagedValues, Instance: inst, Coord: job, Detail: fmt.Sprintf("the checksum of the items up to %d is wrong", last)}
	}
	return r.keep(chunkCache{inst: inst, job: job, body: body, kept: true}, last, i)
}

// pendingChunk is the chunk with item i of an output that may not be durable.
func (r *Reader) pendingChunk(inst uint64, job coord.Coord, out *Output, i uint32) (*chunkView, error) {
	n, _ := slices.BinarySearchFunc(out.chunks, i, func(ch chunk, i uint32) int {
		if ch.last < i {
			return -1
		}
		return 1
	})
	ch := &out.chunks[n]
	if c := &r.cache; !c.kept && len(c.body) > 0 && &c.body[0] == &ch.body[0] {
		return &c.view, nil
	}
	return r.keep(chunkCache{inst: inst, job: job, body: ch.body}, ch.last, i)
}

// keep takes a chunk apart and remembers it.
func (r *Reader) keep(c chunkCache, last, i uint32) (*chunkView, error) {
	view, ok := decodeChunk(c.body, last)
	if !ok {
		return nil, &Damage{Kind: DamagedValues, Instance: c.inst, Coord: c.job, Detail: fmt.Sprintf("the items up to %d make no sense", last)}
	}
	if i < view.first {
		return nil, &Damage{Kind: DamagedValues, Instance: c.inst, Coord: c.job, Detail: fmt.Sprintf("item %d is missing", i)}
	}
	c.view = view
	r.cache = c
	return &r.cache.view, nil
}

// chunkValues hands out the items from lo to last of a chunk.
func (r *Reader) chunkValues(inst uint64, job coord.Coord, view *chunkView, lo, last uint32, fn func(i uint32, v value.Value) error) error {
	from := *view // fn may read something else meanwhile
	// Of most of a chunk, one copy of it all is cheapest; of a few items it
	// would keep the rest in memory as long as the caller keeps one of them.
	each := (last-lo+1)*2 < from.last-from.first
	if !each {
		from.data = bytes.Clone(from.data)
	}
	for i := lo; ; i++ {
		it, ok := from.item(i)
		if !ok {
			return &Damage{Kind: DamagedValues, Instance: inst, Coord: job, Detail: fmt.Sprintf("item %d makes no sense", i)}
		}
		if err := r.hand(inst, job, i, &it, each, fn); err != nil {
			return err
		}
		if i == last {
			return nil
		}
	}
}

// hand makes the value of an item and gives it to fn.
func (r *Reader) hand(inst uint64, job coord.Coord, i uint32, it *item, clone bool, fn func(i uint32, v value.Value) error) error {
	v, err := r.store.value(it, clone)
	if err != nil {
		var d *Damage
		if errors.As(err, &d) {
			return &Damage{Kind: d.Kind, Instance: inst, Coord: job, Detail: fmt.Sprintf("item %d: %s", i, d.Detail)}
		}
		return fmt.Errorf("read item %d of job %v of instance %d: %w", i, job.Indices(), inst, err)
	}
	return fn(i, v)
}

// value makes a value of what is stored.
func (s *Store) value(it *item, clone bool) (value.Value, error) {
	switch it.kind {
	case itemJSON, itemHole:
		text := it.text
		if clone {
			text = bytes.Clone(text)
		}
		if it.kind == itemHole {
			return value.Value{Kind: value.Hole, JSON: text}, nil
		}
		return value.FromJSON(text), nil
	case itemBlob:
		text, err := s.readText(it)
		return value.FromJSON(text), err
	}
	f := it.file
	if !f.Ref {
		f.Path = s.blobs.path(blobID{digest: f.SHA256, exec: f.Exec})
	}
	return value.FromFile(f), nil
}

// readText reads a large JSON text and verifies it.
func (s *Store) readText(it *item) ([]byte, error) {
	id := blobID{digest: it.digest}
	f, info, err := s.openBlob(id)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() != it.size {
		return nil, notWritten(id)
	}
	text := make([]byte, it.size)
	if _, err := io.ReadFull(f, text); err != nil {
		return nil, fmt.Errorf("read blob: %w", err)
	}
	if sha256.Sum256(text) != it.digest {
		return nil, notWritten(id)
	}
	return text, nil
}

// Output is the output of a job, to be put under another: its values are not
// read again, its blobs shared. Its blobs must exist. The errors are those of
// Values.
func (r *Reader) Output(inst uint64, job coord.Coord) (*Output, error) {
	rec, pending, err := r.find(inst, job)
	switch {
	case err != nil:
		return nil, err
	case rec == nil:
		return nil, ErrNoRecord
	case rec.released() || r.store.pending.valuesGone(inst):
		return nil, ErrReleased
	}
	o := &Output{store: r.store, digest: rec.Digest, items: rec.items(), spawning: rec.Spawning, hole: rec.Hole}
	o.pinned.Store(true)
	if rec.flags&flagInlined != 0 {
		o.inline = append([]byte{}, rec.inline...)
	} else if err := r.copyChunks(o, inst, rec, pending); err != nil {
		return nil, err
	}
	if rec.flags&flagBlobs == 0 {
		return o, nil
	}
	if err := o.holdAll(); err != nil {
		o.Discard()
		return nil, fmt.Errorf("output of job %v of instance %d: %w", job.Indices(), inst, err)
	}
	return o, nil
}

func (r *Reader) copyChunks(o *Output, inst uint64, rec *storedRecord, pending *Output) error {
	if pending != nil {
		o.chunks = pending.chunks
		return nil
	}
	for i := uint32(0); i < rec.items(); {
		view, err := r.chunk(inst, rec.Coord, nil, i)
		if err != nil {
			return err
		}
		o.chunks = append(o.chunks, chunk{last: view.last, body: bytes.Clone(r.cache.body)})
		if view.last == math.MaxUint32 {
			break
		}
		i = view.last + 1
	}
	return nil
}

// holdAll pins the blobs that the output's items name, and looks whether they
// are there.
func (o *Output) holdAll() error {
	named := map[blobID]int64{}
	blobsOfInline(o.inline, named)
	for _, ch := range o.chunks {
		if view, ok := decodeChunk(ch.body, ch.last); ok {
			blobsOfInline(view.data, named)
		}
	}
	for id, size := range named {
		o.hold(id, size) // before looking: it stays if it is there now
		got, err := o.store.blobExists(id)
		if err != nil {
			return err
		}
		if got != size {
			return &Damage{Kind: DamagedBlob, Detail: fmt.Sprintf("blob %s has %d bytes of %d", id.name(), got, size)}
		}
	}
	o.held = nil
	return nil
}
