package storagetest_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"operon/meta"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
	"operon/storage/storagetest"
)

// The two stores as the scheduler uses them: what metadata claims is handed to
// it when the data that it rests on is durable. Whatever commit point of either
// a crash comes at, metadata is never ahead of the data, and the lists of
// commits tell exactly what it lacks.
func TestMetadataIsNeverAhead(t *testing.T) {
	dir, copies := t.TempDir(), t.TempDir()
	snaps := storagetest.NewSnapshots(dir, copies, func() uint64 { return 0 })
	var alone sync.Mutex // a copy made while the other store writes is no crash
	hook := func(point string) {
		switch {
		case point == "before:data", point == "before:meta":
			alone.Lock()
			snaps.Hook(point)
		case point == "after:data", point == "after:meta":
			snaps.Hook(point)
			alone.Unlock()
		}
	}
	data := open(t, dir, storage.Options{Hook: hook, Interval: -1})
	claims, err := meta.Open(dir, meta.Options{Hook: hook, Interval: -1})
	if err != nil {
		t.Fatal(err)
	}
	const jobs = 60
	claim := func(job int) func(uint64, error) {
		return func(commit uint64, err error) {
			if err != nil {
				t.Error(err)
			}
			b := &meta.Batch{Applied: commit}
			b.PutTickets(1, "", uint32(job), nil)
			claims.Submit(b)
		}
	}
	for i := range jobs {
		o, err := data.Prepare([]value.Value{value.FromText(fmt.Sprint(i))}, false)
		if err != nil {
			t.Fatal(err)
		}
		b := &storage.Batch{Done: claim(i)}
		if i%7 == 0 {
			if err := claims.View(func(r *meta.Reader) error {
				b.Applied = r.Applied()
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		b.PutRecord(1, storage.Record{Coord: coordOf(i)}, o)
		data.Submit(b)
		if i%5 == 0 {
			if err := data.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	shut(t, data, dir)
	if err := claims.Close(); err != nil {
		t.Fatal(err)
	}
	checkFile(t, filepath.Join(dir, meta.FileName))
	all, err := snaps.All()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("only %d commit points", len(all))
	}
	for _, snap := range all {
		adopt(t, snap)
	}
}

// adopt resumes what a crash left.
func adopt(t *testing.T, snap storagetest.Snapshot) {
	t.Helper()
	data := open(t, snap.Dir, storage.Options{})
	defer shut(t, data, snap.Dir)
	claims, err := meta.Open(snap.Dir, meta.Options{})
	if err != nil {
		t.Fatalf("%s: %v", snap.Point, err)
	}
	defer claims.Close()
	claimed := map[int]bool{}
	applied := uint64(0)
	if err := claims.View(func(r *meta.Reader) error {
		applied = r.Applied()
		return r.Tickets(1, func(_ coord.Coord, page uint32, _ []byte) error {
			claimed[int(page)] = true
			return nil
		})
	}); err != nil {
		t.Fatalf("%s: %v", snap.Point, err)
	}
	if applied > data.LastCommit() {
		t.Errorf("%s: metadata at %d, data at %d", snap.Point, applied, data.LastCommit())
	}
	view := func(r *storage.Reader) error {
		for job := range claimed {
			if _, ok, err := r.Record(1, coordOf(job)); err != nil || !ok {
				return fmt.Errorf("metadata claims job %d: %v, %w", job, ok, err)
			}
		}
		if err := r.Commits(applied, func(_ uint64, jobs []storage.Ref) error {
			for _, j := range jobs {
				claimed[int(j.Coord.At(0))] = true
			}
			return nil
		}); err != nil {
			return err
		}
		n := 0
		if err := r.Records(1, "", func(storage.Record) error {
			n++
			return nil
		}); err != nil {
			return err
		}
		if n != len(claimed) {
			return fmt.Errorf("%d records, metadata and lists name %d", n, len(claimed))
		}
		return nil
	}
	if err := data.View(view); err != nil {
		t.Errorf("%s: %v", snap.Point, err)
	}
}
