package storage

import "errors"

// Number is how many records an instance has by its own account: what is
// durable, and without looking at any of them.
func (r *Reader) Number(inst uint64) uint64 {
	in := r.instance(inst)
	if in.records.bucket == nil || r.store.pending.dropped(inst) {
		return 0
	}
	return in.records.bucket.Sequence()
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
