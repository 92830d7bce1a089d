package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	bolt "go.etcd.io/bbolt"

	"operon/spec/coord"
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
	var closely *deepCheck
	if deep {
		closely = newDeepCheck(nil)
	}
	return r.checkOutput(inst, rec, out, closely)
}

// checkOutput looks at the values of a record. With blobs it reads them all, and
// verifies the digest of the output; with nil, it looks whether they are there.
func (r *Reader) checkOutput(inst uint64, rec *storedRecord, out *Output, deep *deepCheck) error {
	if rec.released() || r.store.pending.valuesGone(inst) {
		return ErrReleased
	}
	if deep != nil {
		return deep.output(r, inst, rec, out)
	}
	return r.items(inst, rec, out, func(i uint32, it *item) error {
		id, size, ok := it.blob()
		if !ok {
			return nil
		}
		return atItem(inst, rec.Coord, i, r.store.blobThere(id, size))
	})
}

// atItem says of damage which item of which job it is in.
func atItem(inst uint64, job coord.Coord, i uint32, err error) error {
	var d *Damage
	if err == nil || !errors.As(err, &d) {
		return err
	}
	return &Damage{Kind: d.Kind, Instance: inst, Coord: job, Detail: fmt.Sprintf("item %d: %s", i, d.Detail)}
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

// Checking says what a check looks at, and who hears of it.
type Checking struct {
	// Deep reads every value and blob, and verifies the digests of outputs.
	Deep bool
	// First are instances to look at before all others, in this order.
	First []uint64
	// Fault hears of all that is damaged. An error of it ends the check, as one
	// of each that follows.
	Fault func(*Damage) error
	// Stop, if not nil, is called before each record, and on the way through
	// large blobs.
	Stop func() error
	// Begin and End, if not nil, are called around each instance of First, and
	// Record with each of its records, in the order of the coordinates; or with
	// what is wrong with it and its coordinate alone, as Scan does. That its
	// values are damaged Fault has heard before.
	Begin, End func(inst uint64) error
	Record     func(inst uint64, rec Record, damage *Damage) error
}

// Check reads everything and calls fault with all that is damaged, until that
// returns an error: headers, records and their values as CheckJob does,
// failures, lists of commits, jobs that a look-up would not find, numbers of
// records and counts of blobs that are not true.
func (r *Reader) Check(deep bool, fault func(*Damage) error) (Report, error) {
	return r.CheckWith(Checking{Deep: deep, Fault: fault})
}

// CheckWith is Check in one scan that others may follow. A blob is read once,
// however many records name it. Its memory is that of the names of the blobs,
// about a hundred bytes each.
func (r *Reader) CheckWith(o Checking) (Report, error) {
	c := checker{Checking: o, r: r, named: map[blobID]int64{}}
	if o.Deep {
		c.deep = newDeepCheck(o.Stop)
	}
	for _, part := range []func() error{c.headers, c.instances, c.lists, c.counts, c.files} {
		if err := part(); err != nil {
			return c.report, err
		}
	}
	return c.report, nil
}

type checker struct {
	Checking
	r      *Reader
	deep   *deepCheck // nil: not so closely
	report Report
	named  map[blobID]int64 // blobs that records name, and how many
	blind  bool             // something that may name blobs could not be read
}

// note passes damage to fault, and any other error on.
func (c *checker) note(err error) error {
	var d *Damage
	if errors.As(err, &d) {
		return c.Fault(d)
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
		if err := c.Fault(d); err != nil {
			return err
		}
	}
	return nil
}

// instances checks every bucket: first those of First, then all others.
func (c *checker) instances() error {
	for _, inst := range c.First {
		if err := c.first(inst); err != nil {
			return err
		}
	}
	return c.r.tx.ForEach(func(name []byte, b *bolt.Bucket) error {
		switch s := string(name); {
		case s == stateBucket, s == headersBucket, s == dropsBucket, s == commitsBucket, s == blobsBucket:
			_, err := c.order(0, name, b)
			return err
		case len(name) != 9:
			return c.Fault(&Damage{Detail: fmt.Sprintf("there is a bucket of no known kind (%x)", name)})
		}
		inst := binary.BigEndian.Uint64(name[1:])
		if slices.Contains(c.First, inst) {
			switch name[0] {
			case recordsPrefix, chunksPrefix, failuresPrefix:
				return nil
			}
		}
		return c.bucket(inst, name, b, nil)
	})
}

// first checks an instance that somebody follows.
func (c *checker) first(inst uint64) error {
	if c.Begin != nil {
		if err := c.Begin(inst); err != nil {
			return err
		}
	}
	for _, prefix := range []byte{recordsPrefix, chunksPrefix, failuresPrefix} {
		name := bucketOf(prefix, inst)
		b := c.r.tx.Bucket(name)
		if b == nil && prefix == recordsPrefix { // there may be some that are not durable
			if err := c.eachRecord(inst, c.Record); err != nil {
				return err
			}
		}
		if b == nil {
			continue
		}
		if err := c.bucket(inst, name, b, c.Record); err != nil {
			return err
		}
	}
	if c.End != nil {
		return c.End(inst)
	}
	return nil
}

// bucket checks a bucket of an instance; follow, if not nil, hears of its
// records.
func (c *checker) bucket(inst uint64, name []byte, b *bolt.Bucket, follow func(uint64, Record, *Damage) error) error {
	if c.r.store.pending.dropped(inst) {
		return nil
	}
	keys, err := c.order(inst, name, b)
	if err != nil {
		return err
	}
	switch name[0] {
	case recordsPrefix:
		if keys != b.Sequence() {
			d := &Damage{Instance: inst, Detail: fmt.Sprintf("there are %d records of %d", keys, b.Sequence())}
			if err := c.Fault(d); err != nil {
				return err
			}
		}
		return c.eachRecord(inst, follow)
	case chunksPrefix:
		return c.chunks(inst, b)
	case failuresPrefix:
		return c.note(c.r.Failures(inst, func(Failure) error {
			c.report.Failures++
			return nil
		}))
	}
	return c.Fault(&Damage{Detail: fmt.Sprintf("there is a bucket of no known kind (%x)", name)})
}

// order sees whether a look-up finds every key of a bucket, and counts them.
func (c *checker) order(inst uint64, name []byte, b *bolt.Bucket) (keys uint64, err error) {
	if keys, ok := c.r.store.file.InOrder(c.r.tx, b); ok {
		return keys, nil
	}
	cur, again := b.Cursor(), b.Cursor()
	for k, _ := cur.First(); k != nil; k, _ = cur.Next() {
		keys++
		if found, _ := again.Seek(k); !bytes.Equal(found, k) {
			job, _ := jobOf(k)
			d := &Damage{Instance: inst, Coord: job, Detail: fmt.Sprintf("what lies under key %x of %q is not found there", k, name)}
			if err := c.Fault(d); err != nil {
				return keys, err
			}
		}
	}
	return keys, nil
}

func (c *checker) eachRecord(inst uint64, follow func(uint64, Record, *Damage) error) error {
	return c.r.eachRecord(inst, "", func(rec *storedRecord, out *Output, err error) error {
		if c.Stop != nil {
			if err := c.Stop(); err != nil {
				return err
			}
		}
		var damage *Damage
		switch {
		case errors.As(err, &damage):
			c.blind = true
			if err := c.Fault(damage); err != nil || follow == nil {
				return err
			}
			return follow(inst, Record{Coord: damage.Coord}, damage)
		case err != nil:
			return err
		}
		c.report.Records++
		if err := c.job(inst, rec, out); err != nil {
			c.blind = true
			if err := c.note(err); err != nil {
				return err
			}
		}
		if follow == nil {
			return nil
		}
		return follow(inst, rec.Record, nil)
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
func (c *checker) chunks(inst uint64, b *bolt.Bucket) error {
	cur := b.Cursor()
	var key []byte
	records := &c.r.instance(inst).records
	for k, _ := cur.First(); k != nil; k, _ = cur.Next() {
		if len(k) < 4 {
			c.report.StrayChunks++
			continue
		}
		job := coord.Coord(k[:len(k)-4])
		key = appendJobKey(key[:0], job)
		if _, ok := records.get(key); !ok {
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
		if err := c.Fault(&Damage{Detail: fmt.Sprintf("there are counts of %d blobs, not of %d", n, b.Sequence())}); err != nil {
			return err
		}
	}
	cur := b.Cursor()
	seen := map[blobID]bool{}
	for k, v := cur.First(); k != nil; k, v = cur.Next() {
		id, ok := blobOfKey(k)
		n, _, whole := decodeCount(k, v)
		if !ok || !whole {
			if err := c.Fault(&Damage{Detail: fmt.Sprintf("the count of a blob cannot be read (%x)", k)}); err != nil {
				return err
			}
			continue
		}
		seen[id] = true
		if want := c.named[id]; n < want || n > want && !c.blind && n < many {
			if err := c.Fault(&Damage{Detail: fmt.Sprintf("blob %s is counted %d times, not %d", id.name(), n, want)}); err != nil {
				return err
			}
		}
	}
	for id := range c.named {
		if !seen[id] {
			if err := c.Fault(&Damage{Detail: fmt.Sprintf("blob %s is not counted", id.name())}); err != nil {
				return err
			}
		}
	}
	return nil
}

// files counts the files that no record names.
func (c *checker) files() error {
	entries, err := os.ReadDir(c.r.store.blobs.dir)
	if err != nil && !notThere(err) {
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
	if err != nil && !notThere(err) {
		return fmt.Errorf("check blobs: %w", err)
	}
	c.report.StrayFiles += uint64(len(temp))
	return nil
}
