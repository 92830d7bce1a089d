package storage

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"operon/spec/coord"
	"operon/spec/value"
)

// Report counts what Check has looked at.
type Report struct {
	Records  uint64
	Values   uint64 // items
	Blobs    uint64 // named by records
	Failures uint64
	// What a kill may leave, and no fault: chunks of jobs without a record,
	// files in the folder of blobs that no record names.
	StrayChunks uint64
	StrayFiles  uint64
}

// CheckJob reads the record and values of a job without handing them out, and
// returns a *Damage if they are not what was written, ErrNoRecord or
// ErrReleased if there are none. It looks for the blobs and their sizes; if
// deep, it also reads them, and verifies the digest of the output.
func (r *Reader) CheckJob(inst uint64, job coord.Coord, deep bool) error {
	rec, out, err := r.find(inst, job)
	if err != nil {
		return err
	}
	if rec == nil {
		return ErrNoRecord
	}
	return r.checkOutput(inst, rec, out, deep)
}

func (r *Reader) checkOutput(inst uint64, rec *storedRecord, out *Output, deep bool) error {
	if rec.released() || r.store.pending.valuesGone(inst) {
		return ErrReleased
	}
	identity := newIdentity(int(rec.items()))
	at := func(i uint32, err error) error {
		var d *Damage
		if errors.As(err, &d) {
			return &Damage{Kind: d.Kind, Instance: inst, Coord: rec.Coord, Detail: fmt.Sprintf("item %d: %s", i, d.Detail)}
		}
		return err
	}
	err := r.items(inst, rec, out, func(i uint32, it *item) error {
		if err := r.store.checkBlob(it, deep); err != nil {
			return at(i, err)
		}
		if !deep {
			return nil
		}
		v, err := r.store.value(it, false)
		if err != nil {
			return at(i, err)
		}
		v.WriteIdentity(identity)
		return nil
	})
	if err != nil || !deep {
		return err
	}
	if value.Digest(identity.Sum(nil)) != rec.Digest {
		return &Damage{Kind: DamagedValues, Instance: inst, Coord: rec.Coord, Detail: "the values do not have the digest that the record tells"}
	}
	return nil
}

// items calls fn with each item of a job. Their memory may be the
// transaction's.
func (r *Reader) items(inst uint64, rec *storedRecord, out *Output, fn func(i uint32, it *item) error) error {
	if rec.flags&flagInlined != 0 {
		return inlineItems(inst, rec, rec.items(), fn)
	}
	n := rec.items()
	chunks := uint32(0)
	for i := uint32(0); i < n; chunks++ {
		view, err := r.chunk(inst, rec.Coord, out, i)
		if err != nil {
			return err
		}
		for ; i < n; i++ {
			it, ok := view.item(i)
			if !ok {
				return &Damage{Kind: DamagedValues, Instance: inst, Coord: rec.Coord, Detail: fmt.Sprintf("item %d makes no sense", i)}
			}
			if err := fn(i, &it); err != nil {
				return err
			}
			if i == view.last {
				i++
				break
			}
		}
	}
	if chunks != rec.chunks {
		return &Damage{Kind: DamagedValues, Instance: inst, Coord: rec.Coord, Detail: fmt.Sprintf("there are %d chunks of items, not %d", chunks, rec.chunks)}
	}
	return nil
}

