package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"operon/meta"
	"operon/storage"
	"operon/storage/boltfile"
)

// CompactOptions are what Compact can be told.
type CompactOptions struct {
	// Hook is called at every commit point, for tests that kill the program
	// there.
	Hook func(point string)
}

// CompactReport says how large the files of a state were and are.
type CompactReport struct {
	Before int64         `json:"before"` // bytes
	After  int64         `json:"after"`
	Files  []CompactFile `json:"files"`
}

// CompactFile is one of them.
type CompactFile struct {
	Name   string `json:"name"`
	Before int64  `json:"before"`
	After  int64  `json:"after"`
}

// Compact gives back the free room in the database files of a state directory:
// each is copied to a new file, which takes its place once it is whole and
// durable; a file without room to give back is left. It needs the directory for
// itself; an engine there is an *InUseError. Nothing there is ErrNoState. A
// Compact that is killed leaves a state that reads as before.
func Compact(ctx context.Context, dir string, o CompactOptions) (rep *CompactReport, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, &MachineError{Doing: "find the state directory", Err: err}
	}
	lock, err := takeState(dir, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := settle(ctx, dir, o.Hook); err != nil {
		return nil, err
	}
	rep = &CompactReport{}
	for _, name := range []string{storage.DataFile, meta.FileName} {
		before, after, err := boltfile.Compact(filepath.Join(dir, name), boltfile.Options{Hook: o.Hook})
		if err != nil {
			return nil, stateError(dir, fmt.Sprintf("make %s smaller", name), err)
		}
		rep.Files = append(rep.Files, CompactFile{name, before, after})
		rep.Before += before
		rep.After += after
	}
	return rep, nil
}

// settle finds out whether a state can be read, and finishes what was begun to
// be dropped.
func settle(ctx context.Context, dir string, hook func(string)) error {
	s, err := openStores(dir, hook)
	if err != nil {
		return err
	}
	if !s.found {
		return errors.Join(ErrNoState, s.close())
	}
	err = stateError(dir, "finish what was begun", s.data.Flush(ctx))
	return errors.Join(err, s.close())
}
