package meta

import (
	"errors"
	"fmt"

	"operon/storage/boltfile"
)

// NewerError says that a later version of the program wrote the metadata.
type NewerError struct{ Have, Know int }

// Error names both format versions.
func (e *NewerError) Error() string {
	return fmt.Sprintf("metadata is of format %d, newer than this version knows (%d)", e.Have, e.Know)
}

// OlderError says that an earlier version of the program wrote the metadata.
// The caller rebuilds it.
type OlderError struct{ Have, Know int }

// Error names both format versions.
func (e *OlderError) Error() string {
	return fmt.Sprintf("metadata is of format %d, older than this version writes (%d)", e.Have, e.Know)
}

// Damage says that something stored is not what was written.
type Damage struct {
	Dataflow uint64 // 0: of no dataflow
	Detail   string
}

// Error says where and what.
func (d *Damage) Error() string {
	if d.Dataflow == 0 {
		return "damaged metadata: " + d.Detail
	}
	return fmt.Sprintf("damaged metadata: dataflow %d: %s", d.Dataflow, d.Detail)
}

// IsDamage reports whether an error says that metadata is damaged: a value, or
// the file.
func IsDamage(err error) bool {
	var d *Damage
	var file *boltfile.DamagedError
	return errors.As(err, &d) || errors.As(err, &file)
}
