package storage

import (
	"errors"
	"fmt"

	"operon/spec/coord"
	"operon/storage/boltfile"
)

var (
	// ErrNoRecord is what reading the values of a job without a record gives.
	ErrNoRecord = errors.New("no such record")
	// ErrReleased is what reading values gives that were dropped on purpose
	// (DropValues); their record is still there.
	ErrReleased = errors.New("values were released")
	// ErrReadOnly is what writing to a store opened for reading gives.
	ErrReadOnly = errors.New("store is open for reading only")
)

// DamageKind names what is damaged.
type DamageKind uint8

const (
	DamagedStructure DamageKind = iota // keys, counts, lists: what the rest hangs on
	DamagedFootprint
	DamagedHeader  // of an instance
	DamagedRecord  // of a job
	DamagedValues  // of a job
	DamagedBlob    // that a job's values name
	MissingBlob    // the same
	DamagedFailure // the record of a job's failure
)

// OfJob reports whether the damage is that of one job's result.
func (k DamageKind) OfJob() bool { return k >= DamagedRecord && k <= MissingBlob }

// Damage says that something stored is not what was written. Other records of
// the store may well be whole.
type Damage struct {
	Kind     DamageKind
	Instance uint64      // 0: of no instance
	Coord    coord.Coord // of the job; "" also where it is not one job's
	Detail   string
}

// Error says where and what.
func (d *Damage) Error() string {
	if d.Instance == 0 {
		return "damaged: " + d.Detail
	}
	return fmt.Sprintf("damaged: instance %d, job %v: %s", d.Instance, d.Coord.Indices(), d.Detail)
}

// NewerError says that a later version of the program wrote the store.
type NewerError struct{ Have, Know int }

// Error names both format versions.
func (e *NewerError) Error() string {
	return fmt.Sprintf("data is of format %d, newer than this version knows (%d)", e.Have, e.Know)
}

// IsDamage reports whether an error says that something stored is damaged: a
// value, or a database file.
func IsDamage(err error) bool {
	var d *Damage
	var file *boltfile.DamagedError
	return errors.As(err, &d) || errors.As(err, &file)
}
