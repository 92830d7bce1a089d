package storage

import (
	"encoding/binary"
	"fmt"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"operon/storage/boltfile"
)

// Salvage puts a new data.db in the place of a damaged one, with all that can
// still be read of it, and keeps the damaged one beside it; see boltfile.Salvage.
// Records, values and what they hang on may be missing or damaged afterwards:
// Mend and Sweep, and a look at every record (Check), are the caller's. Where no
// header can be read, nothing tells what the rest is of: that is a
// *boltfile.DamagedError. Nobody may have the store open.
func Salvage(dir string, hook func(string)) (*boltfile.Salvaged, error) {
	path := filepath.Join(dir, DataFile)
	return boltfile.Salvage(path, boltfile.SalvageOptions{
		Options: boltfile.Options{Hook: hook},
		Whole: func(bucket, k, v []byte) bool {
			_, ok := boltfile.Unseal(bucket, k, v)
			return ok
		},
		Buckets: bucketsThereMayBe,
		Finish:  func(tx *bolt.Tx) error { return finishSalvage(tx, path) },
	})
}

// bucketsThereMayBe are the names of the buckets that are always there, and those
// of the instances that have a header.
func bucketsThereMayBe(tx *bolt.Tx) [][]byte {
	names := [][]byte{[]byte(headersBucket), []byte(stateBucket), []byte(commitsBucket), []byte(dropsBucket), []byte(blobsBucket)}
	b := tx.Bucket([]byte(headersBucket))
	if b == nil {
		return names
	}
	c := b.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		if len(k) != 8 {
			continue
		}
		for _, prefix := range []byte{recordsPrefix, chunksPrefix, failuresPrefix} {
			names = append(names, bucketOf(prefix, binary.BigEndian.Uint64(k)))
		}
	}
	return names
}

// finishSalvage makes what there must be, and true what is counted.
func finishSalvage(tx *bolt.Tx, path string) error {
	for _, name := range []string{stateBucket, headersBucket, dropsBucket, commitsBucket, blobsBucket} {
		if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
			return fmt.Errorf("create bucket %q: %w", name, err)
		}
	}
	last, whole := lastInstance(tx)
	if !whole {
		return &boltfile.DamagedError{Path: path, Detail: "nothing in it tells any more what its results are of"}
	}
	commit := uint64(0)
	if k, _ := tx.Bucket([]byte(commitsBucket)).Cursor().Last(); len(k) == 8 {
		commit = binary.BigEndian.Uint64(k)
	}
	for key, least := range map[string]uint64{formatKey: Format, nextKey: last + 1, commitKey: commit} {
		if n, err := number(tx, key); err == nil && (n >= least || key == formatKey) {
			continue
		}
		if err := putNumber(tx, key, least); err != nil {
			return err
		}
	}
	err := tx.ForEach(func(name []byte, b *bolt.Bucket) error {
		if string(name) == stateBucket || name[0] == chunksPrefix && len(name) == 9 {
			return nil
		}
		return b.SetSequence(counted(b))
	})
	if err != nil {
		return fmt.Errorf("count keys: %w", err)
	}
	return recountBuckets(tx)
}

// lastInstance is the highest number of an instance that has a header, and
// whether one can be read.
func lastInstance(tx *bolt.Tx) (last uint64, whole bool) {
	c := tx.Bucket([]byte(headersBucket)).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if body, ok := boltfile.Unseal([]byte(headersBucket), k, v); ok && len(k) == 8 {
			if h, ok := decodeHeader(body); ok {
				last, whole = max(last, h.ID), true
			}
		}
	}
	return last, whole
}
