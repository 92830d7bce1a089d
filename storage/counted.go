package storage

import (
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Every bucket but state and the chunks keeps the number of its keys in its
// sequence: a damaged page can hide keys without making any of them wrong.

// putCounted puts a value in a bucket that counts its keys.
func putCounted(b *bolt.Bucket, key, value []byte) error {
	if b.Get(key) == nil {
		if err := b.SetSequence(b.Sequence() + 1); err != nil {
			return fmt.Errorf("count keys: %w", err)
		}
	}
	return b.Put(key, value)
}

// deleteCounted deletes a key, if it is there, from a bucket that counts them.
func deleteCounted(b *bolt.Bucket, key []byte) error {
	if b.Get(key) == nil {
		return nil
	}
	if err := b.Delete(key); err != nil {
		return err
	}
	return b.SetSequence(b.Sequence() - 1)
}

// counted is how many keys a bucket has.
func counted(b *bolt.Bucket) (n uint64) {
	c := b.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		n++
	}
	return n
}
