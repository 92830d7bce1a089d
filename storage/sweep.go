package storage

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"

	"operon/storage/boltfile"
)

// Sweep counts anew how many records name each blob, and removes the files in
// the folder of blobs that none does and no output holds, which crashes and
// damage may leave. It returns how many it removed. While a record is damaged
// that may name blobs, none is removed. It waits for its commit.
func (s *Store) Sweep(ctx context.Context) (removed int, err error) {
	if s.file.ReadOnly() {
		return 0, ErrReadOnly
	}
	type result struct {
		removed int
		err     error
	}
	done := make(chan result, 1)
	sure := true
	s.file.Submit(boltfile.Commit{
		Apply: func(tx *bolt.Tx) (err error) {
			sure, err = s.writerOf(tx).recount()
			return err
		},
		Done: func(err error) {
			r := result{err: err}
			if err == nil && sure {
				r.removed, r.err = s.removeStrays()
			}
			done <- r
		},
		Urgent: true,
	})
	select {
	case r := <-done:
		return r.removed, r.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// recount counts the blobs of all records. It reports false, and counts only
// up, if it could not read all of them.
func (w *txWriter) recount() (sure bool, err error) {
	sure = true
	named := map[blobID]int64{}
	sizes := map[blobID]int64{}
	err = w.tx.ForEach(func(name []byte, b *bolt.Bucket) error {
		if len(name) != 9 || name[0] != recordsPrefix {
			return nil
		}
		inst := binary.BigEndian.Uint64(name[1:])
		if !w.recountRecords(inst, name, b, named, sizes) {
			sure = false
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("count blobs: %w", err)
	}
	return sure, w.setCounts(named, sizes, sure)
}

func (w *txWriter) recountRecords(inst uint64, name []byte, b *bolt.Bucket, named, sizes map[blobID]int64) (sure bool) {
	sure = true
	chunks := w.tx.Bucket(bucketOf(chunksPrefix, inst))
	cur := b.Cursor()
	for k, v := cur.First(); k != nil; k, v = cur.Next() {
		body, ok := boltfile.Unseal(name, k, v)
		var r storedRecord
		if ok {
			r, ok = decodeRecord(body)
		}
		if !ok {
			sure = false
			continue
		}
		of := map[blobID]int64{}
		if !wholeChunks(chunks, inst, &r) {
			sure = false
		}
		blobsOfRecord(chunks, inst, &r, of)
		for id, size := range of {
			named[id]++
			sizes[id] = size
		}
	}
	return sure
}

// wholeChunks reports whether all chunks of a record that names blobs can be
// read.
func wholeChunks(chunks *bolt.Bucket, inst uint64, r *storedRecord) bool {
	if r.flags&flagBlobs == 0 || r.flags&flagChunked == 0 {
		return true
	}
	if chunks == nil {
		return false
	}
	name := bucketOf(chunksPrefix, inst)
	whole := uint32(0)
	cur := chunks.Cursor()
	for k, v := cur.Seek(appendChunkKey(nil, r.Coord, 0)); k != nil; k, v = cur.Next() {
		last, ok := chunkOf(k, r.Coord)
		if !ok {
			break
		}
		body, ok := boltfile.Unseal(name, k, v)
		if !ok {
			return false
		}
		if _, ok := decodeChunk(body, last); !ok {
			return false
		}
		whole++
	}
	return whole == r.chunks
}

// setCounts writes the counts that differ.
func (w *txWriter) setCounts(named, sizes map[blobID]int64, sure bool) error {
	b := w.bucket(blobsBucket)
	var wrong [][]byte
	cur := b.Cursor()
	for k, v := cur.First(); k != nil; k, v = cur.Next() {
		id, ok := blobOfKey(k)
		n, _, whole := decodeCount(k, v)
		switch {
		case !ok:
			wrong = append(wrong, k)
		case whole && (n == named[id] || n > named[id] && !sure):
			delete(named, id) // as it is
		case named[id] == 0:
			if sure {
				wrong = append(wrong, k)
			}
		}
	}
	for _, k := range wrong {
		if err := deleteCounted(b, k); err != nil {
			return fmt.Errorf("drop count of a blob: %w", err)
		}
	}
	for id, n := range named {
		if !sure {
			n = many
		}
		key := id.key()
		if err := putCounted(b, key, sealCount(key, n, sizes[id])); err != nil {
			return fmt.Errorf("count blob: %w", err)
		}
	}
	return b.SetSequence(counted(b)) // which may have been wrong before
}

// removeStrays removes the blobs without a count. It runs on the writer, after
// the commit that counted them.
func (s *Store) removeStrays() (removed int, err error) {
	named := map[blobID]bool{}
	err = s.file.View(func(tx *bolt.Tx) error {
		cur := tx.Bucket([]byte(blobsBucket)).Cursor()
		for k, _ := cur.First(); k != nil; k, _ = cur.Next() {
			if id, ok := blobOfKey(k); ok {
				named[id] = true
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	entries, err := os.ReadDir(s.blobs.dir)
	if err != nil {
		return 0, fmt.Errorf("sweep blobs: %w", err)
	}
	for _, e := range entries {
		id, ok := blobOfName(e.Name())
		if !ok || e.IsDir() || named[id] {
			continue
		}
		gone, err := s.blobs.remove(id)
		if err != nil {
			return removed, fmt.Errorf("sweep blobs: %w", err)
		}
		if gone {
			removed++
		}
	}
	return removed, nil
}
