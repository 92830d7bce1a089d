package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// SalvageOptions say what Salvage takes for whole.
type SalvageOptions struct {
	Options // Timeout, and Hook with before:salvage and after:salvage around the swap
	// Whole reports whether a value is the one that was put under a key of a
	// bucket. It is asked of what no page leads to any more, to tell its bucket;
	// the rest is copied as it is, whole or not.
	Whole func(bucket, k, v []byte) bool
	// Buckets names the buckets that there may be, after what pages still lead to
	// has been copied: what lies in pages that nothing leads to any more is looked
	// for under them. It is called again as long as more is found.
	Buckets func(*bolt.Tx) [][]byte
	// Finish makes the copy good: counts, what must be there. Its error ends it,
	// and nothing has changed.
	Finish func(*bolt.Tx) error
}

// Salvaged is what Salvage did.
type Salvaged struct {
	Aside string // where the damaged file lies now
	Keys  int    // copied
	Lost  int    // pages that could not be read
}

// Salvage copies all that can still be read of the damaged database file at path
// into a new one, and puts that in its place in one step; the damaged one is kept
// beside it. Nobody may have the file open. Of a file whose two first pages are
// both lost nothing can be read: that is a *DamagedError.
//
// What pages do not lead to any more, since one on the way is lost, is found
// where the list of free pages is whole: pages that are neither free nor led to.
func Salvage(path string, o SalvageOptions) (*Salvaged, error) {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if err := inspect(path); err != nil {
		return nil, err
	}
	from, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("salvage database: %w", err)
	}
	defer from.Close()
	temp := path + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("salvage database: %w", err)
	}
	s, err := salvageTo(temp, from, path, o)
	if err != nil {
		_ = os.Remove(temp)
		return nil, err
	}
	o.hook("before:salvage")
	if s.Aside, err = linkAside(path); err == nil {
		err = os.Rename(temp, path)
	}
	if err == nil {
		err = SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, fmt.Errorf("salvage database %q: %w", path, withCause(err))
	}
	o.hook("after:salvage")
	return s, nil
}

// linkAside gives the file at path a second name, and returns that.
func linkAside(path string) (string, error) {
	for n := 1; ; n++ {
		to := fmt.Sprintf("%s.damaged-%d", path, n)
		err := os.Link(path, to)
		if !errors.Is(err, fs.ErrExist) {
			return to, err
		}
	}
}

// salvageTo makes a whole, synced database at temp of what can be read.
func salvageTo(temp string, from *os.File, path string, o SalvageOptions) (*Salvaged, error) {
	info, err := from.Stat()
	if err != nil {
		return nil, fmt.Errorf("salvage database %q: %w", path, err)
	}
	w := &salvage{o: o, tree: tree{file: from, path: path}}
	root, freelist, err := w.readMeta(info.Size())
	if err != nil {
		return nil, err
	}
	if have := uint64(info.Size()) / uint64(w.pageSize); w.high > have || w.high < 2 {
		w.lost += int(w.high - min(w.high, have))
		w.high = have
	}
	db, err := bolt.Open(temp, 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType, Timeout: o.Timeout, NoSync: true, NoGrowSync: true})
	if err != nil {
		return nil, fmt.Errorf("copy database to %q: %w", temp, withCause(err))
	}
	w.db = db
	err = w.all(root, freelist)
	if err == nil && o.Finish != nil {
		err = db.Update(o.Finish)
	}
	if err == nil {
		err = db.Sync()
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, fmt.Errorf("copy database to %q: %w", temp, withCause(err))
	}
	return &Salvaged{Keys: w.keys, Lost: w.lost}, nil
}

// salvage is one copy of what can be read.
type salvage struct {
	tree
	o    SalvageOptions
	db   *bolt.DB
	tx   *bolt.Tx
	held int // bytes that tx holds
	keys int
	lost int // pages
}

// all copies what pages lead to, and then what they do not.
func (w *salvage) all(root, freelist uint64) (err error) {
	if w.tx, err = w.db.Begin(true); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = w.tx.Rollback() // the copy comes to nothing
		} else {
			err = w.tx.Commit()
		}
	}()
	if err := w.page(root, nil); err != nil {
		return err
	}
	whole := w.readFree(freelist) == nil && w.besideFree() == nil
	if !whole || w.lost == 0 {
		return nil
	}
	return w.orphans()
}

