package storage_test

import (
	"errors"
	"testing"

	"operon/spec/value"
	"operon/storage"
)

// A hole has no items and keeps its reason, also of a job that spawns, also
// when it was copied or its values are gone.
func TestHoles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, storage.Options{})
	b := &storage.Batch{}
	b.PutHeader(storage.Header{ID: 1, Task: "t", State: storage.Current})
	b.PutRecord(1, record(0), s.PrepareHole("no luck", false))
	b.PutRecord(1, record(1), s.PrepareHole("no luck", true))
	s.Submit(b)
	var again *storage.Output
	view(t, s, func(r *storage.Reader) (err error) {
		again, err = r.Output(1, record(1).Coord)
		return err
	})
	b = &storage.Batch{}
	b.PutRecord(1, record(2), again)
	s.Submit(b)
	check := func(s *storage.Store) {
		t.Helper()
		for i := range uint32(3) {
			view(t, s, func(r *storage.Reader) error {
				rec, ok, err := r.Record(1, record(i).Coord)
				if err != nil || !ok || !rec.Hole || rec.Extent != 0 || rec.Spawning != (i > 0) {
					t.Errorf("record %d: %+v, %v, %v", i, rec, ok, err)
				}
				return r.CheckJob(1, rec.Coord, true)
			})
			if v := first(t, s, i); v.Kind != value.Hole || v.Reason() != "no luck" {
				t.Errorf("value %d: %+v", i, v)
			}
		}
	}
	check(s) // out of memory
	flush(t, s)
	check(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	checkFile(t, dir)
	s = open(t, dir, storage.Options{})
	check(s)
	b = &storage.Batch{}
	b.DropValues(1)
	s.Submit(b)
	flush(t, s)
	view(t, s, func(r *storage.Reader) error {
		rec, ok, err := r.Record(1, record(1).Coord)
		if err != nil || !ok || !rec.Hole || !rec.Spawning {
			t.Errorf("after the release: %+v, %v, %v", rec, ok, err)
		}
		if err := r.Values(1, rec.Coord, 0, 1, nil); !errors.Is(err, storage.ErrReleased) {
			t.Errorf("after the release: %v", err)
		}
		return nil
	})
}
