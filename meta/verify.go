package meta

import (
	"bytes"
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"operon/storage/boltfile"
)

// Verify reads everything and returns the first thing that is wrong, as a
// *Damage: a value that is not what was written, one that is missing, or one
// that would not be found under its key.
func (r *Reader) Verify() error {
	if _, _, err := r.Footprint(); err != nil {
		return err
	}
	if err := r.History(func(string, []byte) error { return nil }); err != nil {
		return err
	}
	if _, err := r.Dataflows(); err != nil {
		return err
	}
	if _, err := r.Commands(); err != nil {
		return err
	}
	return r.tx.ForEach(func(name []byte, b *bolt.Bucket) error {
		if len(name) == 9 && name[0] == dataflowPrefix {
			if err := r.verifyDataflow(binary.BigEndian.Uint64(name[1:])); err != nil {
				return err
			}
		} else if s := string(name); s != stateBucket && s != dataflowsBucket && s != historyBucket && s != commandsBucket {
			return &Damage{Detail: fmt.Sprintf("there is a bucket of no known kind (%x)", name)}
		}
		return verifyOrder(name, b)
	})
}

// verifyDataflow verifies all keys of a dataflow and their number.
func (r *Reader) verifyDataflow(id uint64) error {
	name := bucketOf(id)
	b := r.tx.Bucket(name)
	if b == nil {
		return nil
	}
	n := uint64(0)
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if _, ok := boltfile.Unseal(name, k, v); !ok {
			return &Damage{Dataflow: id, Detail: fmt.Sprintf("a value cannot be read (%x)", k)}
		}
		n++
	}
	if n != b.Sequence() {
		return &Damage{Dataflow: id, Detail: fmt.Sprintf("there are %d values of %d", n, b.Sequence())}
	}
	return nil
}

// verifyOrder looks every key of a bucket up.
func verifyOrder(name []byte, b *bolt.Bucket) error {
	c, again := b.Cursor(), b.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		if found, _ := again.Seek(k); !bytes.Equal(found, k) {
			return &Damage{Detail: fmt.Sprintf("a value of %q is not found under its key (%x)", name, k)}
		}
	}
	return nil
}
