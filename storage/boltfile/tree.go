package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// What bbolt's pages look like. A page starts with its number (8 bytes), flags
// (2), number of elements (2) and how many pages it runs on for (4).
const (
	pageHeader  = 16
	branchFlag  = 0x01
	leafFlag    = 0x02
	freeFlag    = 0x10
	elementSize = 16 // of a branch: key's place, key's size, page; of a leaf: flags, place, sizes
	bucketFlag  = 0x01
	bucketSize  = 16 // root page, sequence; the page itself follows if the root is 0
	metaSize    = 64

	boltMagic   = 0xED0CDAED
	boltVersion = 2
	noFreelist  = 1<<64 - 1

	// maxRun bounds what a page that lies about its size may make us read.
	maxRun = 1 << 16
)

// tree is a walk over the branch pages of a file.
type tree struct {
	file     io.ReaderAt
	path     string
	pageSize int
	high     uint64  // pages from here on do not exist
	used     pageSet // pages that something leads to, the first of each run
	tails    pageSet // the others of the runs that were read
	free     pageSet
	freeIDs  []uint64
	stale    bool // the list of free pages, itself in order, names one that is in use
	deep     bool // reads all leaves
}

// checkTree reads the pages that lead to others and returns a *DamagedError if
// following them would leave the file or go in a circle: bbolt would not come
// back from the latter. It costs about one page in a hundred of a large file.
//
// free is what is wrong with the list of free pages, where that is all. Who only
// reads does not need it; who writes would write over pages that are in use.
func checkTree(file *os.File, path string) (free *DamagedError, err error) {
	return checkFile(file, &tree{file: file, path: path})
}

// checkPages is checkTree of all pages, the leaves too: whether every key lies
// within its page, and where a look-up finds it.
func checkPages(file *os.File, path string) error {
	free, err := checkFile(file, &tree{file: file, path: path, deep: true})
	if err == nil && free != nil {
		return free
	}
	return err
}

func checkFile(file *os.File, t *tree) (free *DamagedError, err error) {
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("check database %q: %w", t.path, err)
	}
	root, freelist, err := t.readMeta(info.Size())
	if err != nil {
		return nil, err
	}
	if size := int64(t.high) * int64(t.pageSize); info.Size() < size {
		return nil, t.damaged("is cut short: %d bytes of %d", info.Size(), size)
	}
	if err := t.walk(root, true, nil, nil); err != nil {
		return nil, err
	}
	err = t.readFree(freelist)
	if err == nil {
		err = t.besideFree()
	}
	if errors.As(err, &free) && !t.stale {
		return free, nil
	}
	return nil, err
}

// readMeta reads the newer of the two first pages, as bbolt does.
func (t *tree) readMeta(size int64) (root, freelist uint64, err error) {
	var newest uint64
	le := binary.LittleEndian
	for _, at := range metaPlaces(size) {
		m := make([]byte, metaSize)
		if _, err := t.file.ReadAt(m, at+pageHeader); err != nil {
			continue
		}
		sum := fnv.New64a()
		sum.Write(m[:metaSize-8])
		if le.Uint32(m) != boltMagic || le.Uint32(m[4:]) != boltVersion || le.Uint64(m[56:]) != sum.Sum64() {
			continue
		}
		if at != 0 && at != int64(le.Uint32(m[8:])) {
			continue // a page of the data that looks like a first one
		}
		if txid := le.Uint64(m[48:]); t.pageSize == 0 || txid > newest {
			newest = txid
			t.pageSize = int(le.Uint32(m[8:]))
			root, freelist, t.high = le.Uint64(m[16:]), le.Uint64(m[32:]), le.Uint64(m[40:])
		}
	}
	if t.pageSize < 1024 {
		return 0, 0, t.damaged("is no database file, or both of its first pages are overwritten")
	}
	return root, freelist, nil
}

// metaPlaces are where the two first pages may lie, whatever the page size.
func metaPlaces(size int64) []int64 {
	places := []int64{0}
	for at := int64(1024); at <= 64<<10 && at < size; at *= 2 {
		places = append(places, at)
	}
	return places
}

// readFree reads the list of free pages.
func (t *tree) readFree(id uint64) error {
	if id == noFreelist {
		return nil
	}
	page, err := t.page(id)
	if err != nil {
		return t.damaged("the list of free pages cannot be read")
	}
	if flags(page) != freeFlag {
		return t.damaged("page %d is not the list of free pages", id)
	}
	if err := t.enterAll(id, page); err != nil {
		return t.damaged("the list of free pages lies in pages that are in use")
	}
	ids := page[pageHeader:]
	n := uint64(binary.LittleEndian.Uint16(page[10:]))
	if n == 0xFFFF { // the number did not fit: it is the first entry
		n = binary.LittleEndian.Uint64(ids)
		ids = ids[8:]
	}
	if n > uint64(len(ids)/8) {
		return t.damaged("the list of free pages is longer than its page")
	}
	t.stale = t.usesFree(ids[:8*n])
	for i := range n {
		id := binary.LittleEndian.Uint64(ids[8*i:])
		if t.enter(&t.free, id) != nil {
			return t.damaged("the list of free pages names page %d, which is in use, or named twice, or none", id)
		}
		t.freeIDs = append(t.freeIDs, id)
	}
	return nil
}

