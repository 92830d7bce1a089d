package storage

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"operon/spec/coord"
	"operon/storage/boltfile"
)

// many is the count of a blob whose true count is not known: it will not come
// down to 0, so the blob stays until Sweep has counted anew.
const many = 1 << 40

// count changes how many records name a blob.
func (w *txWriter) count(id blobID, size int64, by int64) error {
	b := w.bucket(blobsBucket)
	key := id.key()
	n := int64(0)
	if v := b.Get(key); v != nil {
		old, _, ok := decodeCount(key, v)
		if n = old; !ok {
			n = many
		}
	} else if by < 0 {
		return nil // its entry was lost: there is nothing to count down
	}
	n += by
	if n <= 0 {
		w.freed[id] = struct{}{}
		if err := deleteCounted(b, key); err != nil {
			return fmt.Errorf("count blob: %w", err)
		}
		return nil
	}
	delete(w.freed, id)
	if err := putCounted(b, key, sealCount(key, n, size)); err != nil {
		return fmt.Errorf("count blob: %w", err)
	}
	return nil
}

func sealCount(key []byte, n, size int64) []byte {
	body := binary.AppendUvarint(nil, uint64(n))
	body = binary.AppendUvarint(body, uint64(size))
	return boltfile.Seal([]byte(blobsBucket), key, body)
}

func decodeCount(key, v []byte) (n, size int64, ok bool) {
	body, ok := boltfile.Unseal([]byte(blobsBucket), key, v)
	if !ok {
		return 0, 0, false
	}
	f := boltfile.NewFields(body)
	n, size = takeSize(f), takeSize(f)
	return n, size, f.Err() == nil
}

// freeUncounted frees the blobs of an output that is not going to be put,
// those that nothing else names.
func (w *txWriter) freeUncounted(o *Output) {
	if o == nil {
		return
	}
	b := w.bucket(blobsBucket)
	for _, id := range o.blobs {
		if b.Get(id.key()) == nil {
			w.freed[id] = struct{}{}
		}
	}
}

// forgetOutput removes the chunks of a record and counts its blobs down. What
// is damaged is removed without counting; Sweep finds the blobs later.
func (w *txWriter) forgetOutput(in *instWriter, inst uint64, c coord.Coord, key, v []byte) error {
	var r storedRecord
	body, ok := boltfile.Unseal(in.recordsName, key, v)
	if ok {
		r, ok = decodeRecord(body)
	}
	if !ok {
		w.store.log.Warn("replace damaged record", "instance", inst, "job", c.Indices())
		r = storedRecord{flags: flagChunked | flagBlobs} // it may have had them
	}
	named := map[blobID]int64{}
	if r.flags&flagBlobs != 0 {
		blobsOfInline(r.inline, named)
	}
	if r.flags&flagChunked != 0 {
		if err := w.forgetChunks(in, c, r.flags&flagBlobs != 0, named); err != nil {
			return err
		}
	}
	for id, size := range named {
		if err := w.count(id, size, -1); err != nil {
			return err
		}
	}
	return nil
}

// forgetChunks removes the chunks of a job and collects the blobs they name.
func (w *txWriter) forgetChunks(in *instWriter, c coord.Coord, blobs bool, named map[blobID]int64) error {
	if in.chunks == nil {
		return nil
	}
	var keys [][]byte
	cur := in.chunks.Cursor()
	for k, v := cur.Seek(appendChunkKey(nil, c, 0)); k != nil; k, v = cur.Next() {
		last, ok := chunkOf(k, c)
		if !ok {
			break
		}
		if blobs {
			blobsOfChunk(in.chunksName, k, v, last, named)
		}
		keys = append(keys, k)
	}
	for _, k := range keys {
		if err := in.chunks.Delete(k); err != nil {
			return fmt.Errorf("drop items of job %v: %w", c.Indices(), err)
		}
	}
	return nil
}

// blobsOfInline collects the blobs that inline items name, with their sizes.
func blobsOfInline(inline []byte, named map[blobID]int64) {
	for f := boltfile.NewFields(inline); f.More(); {
		it := takeItem(f)
		if id, size, ok := it.blob(); ok {
			named[id] = size
		}
	}
}

// blobsOfChunk collects the blobs that a chunk names, none if it is damaged.
func blobsOfChunk(bucket, k, v []byte, last uint32, named map[blobID]int64) {
	body, ok := boltfile.Unseal(bucket, k, v)
	if !ok {
		return
	}
	view, ok := decodeChunk(body, last)
	if !ok {
		return
	}
	blobsOfInline(view.data, named)
}

// blobsOfRecord collects the blobs that a stored record names.
func blobsOfRecord(chunks *bolt.Bucket, inst uint64, r *storedRecord, named map[blobID]int64) {
	if r.flags&flagBlobs == 0 {
		return
	}
	blobsOfInline(r.inline, named)
	if r.flags&flagChunked == 0 || chunks == nil {
		return
	}
	name := bucketOf(chunksPrefix, inst)
	cur := chunks.Cursor()
	for k, v := cur.Seek(appendChunkKey(nil, r.Coord, 0)); k != nil; k, v = cur.Next() {
		last, ok := chunkOf(k, r.Coord)
		if !ok {
			return
		}
		blobsOfChunk(name, k, v, last, named)
	}
}
