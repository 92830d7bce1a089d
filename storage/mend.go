package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"operon/storage/boltfile"
)

// CheckPages reads every page of data.db. One that makes no sense, is led to twice,
// or has keys where no look-up finds them is a *boltfile.DamagedError: whatever is
// written then spoils more, and Salvage is what helps.
func (s *Store) CheckPages() error { return s.file.CheckPages() }

// Mend brings what the rest hangs on back into order, as far as it is damaged:
// keys that make no sense, or lie where a look-up does not find them, go; so do
// headers, notes of drops and lists of commits that can't be read, buckets that
// belong to no instance, and a footprint that can't be read; counts of keys
// become true again. Records and failures that can't be read stay, for the
// caller to drop, and counts of blobs are Sweep's. It reports whether it changed
// anything. Nobody may submit or read meanwhile. It waits for its commit.
//
// A data.db whose pages are damaged can't be mended in its place: see CheckPages.
func (s *Store) Mend(ctx context.Context) (changed bool, err error) {
	if s.file.ReadOnly() {
		return false, ErrReadOnly
	}
	done := make(chan error, 1)
	s.file.Submit(boltfile.Commit{
		Apply: func(tx *bolt.Tx) (err error) {
			changed, err = mend(tx)
			return err
		},
		Done:   func(err error) { done <- err },
		Urgent: true,
	})
	select {
	case err = <-done:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	if err == nil && changed {
		err = s.file.View(func(tx *bolt.Tx) error {
			s.pending.reload(tx)
			return nil
		})
	}
	return changed, err
}

// reload reads what is kept in memory anew.
func (o *overlay) reload(tx *bolt.Tx) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.footprint, o.unread = nil, nil
	clear(o.headers)
	clear(o.broken)
	o.loadHeaders(tx)
	o.loadDrops(tx)
	o.loadFootprint(tx)
}

// mend mends every bucket: first those that say which others there are.
func mend(tx *bolt.Tx) (changed bool, err error) {
	some := func(more bool, fault error) {
		changed = changed || more
		if err == nil {
			err = fault
		}
	}
	some(mendBucket(tx, []byte(stateBucket), false, func(k, v []byte) bool {
		switch string(k) {
		case formatKey, nextKey, commitKey, bucketsKey:
			return true
		}
		body, ok := boltfile.Unseal([]byte(stateBucket), k, v)
		if ok {
			_, ok = decodeFootprint(body)
		}
		return ok && string(k) == footprintKey
	}))
	some(mendBucket(tx, []byte(headersBucket), true, func(k, v []byte) bool {
		body, ok := boltfile.Unseal([]byte(headersBucket), k, v)
		if !ok || len(k) != 8 {
			return false
		}
		h, ok := decodeHeader(body)
		return ok && h.ID == binary.BigEndian.Uint64(k)
	}))
	some(mendBucket(tx, []byte(dropsBucket), true, func(k, v []byte) bool {
		_, _, ok := decodeDrop(k, v)
		return ok
	}))
	some(mendBucket(tx, []byte(commitsBucket), true, func(k, v []byte) bool {
		body, ok := boltfile.Unseal([]byte(commitsBucket), k, v)
		if ok {
			_, ok = decodeJobs(body, maxListed)
		}
		return ok && len(k) == 8
	}))
	some(mendBucket(tx, []byte(blobsBucket), true, func(k, _ []byte) bool {
		_, ok := blobOfKey(k)
		return ok
	}))
	if err == nil {
		some(mendInstances(tx))
	}
	if err == nil {
		some(mendBuckets(tx))
	}
	return changed, err
}

// mendBuckets makes the number of buckets true.
func mendBuckets(tx *bolt.Tx) (changed bool, err error) {
	if n, err := number(tx, bucketsKey); err == nil && n == counted(tx.Cursor().Bucket()) {
		return false, nil
	}
	return true, recountBuckets(tx)
}

// mendInstances mends the buckets of instances, and deletes those of none.
func mendInstances(tx *bolt.Tx) (changed bool, err error) {
	var keep, drop [][]byte
	err = tx.ForEach(func(name []byte, _ *bolt.Bucket) error {
		switch string(name) {
		case stateBucket, headersBucket, dropsBucket, commitsBucket, blobsBucket:
			return nil
		}
		if ofInstance(tx, name) {
			keep = append(keep, bytes.Clone(name))
		} else {
			drop = append(drop, bytes.Clone(name))
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("mend buckets: %w", err)
	}
	for _, name := range drop {
		if err := tx.DeleteBucket(name); err != nil {
			return false, fmt.Errorf("mend bucket %q: %w", name, err)
		}
	}
	changed = len(drop) > 0
	for _, name := range keep {
		more, err := mendBucket(tx, name, name[0] != chunksPrefix, func(k, _ []byte) bool {
			if name[0] == chunksPrefix {
				return len(k) >= 4 && len(k)%4 == 0
			}
			_, ok := jobOf(k)
			return ok
		})
		if err != nil {
			return false, err
		}
		changed = changed || more
	}
	return changed, nil
}

// ofInstance reports whether a bucket is of an instance that has a header, or
// is being dropped.
func ofInstance(tx *bolt.Tx, name []byte) bool {
	if len(name) != 9 {
		return false
	}
	switch name[0] {
	case recordsPrefix, chunksPrefix, failuresPrefix:
		return tx.Bucket([]byte(headersBucket)).Get(name[1:]) != nil || tx.Bucket([]byte(dropsBucket)).Get(name[1:]) != nil
	}
	return false
}

// mendBucket removes the keys that good does not accept or that a look-up does
// not find, and makes the count of keys true.
func mendBucket(tx *bolt.Tx, name []byte, counts bool, good func(k, v []byte) bool) (changed bool, err error) {
	b := tx.Bucket(name)
	whole, n := true, uint64(0)
	c, again := b.Cursor(), b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		found, _ := again.Seek(k)
		whole = whole && bytes.Equal(found, k) && good(k, v)
		n++
	}
	if !whole {
		if b, n, err = rewrite(tx, name, b, good); err != nil {
			return false, fmt.Errorf("mend bucket %q: %w", name, err)
		}
	}
	if counts && b.Sequence() != n {
		whole = false
		if err := b.SetSequence(n); err != nil {
			return false, fmt.Errorf("mend bucket %q: %w", name, err)
		}
	}
	return !whole, nil
}

// rewrite makes a bucket anew of its good keys.
func rewrite(tx *bolt.Tx, name []byte, b *bolt.Bucket, good func(k, v []byte) bool) (*bolt.Bucket, uint64, error) {
	type pair struct{ k, v []byte }
	var pairs []pair
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if v != nil && good(k, v) {
			pairs = append(pairs, pair{bytes.Clone(k), bytes.Clone(v)})
		}
	}
	if err := tx.DeleteBucket(name); err != nil {
		return nil, 0, err
	}
	b, err := tx.CreateBucket(name)
	if err != nil {
		return nil, 0, err
	}
	n := uint64(0)
	for _, p := range pairs {
		if len(p.k) == 0 {
			continue
		}
		if b.Get(p.k) == nil {
			n++
		}
		if err := b.Put(p.k, p.v); err != nil {
			return nil, 0, err
		}
	}
	return b, n, nil
}
