package storage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	bolt "go.etcd.io/bbolt"

	"operon/spec/coord"
	"operon/storage/boltfile"
)

// Reader reads a store in one View, and must not be used after it, nor by two
// goroutines at once. It sees everything that was submitted before the view
// began, and may see what was submitted since; a record and its values are
// always of one batch if both are read while nobody replaces them.
type Reader struct {
	store *Store
	tx    *bolt.Tx
	insts map[uint64]*instReader
	at    *instReader // the one used last
	key   []byte      // for keys, reused
	cache chunkCache
	last  lastRecord
	upTo  uint64 // batches that the reader sees
	ident identityRoom
	// hidden is set by eachRecord.
	hidden *Damage
}

// lastRecord is the record of the transaction that was read last: who reads the
// items of a list one by one asks for it again and again.
type lastRecord struct {
	inst   uint64
	record *storedRecord
	room   *storedRecord // for record; nil: each gets its own
}

// instReader is the buckets of an instance in a transaction.
type instReader struct {
	inst            uint64
	records, chunks finder
	failures        *bolt.Bucket
}

// View calls fn with a reader. What fn gets from it stays valid, but the reader
// does not. fn must not wait for a commit, nor call View.
func (s *Store) View(fn func(*Reader) error) error {
	return s.view(math.MaxUint64, fn)
}

// ViewDurable is View for those who tell others: records, values and failures
// that are not durable yet are not there.
func (s *Store) ViewDurable(fn func(*Reader) error) error {
	return s.view(s.durable.Load(), fn)
}

func (s *Store) view(upTo uint64, fn func(*Reader) error) error {
	since := s.pending.begin(&s.durable)
	defer func() { s.pending.end(since, s.durable.Load()) }()
	return s.file.View(func(tx *bolt.Tx) error {
		return fn(&Reader{store: s, tx: tx, insts: map[uint64]*instReader{}, upTo: upTo})
	})
}

func (r *Reader) instance(inst uint64) *instReader {
	if r.at != nil && r.at.inst == inst {
		return r.at
	}
	in := r.insts[inst]
	if in == nil {
		in = &instReader{inst: inst}
		in.records.open(r.tx, bucketOf(recordsPrefix, inst))
		in.chunks.open(r.tx, bucketOf(chunksPrefix, inst))
		in.failures = r.tx.Bucket(bucketOf(failuresPrefix, inst))
		r.insts[inst] = in
	}
	r.at = in
	return in
}

// finder finds keys of a bucket, and is quick where one is asked for after the
// other.
type finder struct {
	name   []byte
	bucket *bolt.Bucket // nil: there is none
	cursor *bolt.Cursor
	k, v   []byte // where the cursor stands; k is nil: nowhere
}

func (f *finder) open(tx *bolt.Tx, name []byte) {
	f.name = name
	if f.bucket = tx.Bucket(name); f.bucket != nil {
		f.cursor = f.bucket.Cursor()
	}
}

// seek finds the first key that is not below key.
func (f *finder) seek(key []byte) (k, v []byte) {
	if f.bucket == nil {
		return nil, nil
	}
	if f.k != nil {
		switch bytes.Compare(key, f.k) {
		case 0:
			return f.k, f.v
		case 1:
			before := f.k
			f.k, f.v = f.cursor.Next()
			if f.k != nil && bytes.Compare(key, f.k) <= 0 && bytes.Compare(before, key) < 0 {
				return f.k, f.v
			}
		}
	}
	f.k, f.v = f.cursor.Seek(key)
	return f.k, f.v
}

// get is the value of a key, and whether there is one.
func (f *finder) get(key []byte) (v []byte, ok bool) {
	k, v := f.seek(key)
	return v, k != nil && bytes.Equal(k, key)
}

// Header is the header of an instance; ok is false if there is none.
func (r *Reader) Header(inst uint64) (h Header, ok bool, err error) {
	o := &r.store.pending
	o.mu.RLock()
	defer o.mu.RUnlock()
	if d := o.broken[inst]; d != nil && inst != 0 {
		return Header{}, false, d
	}
	h, ok = o.headers[inst]
	return h, ok, nil
}

// Headers are the headers of all instances, in the order of their numbers. With
// a *Damage, they are those that can be read.
func (r *Reader) Headers() ([]Header, error) {
	o := &r.store.pending
	o.mu.RLock()
	defer o.mu.RUnlock()
	list := slices.SortedFunc(maps.Values(o.headers), func(a, b Header) int { return cmp.Compare(a.ID, b.ID) })
	for _, inst := range slices.Sorted(maps.Keys(o.broken)) {
		return list, o.broken[inst]
	}
	return list, nil
}

// Footprint is the store's copy of the footprint; ok is false if there is none.
func (r *Reader) Footprint() (p Footprint, ok bool, err error) {
	o := &r.store.pending
	o.mu.RLock()
	defer o.mu.RUnlock()
	if o.unread != nil {
		return Footprint{}, false, o.unread
	}
	if o.footprint == nil {
		return Footprint{}, false, nil
	}
	return *o.footprint, true, nil
}

