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

// createBucket makes a bucket if there is none. The number of buckets is kept
// for the same reason as that of their keys.
func (w *txWriter) createBucket(name []byte) (*bolt.Bucket, error) {
	if b := w.tx.Bucket(name); b != nil {
		return b, nil
	}
	b, err := w.tx.CreateBucket(name)
	if err != nil {
		return nil, fmt.Errorf("create bucket %x: %w", name, err)
	}
	n, err := number(w.tx, bucketsKey)
	if err != nil {
		return nil, err
	}
	return b, putNumber(w.tx, bucketsKey, n+1)
}

// recountBuckets counts the buckets after some were deleted.
func recountBuckets(tx *bolt.Tx) error {
	return putNumber(tx, bucketsKey, counted(tx.Cursor().Bucket()))
}

// checkBuckets is what is wrong with the number of buckets, nil if nothing is,
// or if some are just being deleted. A bucket that is not found is no reason to
// refuse the others.
func checkBuckets(tx *bolt.Tx) *Damage {
	want, err := number(tx, bucketsKey)
	if err != nil {
		return &Damage{Detail: "the number of buckets cannot be read"}
	}
	if k, _ := tx.Bucket([]byte(dropsBucket)).Cursor().First(); k != nil {
		return nil
	}
	if n := counted(tx.Cursor().Bucket()); n != want {
		return &Damage{Detail: fmt.Sprintf("there are %d buckets of %d", n, want)}
	}
	return nil
}

func putNumber(tx *bolt.Tx, key string, n uint64) error {
	if err := tx.Bucket([]byte(stateBucket)).Put([]byte(key), sealNumber(key, n)); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}
