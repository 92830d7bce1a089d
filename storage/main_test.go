package storage_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"operon/storage"
	"operon/storage/boltfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a store; when the test ends, it is closed and its file checked.
func open(tb testing.TB, dir string, o storage.Options) *storage.Store {
	tb.Helper()
	if o.Interval == 0 {
		o.Interval = -1
	}
	s, err := storage.Open(dir, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		s.Close() // a second time, in many tests
		checkFile(tb, dir)
	})
	return s
}

// checkFile verifies the structure of the database of a closed store.
func checkFile(tb testing.TB, dir string) {
	tb.Helper()
	f, err := boltfile.Open(dir+"/"+storage.DataFile, boltfile.Options{ReadOnly: true})
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	if err := f.Check(); err != nil {
		tb.Fatal(err)
	}
}

func flush(tb testing.TB, s *storage.Store) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	if err := s.Flush(ctx); err != nil {
		tb.Fatal(err)
	}
}

func view(tb testing.TB, s *storage.Store, fn func(*storage.Reader) error) {
	tb.Helper()
	if err := s.View(fn); err != nil {
		tb.Fatal(err)
	}
}