// Record is the record of a job; ok is false if there is none.
func (r *Reader) Record(inst uint64, c coord.Coord) (rec Record, ok bool, err error) {
	found, _, err := r.find(inst, c)
	if found == nil {
		return Record{}, false, err
	}
	return found.Record, true, nil
}

// find is the record of a job, nil if there is none, and its output if it may
// not be in the transaction. What the record holds inline may be the
// transaction's memory.
func (r *Reader) find(inst uint64, c coord.Coord) (*storedRecord, *Output, error) {
	return r.findIn(&r.last, inst, c)
}

// findIn is find, and remembers what it found in last. What last holds already
// is written over if it is room that the caller has given.
func (r *Reader) findIn(last *lastRecord, inst uint64, c coord.Coord) (*storedRecord, *Output, error) {
	if e, gone := r.store.pending.record(inst, c); gone {
		return nil, nil, nil
	} else if e != nil && e.batch <= r.upTo {
		return e.record, e.output, nil
	}
	if last.record != nil && last.inst == inst && last.record.Coord == c {
		return last.record, nil, nil
	}
	in := r.instance(inst)
	r.key = appendJobKey(r.key[:0], c)
	v, ok := in.records.get(r.key)
	if !ok {
		return nil, nil, nil
	}
	rec, err := decodeStored(in.records.name, r.key, v, inst, c)
	if err != nil {
		return nil, nil, err
	}
	last.inst, last.record = inst, last.room
	if last.room == nil {
		last.record = new(storedRecord)
	}
	*last.record = rec
	return last.record, nil, nil
}

// decodeStored reads a record as it lies in the database.
func decodeStored(name, k, v []byte, inst uint64, c coord.Coord) (storedRecord, error) {
	body, ok := boltfile.Unseal(name, k, v)
	if !ok {
		return storedRecord{}, &Damage{Kind: DamagedRecord, Instance: inst, Coord: c, Detail: "the checksum of its record is wrong"}
	}
	rec, ok := decodeRecordOf(body, c)
	if !ok || rec.Coord != c {
		return storedRecord{}, &Damage{Kind: DamagedRecord, Instance: inst, Coord: c, Detail: "its record makes no sense"}
	}
	return rec, nil
}

// Records calls fn with the records of an instance under a prefix of their
// coordinates, in the order of the coordinates, until it returns an error. Of
// several damaged ones it returns the first, after the others.
func (r *Reader) Records(inst uint64, prefix coord.Coord, fn func(Record) error) error {
	var damaged error
	err := r.eachRecord(inst, prefix, func(rec *storedRecord, _ *Output, err error) error {
		if err != nil {
			if damaged == nil {
				damaged = err
			}
			return nil
		}
		return fn(rec.Record)
	})
	if err != nil {
		return err
	}
	if damaged == nil && r.hidden != nil {
		return r.hidden
	}
	return damaged
}

// eachRecord calls fn with each record, or with what is wrong with it. The record
// is fn's until it returns. Afterwards r.hidden says whether records that there
// must be were not met.
func (r *Reader) eachRecord(inst uint64, prefix coord.Coord, fn func(*storedRecord, *Output, error) error) error {
	r.hidden = nil
	jobs, entries, gone := r.store.pending.recordsUnder(inst, prefix)
	if gone {
		return nil
	}
	in := r.instance(inst)
	var rec storedRecord
	var err error
	seen := uint64(0)
	err = merge(in.records.bucket, prefix, jobs, func(k, v []byte, c coord.Coord) error {
		seen++
		if e := entries[c]; e != nil && e.batch <= r.upTo {
			if e.record == nil {
				return nil
			}
			return fn(e.record, e.output, nil)
		}
		if k == nil {
			return nil
		}
		if !isJobKey(k) {
			return fn(nil, nil, &Damage{Instance: inst, Detail: fmt.Sprintf("a record lies under a key that makes no sense (%x)", k)})
		}
		var damaged error
		rec, damaged = decodeStored(in.records.name, k, v, inst, c)
		return fn(&rec, nil, damaged)
	})
	r.hidden = nil // fn may have read something else
	if b := in.records.bucket; err == nil && prefix == "" && len(jobs) == 0 && b != nil && seen != b.Sequence() {
		r.hidden = &Damage{Instance: inst, Detail: fmt.Sprintf("there are %d records of %d", seen, b.Sequence())}
	}
	return err
}