// page copies what lies under a page: of a bucket, or the buckets, if name is
// nil. Pages that can't be read are counted.
func (w *salvage) page(id uint64, name []byte) error {
	if w.enter(&w.used, id) != nil {
		w.lost++
		return nil
	}
	page, err := w.tree.page(id)
	if err != nil {
		var damaged *DamagedError
		if errors.As(err, &damaged) {
			w.lost++
			return nil
		}
		return err
	}
	n := count(page)
	if pageHeader+n*elementSize > len(page) {
		w.lost++
		return nil
	}
	for i := 1; i < len(page)/w.pageSize; i++ {
		_ = w.enter(&w.tails, id+uint64(i)) // so that it is not looked at by itself
	}
	switch flags(page) {
	case leafFlag:
		return w.leaf(page, n, name)
	case branchFlag:
		for i := range n {
			if err := w.page(binary.LittleEndian.Uint64(page[pageHeader+i*elementSize+8:]), name); err != nil {
				return err
			}
		}
		return nil
	}
	w.lost++
	return nil
}

// leaf copies the elements of a leaf.
func (w *salvage) leaf(page []byte, n int, name []byte) error {
	for i := range n {
		kind, from, to, end := leafElement(page, pageHeader+i*elementSize)
		if from > to || to > end || end > uint64(len(page)) {
			w.lost++
			continue
		}
		k, v := page[from:to:to], page[to:end:end]
		var err error
		switch {
		case kind&bucketFlag == 0 && name != nil:
			err = w.put(name, k, v)
		case kind&bucketFlag != 0 && name == nil && len(k) > 0:
			err = w.bucket(k, v)
		default:
			w.lost++
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bucket copies a bucket, as the list of buckets has it.
func (w *salvage) bucket(name, header []byte) error {
	if len(header) < bucketSize {
		w.lost++
		return nil
	}
	if root := binary.LittleEndian.Uint64(header); root != 0 {
		return w.page(root, bytes.Clone(name))
	}
	page := header[bucketSize:]
	if len(page) < pageHeader || flags(page) != leafFlag || pageHeader+count(page)*elementSize > len(page) {
		w.lost++
		return nil
	}
	return w.leaf(page, count(page), bytes.Clone(name))
}

// put copies a key if the copy has none.
func (w *salvage) put(name, k, v []byte) error {
	if len(k) == 0 || len(k) > bolt.MaxKeySize {
		return nil
	}
	b, err := w.tx.CreateBucketIfNotExists(name)
	if err != nil || b.Get(k) != nil {
		return err
	}
	if err := b.Put(bytes.Clone(k), bytes.Clone(v)); err != nil {
		return err
	}
	w.keys++
	if w.held += len(k) + len(v); w.held < copyStep {
		return nil
	}
	w.held = 0
	if err := w.tx.Commit(); err != nil {
		return err
	}
	w.tx, err = w.db.Begin(true)
	return err
}

// orphans copies what lies in leaves that are neither free nor led to.
func (w *salvage) orphans() error {
	var leaves [][]byte
	var left []uint64
	for id := uint64(2); id < w.high; id++ {
		if w.used.has(id) || w.tails.has(id) || w.free.has(id) {
			continue
		}
		page, err := w.tree.page(id)
		if err != nil || pageHeader+count(page)*elementSize > len(page) {
			continue // one in the middle of a value, or lost
		}
		for i := 1; i < len(page)/w.pageSize; i++ {
			_ = w.enter(&w.tails, id+uint64(i))
		}
		if flags(page) != leafFlag {
			continue
		}
		if kind, _, _, _ := leafElement(append(page, make([]byte, elementSize)...), pageHeader); count(page) > 0 && kind&bucketFlag != 0 {
			leaves = append(leaves, page) // of the list of buckets: they lead to others
			continue
		}
		left = append(left, id)
	}
	for _, page := range leaves {
		if err := w.leaf(page, count(page), nil); err != nil {
			return err
		}
	}
	for found := true; found; {
		found = false
		names := w.o.Buckets(w.tx)
		for n, id := range left {
			if id == 0 || w.used.has(id) {
				continue // copied, or led to by what was found
			}
			copied, err := w.orphan(id, names)
			if err != nil {
				return err
			}
			if copied {
				left[n], found = 0, true
			}
		}
	}
	return nil
}

// orphan copies a leaf to the bucket that the first of its elements which is
// whole is of, and reports whether there is one.
func (w *salvage) orphan(id uint64, names [][]byte) (copied bool, err error) {
	page, err := w.tree.page(id)
	if err != nil {
		return false, nil // it was readable before: what is lost is lost
	}
	var of []byte
	for i := range count(page) {
		kind, from, to, end := leafElement(page, pageHeader+i*elementSize)
		if kind != 0 || from > to || to > end || end > uint64(len(page)) {
			continue
		}
		k, v := page[from:to:to], page[to:end:end]
		for n := 0; of == nil && n < len(names); n++ {
			if w.o.Whole(names[n], k, v) {
				of = names[n]
			}
		}
		if of == nil || !w.o.Whole(of, k, v) {
			continue
		}
		if err := w.put(of, k, v); err != nil {
			return true, err
		}
	}
	return of != nil, nil
}
