package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"operon/spec/coord"
	"operon/storage/boltfile"
)

// fill is how full pages of rising keys are made: nothing will come between.
const fill = 0.95

// txWriter writes into one transaction. It belongs to the writer goroutine.
type txWriter struct {
	store *Store
	tx    *bolt.Tx
	insts map[uint64]*instWriter
	arena []byte // room for values, which must stay as they are until the commit

	// freed are the blobs that no record names any more, of this transaction
	// and of earlier ones if they were pinned.
	freed map[blobID]struct{}
	// gone are the instances that were dropped by what has been applied. What
	// was only submitted does not count: a crash may come in between.
	gone instances
}

// isGone reports whether an instance was dropped.
func (w *txWriter) isGone(inst uint64) bool { return w.gone.has(inst) }

// instWriter is the buckets of an instance in a transaction.
type instWriter struct {
	records, chunks         *bolt.Bucket
	recordsName, chunksName []byte

	last []byte // highest key in records
	key  []byte // for keys, reused
}

// writerOf is the writer into a transaction: one for all that is applied to it.
func (s *Store) writerOf(tx *bolt.Tx) *txWriter {
	w := &s.writer
	if w.tx != tx {
		w.store, w.tx, w.insts, w.arena = s, tx, map[uint64]*instWriter{}, nil
	}
	return w
}

func (w *txWriter) apply(p *op) error {
	switch p.kind {
	case opHeader, opState:
		return w.putHeader(p)
	case opFootprint:
		return w.putState(footprintKey, appendFootprint(nil, p.footprint))
	case opRecord:
		return w.putRecord(p)
	case opDropRecord:
		return w.dropRecord(p.inst, p.coord)
	case opFailure:
		return w.putFailure(p)
	case opDropFailure:
		return w.dropFailure(p)
	case opDropValues:
		if err := w.putHeader(p); err != nil {
			return err
		}
		return w.putDrop(p.inst, dropValues)
	case opDropInstance:
		delete(w.insts, p.inst)
		w.gone.add(p.inst)
		return w.putDrop(p.inst, dropAll)
	}
	return fmt.Errorf("change of no kind (%d): this is a bug", p.kind)
}

func (w *txWriter) bucket(name string) *bolt.Bucket { return w.tx.Bucket([]byte(name)) }

