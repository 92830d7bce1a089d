package storagetest_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"operon/storage"
	"operon/storage/boltfile"
	"operon/storage/storagetest"
)

func TestMain(m *testing.M) {
	// Each check makes files and syncs them; -rapid.checks asks for more.
	if err := flag.Set("rapid.checks", "15"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// fataler is what *testing.T and *rapid.T share.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// folder makes a folder for one check of a property.
func folder(t fataler, under string) string {
	t.Helper()
	dir, err := os.MkdirTemp(under, "")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t fataler, dir string, o storage.Options) *storage.Store {
	t.Helper()
	if o.Interval == 0 {
		o.Interval = time.Millisecond
	}
	s, err := storage.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shut closes a store and verifies the structure of its file.
func shut(t fataler, s *storage.Store, dir string) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	checkFile(t, filepath.Join(dir, storage.DataFile))
}

func checkFile(t fataler, path string) {
	t.Helper()
	f, err := boltfile.Open(path, boltfile.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
}

func flush(t fataler, ctx context.Context, w *storagetest.Twin) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := w.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

// small fills a store with a bit of everything, and returns its twin, flushed.
func small(t *testing.T, dir string) *storagetest.Twin {
	t.Helper()
	s := open(t, dir, storage.Options{})
	w := storagetest.NewTwin(s, storagetest.NewModel())
	script := &storagetest.Script{Twin: w, Dir: dir}
	draw := rapid.Custom(func(r *rapid.T) bool {
		for range 12 {
			script.Batch(r)
		}
		return true
	})
	draw.Example(7)
	flush(t, t.Context(), w)
	return w
}
