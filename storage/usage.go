package storage

import (
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
)

// Usage is what an instance takes up.
type Usage struct {
	Records   uint64
	Failures  uint64
	Bytes     int64 // of keys and values in data.db, free room in pages not counted
	Blobs     int   // that go with it
	BlobBytes int64 // of those
}

// Usage is what dropping the instances one after another would free: a blob is
// counted with the last of them that names it, and not at all if a record of
// another instance names it too. It looks at what is durable.
func (r *Reader) Usage(insts []uint64) ([]Usage, error) {
	out := make([]Usage, len(insts))
	named := map[blobID]int64{} // records of insts that name it, so far
	for i, inst := range insts {
		u := &out[i]
		for _, prefix := range []byte{recordsPrefix, chunksPrefix, failuresPrefix} {
			keys, bytes := sizeOf(r.tx.Bucket(bucketOf(prefix, inst)))
			u.Bytes += bytes
			switch prefix {
			case recordsPrefix:
				u.Records = keys
			case failuresPrefix:
				u.Failures = keys
			}
		}
		if err := r.lastNamed(inst, named, u); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// sizeOf is the number of keys of a bucket, which may be nil, and the bytes of
// them and their values.
func sizeOf(b *bolt.Bucket) (keys uint64, bytes int64) {
	if b == nil {
		return 0, 0
	}
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		keys++
		bytes += int64(len(k) + len(v))
	}
	return keys, bytes
}

// lastNamed counts the blobs that the records of an instance name into named,
// and those that nothing else names by then into u.
func (r *Reader) lastNamed(inst uint64, named map[blobID]int64, u *Usage) error {
	counts := r.tx.Bucket([]byte(blobsBucket))
	chunks := r.tx.Bucket(bucketOf(chunksPrefix, inst))
	return r.eachRecord(inst, "", func(rec *storedRecord, _ *Output, err error) error {
		if err != nil {
			return nil // whether it names any can't be said; Sweep will find them
		}
		of := map[blobID]int64{}
		blobsOfRecord(chunks, inst, rec, of)
		for id, size := range of {
			named[id]++
			key := id.key()
			if n, _, ok := decodeCount(key, counts.Get(key)); ok && n == named[id] {
				u.Blobs++
				u.BlobBytes += size
			}
		}
		return nil
	})
}

// StrayBlobs counts the files in the folder of blobs that no record is known to
// name, with their bytes: what Sweep would remove, unless a count is wrong.
func (r *Reader) StrayBlobs() (files int, bytes int64, err error) {
	entries, err := os.ReadDir(r.store.blobs.dir)
	if err != nil {
		return 0, 0, fmt.Errorf("look for blobs that nothing names: %w", err)
	}
	counts := r.tx.Bucket([]byte(blobsBucket))
	for _, e := range entries {
		id, ok := blobOfName(e.Name())
		if !ok || e.IsDir() || counts.Get(id.key()) != nil {
			continue
		}
		if info, err := e.Info(); err == nil {
			files++
			bytes += info.Size()
		}
	}
	return files, bytes, nil
}