func (w *txWriter) putState(key string, body []byte) error {
	if err := w.bucket(stateBucket).Put([]byte(key), boltfile.Seal([]byte(stateBucket), []byte(key), body)); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// list keeps the list of jobs of a batch, and drops those that are not needed.
func (w *txWriter) list(n uint64, jobs []Ref, applied uint64) error {
	if len(jobs) == 0 && applied == 0 {
		return nil
	}
	b := w.bucket(commitsBucket)
	b.FillPercent = fill
	if len(jobs) > 0 {
		key := binary.BigEndian.AppendUint64(nil, n)
		if err := putCounted(b, key, boltfile.Seal([]byte(commitsBucket), key, appendJobs(nil, jobs))); err != nil {
			return fmt.Errorf("put list of commit %d: %w", n, err)
		}
	}
	c := b.Cursor()
	for k, _ := c.First(); k != nil && applied > 0; k, _ = c.First() {
		if len(k) == 8 && binary.BigEndian.Uint64(k) > applied {
			break
		}
		if err := deleteCounted(b, k); err != nil {
			return fmt.Errorf("drop list of a commit: %w", err)
		}
	}
	return nil
}

// putHeader puts the header of a change, and remembers that its number is taken.
func (w *txWriter) putHeader(p *op) error {
	if p.header == nil || w.isGone(p.inst) {
		return nil // the state of an instance that is not there
	}
	b := w.bucket(headersBucket)
	key := instanceKey(p.inst)
	if err := putCounted(b, key, boltfile.Seal([]byte(headersBucket), key, appendHeader(nil, p.header))); err != nil {
		return fmt.Errorf("put header of instance %d: %w", p.inst, err)
	}
	next, err := number(w.tx, nextKey)
	if err != nil || next > p.inst {
		return err
	}
	return w.putState(nextKey, binary.BigEndian.AppendUint64(nil, p.inst+1))
}

// instance is the buckets of an instance, made if need be.
func (w *txWriter) instance(inst uint64) (*instWriter, error) {
	if in := w.insts[inst]; in != nil {
		return in, nil
	}
	in := &instWriter{recordsName: bucketOf(recordsPrefix, inst), chunksName: bucketOf(chunksPrefix, inst)}
	b, err := w.createBucket(in.recordsName)
	if err != nil {
		return nil, err
	}
	b.FillPercent = fill
	in.records = b
	last, _ := b.Cursor().Last()
	in.last = bytes.Clone(last)
	if in.chunks = w.tx.Bucket(in.chunksName); in.chunks != nil {
		in.chunks.FillPercent = fill
	}
	w.insts[inst] = in
	return in, nil
}

// value is room for n bytes that stays as it is until the commit.
func (w *txWriter) value(n int) []byte {
	const block = 256 << 10
	if n > block/8 {
		return make([]byte, 0, n)
	}
	if cap(w.arena)-len(w.arena) < n {
		w.arena = make([]byte, 0, block)
	}
	at := len(w.arena)
	w.arena = w.arena[:at+n]
	return w.arena[at : at : at+n]
}

// recordRoom is more than a record takes without its inline items.
const recordRoom = 3 + 4*coord.MaxDims + 2*32 + 4 + 7*binary.MaxVarintLen64 + 4

func (w *txWriter) putRecord(p *op) error {
	o := p.output
	if w.isGone(p.inst) {
		w.freeUncounted(o)
		return nil
	}
	in, err := w.instance(p.inst)
	if err != nil {
		return err
	}
	key := appendJobKey(in.key[:0], p.coord)
	in.key = key
	if bytes.Compare(key, in.last) > 0 {
		in.last = append(in.last[:0], key...)
		err = in.records.SetSequence(in.records.Sequence() + 1)
	} else {
		err = w.forget(in, p.inst, p.coord, key)
	}
	if err != nil {
		return err
	}
	if o != nil {
		if err := w.putOutput(in, p.coord, o); err != nil {
			return err
		}
	}
	v := boltfile.Seal(in.recordsName, key, appendRecord(w.value(recordRoom+len(p.record.inline)), p.record))
	if err := in.records.Put(key, v); err != nil {
		return fmt.Errorf("put record of job %v of instance %d: %w", p.coord.Indices(), p.inst, err)
	}
	return nil
}

// putOutput puts what of an output does not lie in its record.
func (w *txWriter) putOutput(in *instWriter, c coord.Coord, o *Output) error {
	if err := w.store.blobs.sync(o.renamed, w.store.hook); err != nil {
		return err
	}
	for i, id := range o.blobs {
		if err := w.count(id, o.sizes[i], +1); err != nil {
			return err
		}
	}
	if len(o.chunks) == 0 {
		return nil
	}
	if in.chunks == nil {
		b, err := w.createBucket(in.chunksName)
		if err != nil {
			return err
		}
		b.FillPercent = fill
		in.chunks = b
	}
	for _, ch := range o.chunks {
		key := appendChunkKey(nil, c, ch.last)
		v := boltfile.Seal(in.chunksName, key, append(w.value(len(ch.body)+4), ch.body...))
		if err := in.chunks.Put(key, v); err != nil {
			return fmt.Errorf("put items of job %v: %w", c.Indices(), err)
		}
	}
	return nil
}

// forget removes what lies under a job's key, if anything does, all but the
// record itself, which the caller replaces or deletes. It counts a new record
// where there was none.
func (w *txWriter) forget(in *instWriter, inst uint64, c coord.Coord, key []byte) error {
	v := in.records.Get(key)
	if v == nil {
		return in.records.SetSequence(in.records.Sequence() + 1)
	}
	return w.forgetOutput(in, inst, c, key, v)
}

func (w *txWriter) dropRecord(inst uint64, c coord.Coord) error {
	name := bucketOf(recordsPrefix, inst)
	if w.isGone(inst) || w.tx.Bucket(name) == nil {
		return nil
	}
	in, err := w.instance(inst)
	if err != nil {
		return err
	}
	key := appendJobKey(nil, c)
	v := in.records.Get(key)
	if v == nil {
		return nil
	}
	if err := w.forgetOutput(in, inst, c, key, v); err != nil {
		return err
	}
	if err := deleteCounted(in.records, key); err != nil {
		return fmt.Errorf("drop record of job %v of instance %d: %w", c.Indices(), inst, err)
	}
	return nil
}

func (w *txWriter) putFailure(p *op) error {
	if w.isGone(p.inst) {
		return nil
	}
	name := bucketOf(failuresPrefix, p.inst)
	b, err := w.createBucket(name)
	if err != nil {
		return err
	}
	key := appendJobKey(nil, p.coord)
	if err := putCounted(b, key, boltfile.Seal(name, key, appendFailure(nil, p.failure))); err != nil {
		return fmt.Errorf("put failure of job %v of instance %d: %w", p.coord.Indices(), p.inst, err)
	}
	return nil
}

func (w *txWriter) dropFailure(p *op) error {
	b := w.tx.Bucket(bucketOf(failuresPrefix, p.inst))
	if b == nil || w.isGone(p.inst) {
		return nil
	}
	if err := deleteCounted(b, appendJobKey(nil, p.coord)); err != nil {
		return fmt.Errorf("drop failure of job %v of instance %d: %w", p.coord.Indices(), p.inst, err)
	}
	return nil
}