// usesFree reports whether a list of free pages that is in order, as bbolt writes
// it, names a page that something leads to: then what leads there is damaged
// rather than the list, and what is read there is of an earlier time.
func (t *tree) usesFree(ids []byte) (uses bool) {
	last := uint64(0)
	for ; len(ids) > 0; ids = ids[8:] {
		id := binary.LittleEndian.Uint64(ids)
		if id <= last || id >= t.high {
			return false
		}
		uses = uses || t.used.has(id)
		last = id
	}
	return uses
}

// besideFree sees whether a page that was not read runs on into a free one: of
// each free page whose neighbour before is not free, it reads the start of the
// page that is used before it.
func (t *tree) besideFree() error {
	head := make([]byte, pageHeader)
	for _, id := range t.freeIDs {
		if t.free.has(id - 1) {
			continue
		}
		before := id - 1
		for before >= 2 && !t.used.has(before) && !t.tails.has(before) && !t.free.has(before) {
			before--
		}
		if before < 2 || !t.used.has(before) {
			continue // what runs up to here was read
		}
		if _, err := t.file.ReadAt(head, int64(before)*int64(t.pageSize)); err != nil {
			return t.unreadable(before, err)
		}
		if before+uint64(binary.LittleEndian.Uint32(head[12:])) >= id {
			return t.damaged("the list of free pages names page %d, which page %d runs on to", id, before)
		}
	}
	return nil
}

// walk follows a page and what it leads to. Each page is entered once, so it
// ends. With buckets set, it goes into the buckets that it meets. A look-up finds
// there what is not below lo and below hi; nil: there is no such bound.
func (t *tree) walk(id uint64, buckets bool, lo, hi []byte) error {
	page, err := t.page(id)
	if err != nil {
		return err
	}
	if err := t.enterAll(id, page); err != nil {
		return err
	}
	switch flags(page) {
	case leafFlag:
		return t.walkLeaf(id, page, buckets, lo, hi)
	case branchFlag:
		return t.walkBranch(id, page, buckets, lo, hi)
	}
	return t.damaged("page %d is of no known kind (%#x)", id, flags(page))
}

