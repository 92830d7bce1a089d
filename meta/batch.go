package meta

import (
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"operon/spec/coord"
)

// HistoryLimit is how many entries of the history are kept.
const HistoryLimit = 1000

// Batch is a list of changes that become durable together, in the order of the
// calls. The zero Batch is empty. Once submitted, it is the store's, and so are
// the bytes that were given to it.
type Batch struct {
	// Applied is the number of the last commit of the data that the metadata
	// contains with this batch. 0: as before.
	Applied uint64
	// Urgent says that somebody waits for the commit.
	Urgent bool
	// Done, if not nil, is called by the writer once the batch is durable, or
	// with the error that it is not. It must not wait for a commit.
	Done func(err error)

	ops []op
}

type opKind uint8

const (
	opFootprint opKind = iota
	opPut              // a key of a dataflow's bucket
	opDelete
	opDataflow
	opDropDataflow
	opHistory
	opReset
	opCommand
	opDropCommands
)

type op struct {
	kind opKind
	id   uint64
	key  []byte
	body []byte
}

// Len is the number of changes.
func (b *Batch) Len() int { return len(b.ops) }

// PutFootprint puts the footprint.
func (b *Batch) PutFootprint(p Footprint) {
	b.ops = append(b.ops, op{kind: opFootprint, body: appendFootprint(nil, &p)})
}

// PutDataflow puts a dataflow, in the place of an earlier one of its id.
func (b *Batch) PutDataflow(d Dataflow) {
	b.ops = append(b.ops, op{kind: opDataflow, id: d.ID, body: appendDataflow(nil, &d)})
}

// DropDataflow removes a dataflow and all that belongs to it.
func (b *Batch) DropDataflow(id uint64) {
	b.ops = append(b.ops, op{kind: opDropDataflow, id: id})
}

// DropTickets removes tickets and shares of a dataflow, and leaves the dataflow
// itself and its resolutions.
func (b *Batch) DropTickets(id uint64) {
	for _, kind := range []byte{ticketsKind, sharesKind} {
		b.ops = append(b.ops, op{kind: opDelete, id: id, key: []byte{kind}})
	}
}

// PutTickets puts a page of tickets of a dataflow.
func (b *Batch) PutTickets(id uint64, prefix coord.Coord, page uint32, data []byte) {
	b.put(id, pageKey(ticketsKind, prefix, page), data)
}

// PutResolutions puts a page of resolutions of a dataflow.
func (b *Batch) PutResolutions(id uint64, prefix coord.Coord, page uint32, data []byte) {
	b.put(id, pageKey(resolutionsKind, prefix, page), data)
}

// PutShare puts what a reference of a dataflow has seen done, and must, of the
// jobs that agree with pins.
func (b *Batch) PutShare(id uint64, ref int, pins coord.Coord, done, quota uint64) {
	b.put(id, shareKey(uint32(ref), pins), appendShare(nil, done, quota))
}

func (b *Batch) put(id uint64, key, body []byte) {
	b.ops = append(b.ops, op{kind: opPut, id: id, key: key, body: body})
}

// PutHistory appends an entry to the history, of which the last HistoryLimit
// are kept.
func (b *Batch) PutHistory(runID string, data []byte) {
	b.ops = append(b.ops, op{kind: opHistory, body: appendRun(nil, runID, data)})
}

// Reset removes everything but the history. What follows it in the batch is put
// into empty metadata, in the same transaction.
func (b *Batch) Reset() { b.ops = append(b.ops, op{kind: opReset}) }

// apply writes the batch.
func (b *Batch) apply(tx *bolt.Tx) error {
	for i := range b.ops {
		if err := b.ops[i].apply(tx); err != nil {
			return err
		}
	}
	if b.Applied > 0 {
		return putNumber(tx, appliedKey, b.Applied)
	}
	return nil
}

func (p *op) apply(tx *bolt.Tx) error {
	switch p.kind {
	case opFootprint:
		return put(tx.Bucket([]byte(stateBucket)), []byte(stateBucket), []byte(footprintKey), p.body)
	case opPut:
		name := bucketOf(p.id)
		b, err := createBucket(tx, name)
		if err != nil {
			return fmt.Errorf("create bucket of dataflow %d: %w", p.id, err)
		}
		if b.Get(p.key) == nil {
			if err := b.SetSequence(b.Sequence() + 1); err != nil {
				return fmt.Errorf("count keys of dataflow %d: %w", p.id, err)
			}
		}
		return put(b, name, p.key, p.body)
	case opDelete:
		return deletePrefix(tx.Bucket(bucketOf(p.id)), p.key)
	case opDataflow:
		return putDataflow(tx, p)
	case opDropDataflow:
		return dropDataflow(tx, p.id)
	case opHistory:
		return putHistory(tx, p.body)
	case opReset:
		return reset(tx)
	case opCommand:
		return putCommand(tx, p)
	case opDropCommands:
		return dropCommands(tx)
	}
	return fmt.Errorf("change of no kind (%d): this is a bug", p.kind)
}

