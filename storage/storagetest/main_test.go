package storagetest_test

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"operon/spec/value"
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

// small fills a store with a bit of everything, a commit a batch, and returns
// its twin, flushed.
func small(t *testing.T, dir string) *storagetest.Twin {
	t.Helper()
	w := storagetest.NewTwin(open(t, dir, storage.Options{Interval: -1}), storagetest.NewModel())
	for inst := range uint64(3) {
		b := w.Batch()
		b.PutHeader(storage.Header{ID: inst + 1, Task: "task", Entity: "E", Dims: []string{"i"}, State: storage.Current})
		b.PutFootprint(storage.Footprint{Format: 1, RunID: "run", State: "running", Asked: []byte("{}"), Source: []byte("tasks: {}")})
		for i := range 20 {
			put(t, b, inst+1, i, dir)
		}
		b.PutFailure(inst+1, storage.Failure{Coord: coordOf(30), Kind: "exit", Message: "exit status 1", Exit: 1, Stderr: []byte("no")})
		b.Submit(nil)
		flush(t, t.Context(), w)
	}
	b := w.Batch()
	b.Real.Applied = 2
	b.SetState(2, storage.Retired)
	b.DropInstance(3)
	put(t, b, 1, 3, dir)
	b.Submit(nil)
	flush(t, t.Context(), w)
	return w
}

// put puts job i: most have a small value, some a large one, a list, or a file.
func put(t *testing.T, b *storagetest.Batch, inst uint64, i int, dir string) {
	t.Helper()
	values, spawning := []value.Value{value.FromText(fmt.Sprint("value ", i))}, false
	switch i {
	case 5:
		values[0] = value.FromText(strings.Repeat("x", storage.InlineLimit))
	case 6, 7:
		spawning, values = true, nil
		for n := range 60 * (i - 5) {
			values = append(values, value.FromText(fmt.Sprint("item ", n)))
		}
	case 8:
		spawning, values = true, nil
	case 9:
		content := fmt.Sprint("content of ", inst)
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		values[0] = value.FromFile(value.FileInfo{Name: "name", Path: path, Size: int64(len(content)), SHA256: sha256.Sum256([]byte(content))})
	case 10:
		values[0] = value.NewHole("not there")
	}
	r := storage.Record{Coord: coordOf(i), Attempts: 1, Start: 1e18, End: 1e18 + int64(i)}
	if err := b.PutValues(inst, r, values, spawning); err != nil {
		t.Fatal(err)
	}
}