// walkBranch follows the children of a branch. All leaves of a tree lie at one
// depth, so where the first child is a leaf, the others need not be read. A
// look-up goes to the last child whose key is not above what it looks for, or to
// the first.
func (t *tree) walkBranch(id uint64, page []byte, buckets bool, lo, hi []byte) error {
	n := count(page)
	if n == 0 || pageHeader+n*elementSize > len(page) {
		return t.damaged("page %d holds %d elements", id, n)
	}
	leaves := false
	for i := range n {
		child := binary.LittleEndian.Uint64(page[pageHeader+i*elementSize+8:])
		if i == 0 {
			first, err := t.page(child)
			if err != nil {
				return err
			}
			leaves = flags(first) == leafFlag && !buckets && !t.deep
		}
		from, upTo, ok := childBounds(page, n, i, lo, hi)
		if !ok {
			return t.damaged("the keys in page %d are out of order", id)
		}
		var err error
		if leaves {
			err = t.enter(&t.used, child)
		} else {
			err = t.walk(child, buckets, from, upTo)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// childBounds are the bounds of child i of the n of a branch, which has to keep
// within its own.
func childBounds(page []byte, n, i int, lo, hi []byte) (from, upTo []byte, ok bool) {
	key, ok := branchKey(page, i)
	if !ok {
		return nil, nil, false
	}
	if from = lo; i > 0 {
		from = key
	}
	if i == n-1 {
		return from, hi, true
	}
	upTo, ok = branchKey(page, i+1)
	if !ok || bytes.Compare(key, upTo) >= 0 || hi != nil && bytes.Compare(upTo, hi) >= 0 || lo != nil && bytes.Compare(upTo, lo) < 0 {
		return nil, nil, false
	}
	return from, upTo, true
}

// walkLeaf sees whether the elements of a leaf lie within it, and where a look-up
// finds them, and goes into buckets.
func (t *tree) walkLeaf(id uint64, page []byte, buckets bool, lo, hi []byte) error {
	n := count(page)
	if pageHeader+n*elementSize > len(page) {
		return t.damaged("page %d holds %d elements", id, n)
	}
	for i := range n {
		kind, key, from, to := leafElement(page, pageHeader+i*elementSize)
		if to > uint64(len(page)) {
			return t.damaged("an element of page %d lies outside of it", id)
		}
		if (kind&bucketFlag != 0) != buckets {
			return t.damaged("page %d has a value among the buckets, or a bucket among the values", id)
		}
		name := page[key:from]
		if lo != nil && bytes.Compare(name, lo) < 0 || i > 0 && bytes.Equal(name, lo) || hi != nil && bytes.Compare(name, hi) >= 0 {
			return t.damaged("the keys in page %d are out of order", id)
		}
		lo = name
		if !buckets {
			continue
		}
		if err := t.walkBucket(id, page[from:to]); err != nil {
			return err
		}
	}
	return nil
}

// walkBucket follows a bucket, or looks at the page that a small one holds.
func (t *tree) walkBucket(id uint64, bucket []byte) error {
	if len(bucket) < bucketSize {
		return t.damaged("a bucket in page %d is cut short", id)
	}
	if root := binary.LittleEndian.Uint64(bucket); root != 0 {
		return t.walk(root, false, nil, nil)
	}
	if !wholeLeaf(bucket[bucketSize:]) {
		return t.damaged("a bucket in page %d makes no sense", id)
	}
	return nil
}

// wholeLeaf reports whether a leaf that lies in another page keeps within its
// bounds. bbolt copies it out of the map, so where it points beyond them there
// is no fault, but the memory of something else, and the garbage collector
// ends the process if it meets such a pointer.
func wholeLeaf(page []byte) bool {
	if len(page) < pageHeader || flags(page) != leafFlag || pageHeader+count(page)*elementSize > len(page) {
		return false
	}
	for i := range count(page) {
		at := pageHeader + i*elementSize
		kind, _, _, to := leafElement(page, at)
		if kind != 0 || to > uint64(len(page)) {
			return false
		}
	}
	return true
}

// leafElement reads the element of a leaf at a place: its flags, and where its
// key starts, its value starts, and both end.
func leafElement(page []byte, at int) (kind uint32, key, value, to uint64) {
	le := binary.LittleEndian
	e := page[at : at+elementSize]
	key = uint64(at) + uint64(le.Uint32(e[4:]))
	value = key + uint64(le.Uint32(e[8:]))
	return le.Uint32(e), key, value, value + uint64(le.Uint32(e[12:]))
}

// page reads a page with all that it runs on for.
func (t *tree) page(id uint64) ([]byte, error) {
	if id < 2 || id >= t.high {
		return nil, t.damaged("page %d is not one of %d", id, t.high)
	}
	page := make([]byte, t.pageSize)
	if _, err := t.file.ReadAt(page, int64(id)*int64(t.pageSize)); err != nil {
		return nil, t.unreadable(id, err)
	}
	if got := binary.LittleEndian.Uint64(page); got != id {
		return nil, t.damaged("page %d says that it is page %d", id, got)
	}
	more := uint64(binary.LittleEndian.Uint32(page[12:]))
	if more == 0 || flags(page) == leafFlag && more > maxRun {
		return page, nil
	}
	if id+more >= t.high {
		return nil, t.damaged("page %d runs on beyond the end", id)
	}
	run := make([]byte, (1+more)*uint64(t.pageSize))
	if _, err := t.file.ReadAt(run, int64(id)*int64(t.pageSize)); err != nil {
		return nil, t.unreadable(id, err)
	}
	return run, nil
}

// enterAll notes a page that was read as used, with all that it runs on for.
func (t *tree) enterAll(id uint64, page []byte) error {
	if err := t.enter(&t.used, id); err != nil {
		return err
	}
	for n := 1; n < len(page)/t.pageSize; n++ {
		if err := t.enter(&t.tails, id+uint64(n)); err != nil {
			return err
		}
	}
	return nil
}

// enter notes a page in a set that it may be in only once, and that no other
// set may have.
func (t *tree) enter(set *pageSet, id uint64) error {
	if id < 2 || id >= t.high {
		return t.damaged("page %d is not one of %d", id, t.high)
	}
	if t.free.has(id) || t.used.has(id) || t.tails.has(id) {
		return t.damaged("page %d is used twice", id)
	}
	set.add(id, t.high)
	return nil
}

func (t *tree) damaged(format string, args ...any) error {
	return &DamagedError{Path: t.path, Detail: fmt.Sprintf(format, args...)}
}

// unreadable tells a file that ends too early from a disk that fails.
func (t *tree) unreadable(id uint64, err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return t.damaged("page %d lies beyond the end", id)
	}
	return fmt.Errorf("read page %d of %q: %w", id, t.path, err)
}

func flags(page []byte) uint16 { return binary.LittleEndian.Uint16(page[8:]) }
func count(page []byte) int    { return int(binary.LittleEndian.Uint16(page[10:])) }

// pageSet is a set of page numbers.
type pageSet []uint64

func (s pageSet) has(id uint64) bool {
	return id/64 < uint64(len(s)) && s[id/64]&(1<<(id%64)) != 0
}

func (s *pageSet) add(id, high uint64) {
	if *s == nil {
		*s = make(pageSet, high/64+1)
	}
	(*s)[id/64] |= 1 << (id % 64)
}
