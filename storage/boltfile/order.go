package boltfile

import (
	"bytes"
	"encoding/binary"

	bolt "go.etcd.io/bbolt"
)

// maxDepth is deeper than any tree of pages is.
const maxDepth = 32

// InOrder reads the pages of a top-level bucket as tx sees it, and reports
// whether every key lies where a look-up finds it, and how many keys there are.
// It costs a comparison a key, where a look-up costs one for each level of a
// search. False says nothing yet: looking every key up tells which one is not
// found. b is the bucket of that name.
func (f *File) InOrder(tx *bolt.Tx, b *bolt.Bucket) (keys uint64, ok bool) {
	root := uint64(b.Root())
	if root == 0 {
		return inOrderBySearch(b)
	}
	o := &order{tree: tree{file: f.raw, path: f.path, pageSize: f.db.Info().PageSize, high: uint64(tx.Size()) / uint64(f.db.Info().PageSize)}}
	if !o.walk(root, 0, nil, nil) {
		return 0, false
	}
	return o.keys, true
}

// inOrderBySearch is InOrder of a bucket that is so small that it lies in
// another's page.
func inOrderBySearch(b *bolt.Bucket) (keys uint64, ok bool) {
	c, again := b.Cursor(), b.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		if found, _ := again.Seek(k); !bytes.Equal(found, k) {
			return 0, false
		}
		keys++
	}
	return keys, true
}

// order is a walk over all pages of a bucket.
type order struct {
	tree
	levels [maxDepth][]byte // the page under way of each level
	keys   uint64
}

// walk reports whether the keys under a page ascend from lo on and stay below
// hi; nil: there is no such bound.
func (o *order) walk(id uint64, level int, lo, hi []byte) bool {
	if level >= maxDepth || !o.read(id, level) {
		return false
	}
	page := o.levels[level]
	n := count(page)
	if pageHeader+n*elementSize > len(page) {
		return false
	}
	switch flags(page) {
	case leafFlag:
		o.keys += uint64(n)
		for i := range n {
			key, ok := leafKey(page, i)
			if !ok || i == 0 && lo != nil && bytes.Compare(key, lo) < 0 || i > 0 && bytes.Compare(lo, key) >= 0 {
				return false
			}
			lo = key
		}
		return n == 0 || hi == nil || bytes.Compare(lo, hi) < 0
	case branchFlag:
		return n > 0 && o.walkChildren(page, n, level, lo, hi)
	}
	return false
}

// walkChildren walks what a branch leads to.
func (o *order) walkChildren(page []byte, n, level int, lo, hi []byte) bool {
	for i := range n {
		from, upTo, ok := childBounds(page, n, i, lo, hi)
		if !ok || !o.walk(binary.LittleEndian.Uint64(page[pageHeader+i*elementSize+8:]), level+1, from, upTo) {
			return false
		}
	}
	return true
}

// read reads a page, with all that it runs on for, in the place of the one that
// was read last at its level.
func (o *order) read(id uint64, level int) bool {
	if id < 2 || id >= o.high {
		return false
	}
	if o.levels[level] == nil {
		o.levels[level] = make([]byte, o.pageSize)
	}
	page := o.levels[level][:o.pageSize]
	if _, err := o.file.ReadAt(page, int64(id)*int64(o.pageSize)); err != nil || binary.LittleEndian.Uint64(page) != id {
		return false
	}
	more := uint64(binary.LittleEndian.Uint32(page[12:]))
	if more > maxRun || id+more >= o.high {
		return false
	}
	if size := int(1+more) * o.pageSize; more > 0 {
		if page = o.levels[level]; cap(page) < size {
			page = make([]byte, size)
		}
		page = page[:size]
		if _, err := o.file.ReadAt(page, int64(id)*int64(o.pageSize)); err != nil {
			return false
		}
	}
	o.levels[level] = page
	return true
}

// leafKey is the key of an element of a leaf, which has to be no bucket, and
// whether the element lies in the page.
func leafKey(page []byte, i int) (key []byte, ok bool) {
	kind, from, to, end := leafElement(page, pageHeader+i*elementSize)
	if kind != 0 || from > to || to > end || end > uint64(len(page)) {
		return nil, false
	}
	return page[from:to:to], true
}

// branchKey is the key of an element of a branch.
func branchKey(page []byte, i int) (key []byte, ok bool) {
	at := pageHeader + i*elementSize
	e := page[at : at+elementSize]
	from := uint64(at) + uint64(binary.LittleEndian.Uint32(e))
	to := from + uint64(binary.LittleEndian.Uint32(e[4:]))
	if to > uint64(len(page)) {
		return nil, false
	}
	return page[from:to:to], true
}
