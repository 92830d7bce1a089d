package storagetest_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"operon/spec/value"
	"operon/storage"
	"operon/storage/storagetest"
)

// Whatever commit point a crash comes at: what had been said to be durable is
// there, what is there is whole batches, and writing goes on.
func TestCrashAtEveryCommitPoint(t *testing.T) {
	under := t.TempDir()
	points := map[string]bool{}
	rapid.Check(t, func(r *rapid.T) {
		dir, copies := folder(r, under), folder(r, under)
		defer os.RemoveAll(copies)
		var w *storagetest.Twin
		snaps := storagetest.NewSnapshots(dir, copies, func() uint64 {
			if w == nil {
				return 0
			}
			return w.Durable()
		})
		s := open(r, dir, storage.Options{Hook: snaps.Hook})
		w = storagetest.NewTwin(s, storagetest.NewModel())
		script := &storagetest.Script{Twin: w, Dir: folder(r, under)}
		for _, i := range []int{9, 3} { // a blob, and then none
			b := w.Batch()
			put(t, b, 7, i, script.Dir)
			b.DropRecord(7, coordOf(9-i))
			if i == 3 {
				b.DropRecord(7, coordOf(9))
			}
			b.Submit(nil)
			flush(r, t.Context(), w)
		}
		for range rapid.IntRange(1, 8).Draw(r, "batches") {
			script.Batch(r)
		}
		flush(r, t.Context(), w)
		shut(r, s, dir)
		all, err := snaps.All()
		if err != nil {
			r.Fatal(err)
		}
		for _, snap := range all {
			points[snap.Point] = true
			reopen(r, t, snap, w)
		}
	})
	for _, want := range []string{"before:create", "after:create", "before:data", "after:data", "before:blobs", "after:blobs", "before:drop", "after:drop"} {
		if !points[want] {
			t.Errorf("no crash came at %s", want)
		}
	}
}

// reopen opens what a crash left, compares, and goes on writing.
func reopen(r fataler, t *testing.T, snap storagetest.Snapshot, w *storagetest.Twin) {
	r.Helper()
	s, err := storage.Open(snap.Dir, storage.Options{Interval: -1})
	if err != nil {
		r.Fatalf("%s: %v", snap.Point, err)
	}
	n := s.LastCommit()
	m := w.At(n)
	if n < snap.Durable || m == nil {
		r.Fatalf("%s: at commit %d, after %d was durable", snap.Point, n, snap.Durable)
	}
	again := storagetest.NewTwin(s, m.Clone())
	if err := again.Check(); err != nil {
		r.Fatalf("%s: commit %d: %v", snap.Point, n, err)
	}
	b := again.Batch()
	if err := b.PutValues(99, storage.Record{Coord: "", Attempts: 1}, []value.Value{value.FromText("after")}, false); err != nil {
		r.Fatal(err)
	}
	b.Submit(nil)
	flush(r, t.Context(), again)
	if _, err := s.Sweep(t.Context()); err != nil {
		r.Fatal(err)
	}
	if err := again.Check(); err != nil {
		r.Fatalf("%s: commit %d, gone on: %v", snap.Point, n, err)
	}
	noStrays(r, s, snap.Dir)
	shut(r, s, snap.Dir)
}

// Of a transaction whose first page was not written, any of its other pages may
// have been: the store is as before.
func TestTornCommits(t *testing.T) {
	dir, copies := t.TempDir(), t.TempDir()
	var w *storagetest.Twin
	snaps := storagetest.NewSnapshots(dir, copies, func() uint64 {
		if w == nil {
			return 0
		}
		return w.Durable()
	})
	s := open(t, dir, storage.Options{Hook: snaps.Hook, Interval: -1})
	w = storagetest.NewTwin(s, storagetest.NewModel())
	script := &storagetest.Script{Twin: w, Dir: t.TempDir()}
	rapid.Custom(func(r *rapid.T) bool {
		for range 15 {
			script.Batch(r)
			flush(t, t.Context(), w)
		}
		return true
	}).Example(3)
	shut(t, s, dir)
	all, err := snaps.All()
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	torn := 0
	for i := 1; i < len(all); i++ {
		before, after := all[i-1], all[i]
		if before.Point != "before:data" {
			continue
		}
		a, b := read(t, before.Dir), read(t, after.Dir)
		for range 3 {
			torn++
			content := storagetest.Torn(a, b, random)
			if err := os.WriteFile(filepath.Join(before.Dir, storage.DataFile), content, 0o600); err != nil {
				t.Fatal(err)
			}
			checkTorn(t, before, w)
		}
	}
	if torn < 10 {
		t.Errorf("only %d commits were torn", torn)
	}
}

func read(t *testing.T, dir string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, storage.DataFile))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func checkTorn(t *testing.T, snap storagetest.Snapshot, w *storagetest.Twin) {
	t.Helper()
	s := open(t, snap.Dir, storage.Options{ReadOnly: true})
	m := w.At(s.LastCommit())
	if m == nil || s.LastCommit() < snap.Durable {
		t.Fatalf("torn after commit %d, at %d", snap.Durable, s.LastCommit())
	}
	if err := storagetest.NewTwin(s, m.Clone()).Check(); err != nil {
		t.Errorf("torn after commit %d: %v", snap.Durable, err)
	}
	shut(t, s, snap.Dir)
}

// A file that was only half created under its temporary name is no hindrance.
func TestCrashWhileCreating(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, storage.DataFile)
	if err := os.WriteFile(path+".new", []byte(strings.Repeat("x", 10000)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, storage.Options{})
	if s.LastCommit() != 0 {
		t.Errorf("a new store is at commit %d", s.LastCommit())
	}
	shut(t, s, dir)
}