// merge calls fn with each key of a bucket under a prefix and each of jobs, in
// order: with k, v and its coordinate for a key, with a nil k for a job without.
// b may be nil.
func merge(b *bolt.Bucket, prefix coord.Coord, jobs []coord.Coord, fn func(k, v []byte, c coord.Coord) error) error {
	var k, v []byte
	var cur *bolt.Cursor
	if b != nil {
		cur = b.Cursor()
		k, v = cur.Seek([]byte(prefix))
	}
	for {
		if k != nil && !bytes.HasPrefix(k, []byte(prefix)) {
			k = nil
		}
		if k == nil && len(jobs) == 0 {
			return nil
		}
		var at coord.Coord
		if k != nil {
			at, _ = jobOf(k)
		}
		order := 0
		switch {
		case k == nil:
			order = 1
		case len(jobs) == 0:
			order = -1
		default:
			order = cmp.Compare(at, jobs[0])
		}
		var err error
		if order > 0 {
			err = fn(nil, nil, jobs[0])
		} else {
			err = fn(k, v, at)
		}
		if err != nil {
			return err
		}
		if order >= 0 {
			jobs = jobs[1:]
		}
		if order <= 0 {
			k, v = cur.Next()
		}
	}
}

// Failure is the failure of a job; ok is false if there is none.
func (r *Reader) Failure(inst uint64, c coord.Coord) (f Failure, ok bool, err error) {
	e, gone := r.store.pending.failure(inst, c)
	switch {
	case gone:
		return Failure{}, false, nil
	case e == nil || e.batch > r.upTo:
	case e.failure == nil:
		return Failure{}, false, nil
	default:
		return *e.failure, true, nil
	}
	in := r.instance(inst)
	if in.failures == nil {
		return Failure{}, false, nil
	}
	key := appendJobKey(nil, c)
	v := in.failures.Get(key)
	if v == nil {
		return Failure{}, false, nil
	}
	f, err = storedFailure(inst, key, v, c)
	return f, err == nil, err
}

// Failures calls fn with the failures of an instance, in the order of their
// coordinates, until it returns an error. Of several damaged ones it returns
// the first, after the others.
func (r *Reader) Failures(inst uint64, fn func(Failure) error) error {
	jobs, entries, gone := r.store.pending.failuresOf(inst)
	if gone {
		return nil
	}
	var damaged error
	b := r.instance(inst).failures
	if b != nil && counted(b) != b.Sequence() {
		damaged = &Damage{Instance: inst, Detail: fmt.Sprintf("there are %d failures of %d", counted(b), b.Sequence())}
	}
	err := merge(b, "", jobs, func(k, v []byte, c coord.Coord) error {
		if e := entries[c]; e != nil && e.batch <= r.upTo {
			if e.failure == nil {
				return nil
			}
			return fn(*e.failure)
		}
		if k == nil {
			return nil
		}
		f, err := storedFailure(inst, k, v, c)
		if err != nil {
			if damaged == nil {
				damaged = err
			}
			return nil
		}
		return fn(f)
	})
	if err != nil {
		return err
	}
	return damaged
}

func storedFailure(inst uint64, k, v []byte, c coord.Coord) (Failure, error) {
	body, ok := boltfile.Unseal(bucketOf(failuresPrefix, inst), k, v)
	if ok {
		var f Failure
		if f, ok = decodeFailure(body); ok && f.Coord == c {
			return f, nil
		}
	}
	return Failure{}, &Damage{Kind: DamagedFailure, Instance: inst, Coord: c, Detail: "the record of its failure cannot be read"}
}

// Commits calls fn, for each commit after the given one that put records, with
// its number and the jobs, in the order of the numbers. The lists of commits
// that Batch.Applied has named are gone.
func (r *Reader) Commits(after uint64, fn func(commit uint64, jobs []Ref) error) error {
	o := &r.store.pending
	o.mu.RLock()
	lists := slices.Clone(o.lists)
	last := max(after, o.applied)
	o.mu.RUnlock()

	b := r.tx.Bucket([]byte(commitsBucket))
	c := b.Cursor()
	if counted(b) != b.Sequence() {
		return &Damage{Detail: fmt.Sprintf("there are lists of %d commits, not of %d", counted(b), b.Sequence())}
	}
	// From the first on: one whose number is damaged may lie anywhere.
	for k, v := c.First(); k != nil; k, v = c.Next() {
		body, ok := boltfile.Unseal([]byte(commitsBucket), k, v)
		if !ok || len(k) != 8 {
			return &Damage{Detail: fmt.Sprintf("the list of a commit cannot be read (%x)", k)}
		}
		if binary.BigEndian.Uint64(k) <= last {
			continue
		}
		jobs, ok := decodeJobs(body, maxListed)
		if !ok {
			return &Damage{Detail: fmt.Sprintf("the list of a commit makes no sense (%x)", k)}
		}
		last = binary.BigEndian.Uint64(k)
		if err := fn(last, jobs); err != nil {
			return err
		}
	}
	for _, list := range lists {
		if list.batch <= last {
			continue
		}
		if err := fn(list.batch, list.jobs); err != nil {
			return err
		}
	}
	return nil
}
