package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"operon/storage"
	"operon/storage/boltfile"
)

// SalvageReport is what was copied out of a data.db that could not be read, or
// not be written to.
type SalvageReport struct {
	Why   string `json:"why"`
	Aside string `json:"aside"` // name of the damaged file now, beside data.db
	Keys  int    `json:"keys"`  // copied
	Lost  int    `json:"lost"`  // pages that could not be read
}

// String says so in half a sentence.
func (s *SalvageReport) String() string {
	text := fmt.Sprintf("copied what can be read of the damaged data.db into a new one (%s", s.Why)
	if s.Lost > 0 {
		text += fmt.Sprintf("; %d pages lost", s.Lost)
	}
	return text + "; the damaged one is kept as " + s.Aside + ")"
}

// salvages reports whether a damaged data.db is to be salvaged: whoever asked for
// what is damaged to be dropped has asked for that.
func (e *Engine) salvages() bool { return e.o.Rebuild || e.o.RedoInconsistent }

// ofData reports whether an error says that data.db is damaged, as a file.
func (e *Engine) ofData(err error) (*DamagedError, bool) {
	path := filepath.Join(e.dir, storage.DataFile)
	if d, ok := errors.AsType[*DamagedError](err); ok && d.Path == path {
		return d, true
	}
	if d, ok := errors.AsType[*boltfile.DamagedError](err); ok && d.Path == path {
		return damagedFile(d), true
	}
	return nil, false
}

// salvage makes a new data.db of what can be read of a damaged one, and opens the
// stores. They must be closed. Blobs are counted at once: counts may be lost, and
// a file whose count is too low would go too early.
func (e *Engine) salvage(ctx context.Context, why *DamagedError) (err error) {
	out, err := storage.Salvage(e.dir, e.o.Hook)
	if lost, ok := errors.AsType[*boltfile.DamagedError](err); ok {
		return &DamagedError{Path: lost.Path, Detail: lost.Detail, Mend: mendNone}
	}
	if err != nil {
		return stateError(e.dir, "copy what can be read of the data", err)
	}
	e.salvaged = &SalvageReport{Why: why.Detail, Aside: filepath.Base(out.Aside), Keys: out.Keys, Lost: out.Lost}
	e.lost = nil
	if e.stores, err = openStores(e.dir, e.o.Hook); err != nil {
		return err
	}
	if err := e.foreign(e.stores.last); err != nil {
		return err
	}
	e.stores.found, e.stores.rebuild = true, true
	if e.stores.why == "" {
		e.stores.why = "data.db was damaged"
	}
	if _, err := e.stores.data.Mend(ctx); err != nil {
		return stateError(e.dir, "mend the data", err)
	}
	_, err = e.stores.data.Sweep(ctx)
	return stateError(e.dir, "count files", err)
}
