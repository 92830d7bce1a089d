package storagetest_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"operon/spec/value"
	"operon/storage"
	"operon/storage/storagetest"
)

// A store holds what its model does: before anything is durable, afterwards,
// and when it is opened again; and no blob is left that nothing names.
func TestStoreIsItsModel(t *testing.T) {
	under := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		dir := folder(r, under)
		ctx := t.Context()
		w := storagetest.NewTwin(open(r, dir, storage.Options{}), storagetest.NewModel())
		script := &storagetest.Script{Twin: w, Dir: dir}
		r.Repeat(map[string]func(*rapid.T){
			"batch": script.Batch,
			"flush": func(r *rapid.T) { flush(r, ctx, w) },
			"reopen": func(r *rapid.T) {
				shut(r, w.Store, dir)
				checkReader(r, dir, w.Model)
				s := open(r, dir, storage.Options{})
				if s.LastCommit() != w.Model.Commit {
					r.Fatalf("opened at commit %d, want %d", s.LastCommit(), w.Model.Commit)
				}
				w = storagetest.NewTwin(s, w.Model)
				script.Twin = w
			},
			"": func(r *rapid.T) {
				if err := w.Compare(); err != nil {
					r.Fatal(err)
				}
			},
		})
		flush(r, ctx, w)
		if err := w.Check(); err != nil {
			r.Fatal(err)
		}
		noStrays(r, w.Store, dir)
		shut(r, w.Store, dir)
	})
}

// checkReader compares a closed store, opened for reading.
func checkReader(t fataler, dir string, m *storagetest.Model) {
	t.Helper()
	s := open(t, dir, storage.Options{ReadOnly: true})
	if err := s.View(m.Compare); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// noStrays looks whether every blob is named: everything is flushed.
func noStrays(t fataler, s *storage.Store, dir string) {
	t.Helper()
	var report storage.Report
	if err := s.View(func(r *storage.Reader) (err error) {
		report, err = r.Check(true, func(d *storage.Damage) error { return d })
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if report.StrayFiles != 0 || report.StrayChunks != 0 {
		left, _ := os.ReadDir(filepath.Join(dir, storage.BlobsDir))
		t.Fatalf("left over: %+v; blobs %v", report, left)
	}
}

// Readers in many goroutines see whole records while a writer replaces them.
func TestReadersBesideTheWriter(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, storage.Options{Interval: -1})
	const jobs = 20
	batch := func(round int) *storage.Batch {
		b := &storage.Batch{}
		for i := range jobs {
			o, err := s.Prepare([]value.Value{value.FromText(strings.Repeat(string(rune('a'+round%26)), 10+round))}, false)
			if err != nil {
				t.Error(err)
				continue
			}
			b.PutRecord(1, storage.Record{Coord: coordOf(i), Attempts: uint32(round)}, o)
		}
		return b
	}
	s.Submit(batch(0))
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 4)
	for range cap(failed) {
		go func() { failed <- readUntil(ctx, s, jobs) }()
	}
	for round := 1; round < 200; round++ {
		s.Submit(batch(round))
	}
	wait, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := s.Flush(wait); err != nil {
		t.Error(err)
	}
	cancel()
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	shut(t, s, dir)
}
