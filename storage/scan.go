package storage

import (
	"errors"

	"operon/spec/coord"
)

// Number is how many records an instance has by its own account: what is
// durable, and without looking at any of them.
func (r *Reader) Number(inst uint64) uint64 {
	in := r.instance(inst)
	if in.records.bucket == nil || r.store.pending.dropped(inst) {
		return 0
	}
	return in.records.bucket.Sequence()
}

// Empty reports whether an instance has no record. It looks at none.
func (r *Reader) Empty(inst uint64) bool {
	jobs, entries, _ := r.store.pending.recordsUnder(inst, "")
	for _, c := range jobs {
		if e := entries[c]; e.batch <= r.upTo && e.record != nil {
			return false
		}
	}
	if r.Number(inst) != 0 {
		return false
	}
	b := r.instance(inst).records.bucket
	if b == nil {
		return true
	}
	first, _ := b.Cursor().First()
	return first == nil
}

// Scan is Records for those who go on where a record is damaged: fn gets each
// record of an instance in the order of the coordinates, or what is wrong with
// it, until it returns an error.
func (r *Reader) Scan(inst uint64, fn func(Record, *Damage) error) error {
	return r.eachRecord(inst, "", func(rec *storedRecord, _ *Output, err error) error {
		if err == nil {
			return fn(rec.Record, nil)
		}
		var d *Damage
		if errors.As(err, &d) {
			return fn(Record{Coord: d.Coord}, d)
		}
		return err
	})
}

// Look looks whether all items of a job are there, and the blobs that they name,
// in their size, as CheckJob does. It returns how many items there are, and how
// many of them name a blob.
func (r *Reader) Look(inst uint64, job coord.Coord) (items, blobs uint64, err error) {
	rec, out, err := r.find(inst, job)
	if err != nil {
		return 0, 0, err
	}
	if rec == nil {
		return 0, 0, ErrNoRecord
	}
	if err := r.checkOutput(inst, rec, out, nil); err != nil {
		return 0, 0, err
	}
	if rec.flags&flagBlobs == 0 {
		return uint64(rec.items()), 0, nil
	}
	err = r.items(inst, rec, out, func(_ uint32, it *item) error {
		if _, _, ok := it.blob(); ok {
			blobs++
		}
		return nil
	})
	return uint64(rec.items()), blobs, err
}