// deletePrefix deletes the keys of a bucket under a prefix. b may be nil.
func deletePrefix(b *bolt.Bucket, prefix []byte) error {
	if b == nil {
		return nil
	}
	var keys [][]byte
	c := b.Cursor()
	for k, _ := c.Seek(prefix); hasPrefix(k, prefix); k, _ = c.Next() {
		keys = append(keys, k)
	}
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return fmt.Errorf("delete key %x: %w", k, err)
		}
	}
	return b.SetSequence(b.Sequence() - uint64(len(keys)))
}

func putDataflow(tx *bolt.Tx, p *op) error {
	b := tx.Bucket([]byte(dataflowsBucket))
	key := dataflowKey(p.id)
	if b.Get(key) == nil {
		if err := b.SetSequence(b.Sequence() + 1); err != nil {
			return fmt.Errorf("count dataflows: %w", err)
		}
	}
	return put(b, []byte(dataflowsBucket), key, p.body)
}

func dropDataflow(tx *bolt.Tx, id uint64) error {
	if err := dropBucket(tx, bucketOf(id)); err != nil {
		return fmt.Errorf("drop dataflow %d: %w", id, err)
	}
	b := tx.Bucket([]byte(dataflowsBucket))
	key := dataflowKey(id)
	if b.Get(key) == nil {
		return nil
	}
	if err := b.Delete(key); err != nil {
		return fmt.Errorf("drop dataflow %d: %w", id, err)
	}
	return b.SetSequence(b.Sequence() - 1)
}

// createBucket makes a bucket if there is none, and counts it.
func createBucket(tx *bolt.Tx, name []byte) (*bolt.Bucket, error) {
	if b := tx.Bucket(name); b != nil {
		return b, nil
	}
	b, err := tx.CreateBucket(name)
	if err != nil {
		return nil, err
	}
	n, err := number(tx, bucketsKey)
	if err != nil {
		return nil, err
	}
	return b, putNumber(tx, bucketsKey, n+1)
}

// dropBucket deletes a bucket, if there is one, and counts it.
func dropBucket(tx *bolt.Tx, name []byte) error {
	err := tx.DeleteBucket(name)
	if errors.Is(err, berrors.ErrBucketNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	n, err := number(tx, bucketsKey)
	if err != nil {
		return err
	}
	return putNumber(tx, bucketsKey, n-1)
}

func putHistory(tx *bolt.Tx, body []byte) error {
	b := tx.Bucket([]byte(historyBucket))
	n, err := b.NextSequence()
	if err != nil {
		return fmt.Errorf("number history: %w", err)
	}
	if err := put(b, []byte(historyBucket), binary.BigEndian.AppendUint64(nil, n), body); err != nil {
		return err
	}
	if n <= HistoryLimit {
		return nil
	}
	c := b.Cursor()
	for k, _ := c.First(); len(k) == 8 && binary.BigEndian.Uint64(k) <= n-HistoryLimit; k, _ = c.First() {
		if err := c.Delete(); err != nil {
			return fmt.Errorf("drop old history: %w", err)
		}
	}
	return nil
}

// reset deletes all dataflows, the commands and the footprint.
func reset(tx *bolt.Tx) error {
	var names [][]byte
	err := tx.ForEach(func(name []byte, _ *bolt.Bucket) error {
		if len(name) == 9 && name[0] == dataflowPrefix {
			names = append(names, append([]byte(nil), name...))
		}
		return nil
	})
	for _, name := range names {
		err = errors.Join(err, dropBucket(tx, name))
	}
	err = errors.Join(err, dropBucket(tx, []byte(dataflowsBucket)), dropBucket(tx, []byte(commandsBucket)))
	if err == nil {
		_, err = createBucket(tx, []byte(dataflowsBucket))
	}
	if err == nil {
		err = tx.Bucket([]byte(stateBucket)).Delete([]byte(footprintKey))
	}
	if err != nil {
		return fmt.Errorf("reset metadata: %w", err)
	}
	return putNumber(tx, appliedKey, 0)
}
