package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"operon/storage/boltfile"
)

// What is being dropped of an instance.
const (
	dropValues = 1
	dropAll    = 2
)

// dropStep is the most keys that one transaction deletes.
const dropStep = 20_000

func decodeDrop(k, v []byte) (inst uint64, what byte, ok bool) {
	if len(k) != 8 {
		return 0, 0, false
	}
	inst = binary.BigEndian.Uint64(k)
	body, ok := boltfile.Unseal([]byte(dropsBucket), k, v)
	if !ok || len(body) != 1 || body[0] != dropValues && body[0] != dropAll {
		return inst, 0, false
	}
	return inst, body[0], true
}

// putDrop notes that an instance is being dropped: a crash on the way only
// delays it.
func (w *txWriter) putDrop(inst uint64, what byte) error {
	key := instanceKey(inst)
	b := w.bucket(dropsBucket)
	if v := b.Get(key); v != nil {
		if _, before, _ := decodeDrop(key, v); before == dropAll {
			return nil
		}
	}
	if err := putCounted(b, key, boltfile.Seal([]byte(dropsBucket), key, []byte{what})); err != nil {
		return fmt.Errorf("note that instance %d is dropped: %w", inst, err)
	}
	return nil
}

// startDrop begins the steps of a change that drops, once it is durable.
func (s *Store) startDrop(p *op) {
	switch p.kind {
	case opDropInstance:
		s.drops.Add(1)
		s.dropInstance(p.inst)
	case opDropValues:
		s.drops.Add(1)
		s.dropValues(p.inst, nil)
	}
}

// resumeDrops goes on with what an earlier process began to drop.
func (s *Store) resumeDrops() {
	var gone, released []uint64
	s.pending.mu.RLock()
	gone = slices.AppendSeq(gone, s.pending.gone.all)
	for inst := range s.pending.released {
		released = append(released, inst)
	}
	s.pending.mu.RUnlock()
	s.drops.Add(int64(len(gone) + len(released)))
	for _, inst := range gone {
		s.dropInstance(inst)
	}
	for _, inst := range released {
		s.dropValues(inst, nil)
	}
}

// dropInstance deletes the buckets of an instance one after another.
func (s *Store) dropInstance(inst uint64) {
	name := bucketOf(recordsPrefix, inst)
	forget := func(tx *bolt.Tx, k, v []byte) error {
		body, ok := boltfile.Unseal(name, k, v)
		if !ok {
			return nil // Sweep will find what it names
		}
		r, ok := decodeRecord(body)
		if !ok {
			return nil
		}
		return s.writerOf(tx).uncount(inst, &r)
	}
	s.dropBucket(name, forget, func() {
		s.dropBucket(bucketOf(chunksPrefix, inst), nil, func() {
			s.dropBucket(bucketOf(failuresPrefix, inst), nil, func() {
				s.finishDrop(inst, dropAll, func(tx *bolt.Tx) error { return dropHeader(tx, inst) })
			})
		})
	})
}

// dropBucket deletes a bucket and then goes on.
func (s *Store) dropBucket(name []byte, visit func(tx *bolt.Tx, k, v []byte) error, then func()) {
	s.file.DeleteInSteps(name, dropStep, visit, func(err error) {
		if err != nil {
			s.drops.Add(-1)
			return
		}
		s.removeFreed()
		then()
	})
}

// finishDrop commits the last step, with which the note of the drop goes. What
// began as a drop of the values may have become one of the whole instance: that
// note stays until the instance is gone.
func (s *Store) finishDrop(inst uint64, what byte, last func(tx *bolt.Tx) error) {
	s.file.Submit(boltfile.Commit{
		Apply: func(tx *bolt.Tx) error {
			if err := last(tx); err != nil {
				return err
			}
			b, key := tx.Bucket([]byte(dropsBucket)), instanceKey(inst)
			if _, noted, _ := decodeDrop(key, b.Get(key)); what == dropAll || noted != dropAll {
				if err := deleteCounted(b, key); err != nil {
					return err
				}
			}
			return recountBuckets(tx)
		},
		Done: func(err error) {
			if err == nil {
				s.removeFreed()
			}
			s.drops.Add(-1)
		},
	})
}

func dropHeader(tx *bolt.Tx, inst uint64) error {
	if err := deleteCounted(tx.Bucket([]byte(headersBucket)), instanceKey(inst)); err != nil {
		return fmt.Errorf("drop header of instance %d: %w", inst, err)
	}
	return nil
}

// dropValues takes the values out of the records of an instance, from the key
// after the given one on, and then deletes the chunks.
func (s *Store) dropValues(inst uint64, after []byte) {
	var last []byte
	s.file.Submit(boltfile.Commit{
		Apply: func(tx *bolt.Tx) (err error) {
			last, err = s.writerOf(tx).releaseStep(inst, after)
			return err
		},
		Done: func(err error) {
			switch {
			case err != nil:
				s.drops.Add(-1)
			case last != nil:
				s.removeFreed()
				s.dropValues(inst, last)
			default:
				s.dropBucket(bucketOf(chunksPrefix, inst), nil, func() {
					s.finishDrop(inst, dropValues, func(*bolt.Tx) error { return nil })
				})
			}
		},
	})
}

// releaseStep takes the values out of some records and returns the last key
// that it has seen, nil if there are no more. The chunks themselves go later.
func (w *txWriter) releaseStep(inst uint64, after []byte) (last []byte, err error) {
	name := bucketOf(recordsPrefix, inst)
	b := w.tx.Bucket(name)
	if b == nil {
		return nil, nil
	}
	type change struct{ key, value []byte }
	var changes []change
	c := b.Cursor()
	k, v := c.Seek(after)
	for n := 0; k != nil && n < dropStep; k, v = c.Next() {
		if bytes.Equal(k, after) {
			continue
		}
		n++
		last = bytes.Clone(k)
		body, ok := boltfile.Unseal(name, k, v)
		if !ok {
			continue
		}
		r, ok := decodeRecord(body)
		if !ok || r.released() {
			continue
		}
		if err := w.uncount(inst, &r); err != nil {
			return nil, err
		}
		r.flags &= flagSpawning | flagHole
		r.inline, r.chunks = nil, 0
		changes = append(changes, change{last, boltfile.Seal(name, k, appendRecord(nil, &r))})
	}
	if k == nil {
		last = nil
	}
	for _, ch := range changes {
		if err := b.Put(ch.key, ch.value); err != nil {
			return nil, fmt.Errorf("release values of instance %d: %w", inst, err)
		}
	}
	return last, nil
}

// uncount counts down the blobs that a record names, whose chunks go later.
func (w *txWriter) uncount(inst uint64, r *storedRecord) error {
	named := map[blobID]int64{}
	blobsOfRecord(w.tx.Bucket(bucketOf(chunksPrefix, inst)), inst, r, named)
	for id, size := range named {
		if err := w.count(id, size, -1); err != nil {
			return err
		}
	}
	return nil
}