// checkBlob looks whether the blob of an item is there, and reads it if deep.
func (s *Store) checkBlob(it *item, deep bool) error {
	id, size, ok := it.blob()
	if !ok {
		return nil
	}
	got, err := s.blobExists(id)
	if err != nil {
		return err
	}
	if got != size {
		return &Damage{Kind: DamagedBlob, Detail: fmt.Sprintf("blob %s has %d bytes of %d", id.name(), got, size)}
	}
	if !deep || it.kind == itemBlob { // value verifies the latter
		return nil
	}
	f, err := os.Open(s.blobs.path(id))
	if err != nil {
		return fmt.Errorf("read blob: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("read blob: %w", err)
	}
	if value.Digest(h.Sum(nil)) != id.digest {
		return &Damage{Kind: DamagedBlob, Detail: fmt.Sprintf("blob %s is not what was written", id.name())}
	}
	return nil
}

// Check reads everything and calls fault with all that is damaged, until that
// returns an error: headers, records and their values as CheckJob does,
// failures, lists of commits, jobs that a look-up would not find, numbers of
// records and counts of blobs that are not true.
func (r *Reader) Check(deep bool, fault func(*Damage) error) (Report, error) {
	return r.CheckEach(deep, func() error { return nil }, fault)
}

// CheckEach is Check, and calls each before it looks at a record, until that
// returns an error.
func (r *Reader) CheckEach(deep bool, each func() error, fault func(*Damage) error) (Report, error) {
	c := checker{r: r, deep: deep, each: each, fault: fault, named: map[blobID]int64{}}
	for _, part := range []func() error{c.headers, c.instances, c.lists, c.counts, c.files} {
		if err := part(); err != nil {
			return c.report, err
		}
	}
	return c.report, nil
}

type checker struct {
	r      *Reader
	deep   bool
	each   func() error
	fault  func(*Damage) error
	report Report
	named  map[blobID]int64 // blobs that records name, and how many
	blind  bool             // something that may name blobs could not be read
}

// note passes damage to fault, and any other error on.
func (c *checker) note(err error) error {
	var d *Damage
	if errors.As(err, &d) {
		return c.fault(d)
	}
	return err
}

func (c *checker) headers() error {
	if _, _, err := c.r.Footprint(); err != nil {
		if err := c.note(err); err != nil {
			return err
		}
	}
	o := &c.r.store.pending
	o.mu.RLock()
	broken := make([]*Damage, 0, len(o.broken))
	for _, d := range o.broken {
		broken = append(broken, d)
	}
	o.mu.RUnlock()
	for _, d := range broken {
		if err := c.fault(d); err != nil {
			return err
		}
	}
	return nil
}

// instances checks every bucket of an instance, of known ones and of others.
func (c *checker) instances() error {
	return c.r.tx.ForEach(func(name []byte, b *bolt.Bucket) error {
		switch s := string(name); {
		case s == stateBucket, s == headersBucket, s == dropsBucket, s == commitsBucket, s == blobsBucket:
			return c.order(0, name, b)
		case len(name) != 9:
			return c.fault(&Damage{Detail: fmt.Sprintf("there is a bucket of no known kind (%x)", name)})
		}
		inst := binary.BigEndian.Uint64(name[1:])
		if c.r.store.pending.dropped(inst) {
			return nil
		}
		if err := c.order(inst, name, b); err != nil {
			return err
		}
		switch name[0] {
		case recordsPrefix:
			return c.records(inst, b)
		case chunksPrefix:
			return c.chunks(inst, name, b)
		case failuresPrefix:
			return c.note(c.r.Failures(inst, func(Failure) error {
				c.report.Failures++
				return nil
			}))
		}
		return c.fault(&Damage{Detail: fmt.Sprintf("there is a bucket of no known kind (%x)", name)})
	})
}

// order looks every key of a bucket up.
func (c *checker) order(inst uint64, name []byte, b *bolt.Bucket) error {
	cur, again := b.Cursor(), b.Cursor()
	for k, _ := cur.First(); k != nil; k, _ = cur.Next() {
		if found, _ := again.Seek(k); !bytes.Equal(found, k) {
			job, _ := jobOf(k)
			d := &Damage{Instance: inst, Coord: job, Detail: fmt.Sprintf("what lies under key %x of %q is not found there", k, name)}
			if err := c.fault(d); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *checker) records(inst uint64, b *bolt.Bucket) error {
	if n := counted(b); n != b.Sequence() {
		d := &Damage{Instance: inst, Detail: fmt.Sprintf("there are %d records of %d", n, b.Sequence())}
		if err := c.fault(d); err != nil {
			return err
		}
	}
	return c.r.eachRecord(inst, "", func(rec *storedRecord, out *Output, err error) error {
		if err := c.each(); err != nil {
			return err
		}
		if err != nil {
			c.blind = true
			return c.note(err)
		}
		c.report.Records++
		if err := c.job(inst, rec, out); err != nil {
			c.blind = true
			return c.note(err)
		}
		return nil
	})
}

// job checks one job and counts what it names.
func (c *checker) job(inst uint64, rec *storedRecord, out *Output) error {
	err := c.r.checkOutput(inst, rec, out, c.deep)
	if errors.Is(err, ErrReleased) {
		return nil
	}
	if rec.flags&flagBlobs != 0 && out == nil { // the counts do not know what is pending
		named := map[blobID]int64{}
		blobsOfRecord(c.r.instance(inst).chunks.bucket, inst, rec, named)
		for id := range named {
			c.named[id]++
		}
	}
	if err == nil {
		c.report.Values += uint64(rec.items())
	}
	return err
}

// chunks looks for chunks of jobs without a record.
func (c *checker) chunks(inst uint64, name []byte, b *bolt.Bucket) error {
	cur := b.Cursor()
	records := &c.r.instance(inst).records
	for k, _ := cur.First(); k != nil; k, _ = cur.Next() {
		if len(k) < 4 {
			c.report.StrayChunks++
			continue
		}
		job := coord.Coord(k[:len(k)-4])
		if _, ok := records.get(appendJobKey(nil, job)); !ok {
			c.report.StrayChunks++
		}
	}
	return nil
}

func (c *checker) lists() error {
	return c.note(c.r.Commits(0, func(uint64, []Ref) error { return nil }))
}

// counts compares the counts of blobs with how many records name them. Too high
// a count only delays that a blob goes, and is no fault where a record is
// damaged.
func (c *checker) counts() error {
	c.report.Blobs = uint64(len(c.named))
	dropping, _ := c.r.tx.Bucket([]byte(dropsBucket)).Cursor().First()
	if c.r.store.pending.size.Load() > 0 || dropping != nil {
		return nil // what is on its way would look like a fault
	}
	b := c.r.tx.Bucket([]byte(blobsBucket))
	if n := counted(b); n != b.Sequence() {
		if err := c.fault(&Damage{Detail: fmt.Sprintf("there are counts of %d blobs, not of %d", n, b.Sequence())}); err != nil {
			return err
		}
	}
	cur := b.Cursor()
	seen := map[blobID]bool{}
	for k, v := cur.First(); k != nil; k, v = cur.Next() {
		id, ok := blobOfKey(k)
		n, _, whole := decodeCount(k, v)
		if !ok || !whole {
			if err := c.fault(&Damage{Detail: fmt.Sprintf("the count of a blob cannot be read (%x)", k)}); err != nil {
				return err
			}
			continue
		}
		seen[id] = true
		if want := c.named[id]; n < want || n > want && !c.blind && n < many {
			if err := c.fault(&Damage{Detail: fmt.Sprintf("blob %s is counted %d times, not %d", id.name(), n, want)}); err != nil {
				return err
			}
		}
	}
	for id := range c.named {
		if !seen[id] {
			if err := c.fault(&Damage{Detail: fmt.Sprintf("blob %s is not counted", id.name())}); err != nil {
				return err
			}
		}
	}
	return nil
}

// files counts the files that no record names.
func (c *checker) files() error {
	entries, err := os.ReadDir(c.r.store.blobs.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("check blobs: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		id, ok := blobOfName(e.Name())
		if !ok || c.named[id] == 0 {
			c.report.StrayFiles++
		}
	}
	temp, err := os.ReadDir(filepath.Join(c.r.store.blobs.dir, "tmp"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("check blobs: %w", err)
	}
	c.report.StrayFiles += uint64(len(temp))
	return nil
}
