package boltfile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"operon/storage/boltfile"
)

// thinned makes a file of two buckets, most of whose keys were deleted.
func thinned(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "x.db")
	f, err := boltfile.Open(path, boltfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write := func(change func(b *bolt.Bucket, key []byte, i int) error) {
		for _, name := range []string{"one", "two"} {
			f.Submit(boltfile.Commit{Apply: func(tx *bolt.Tx) error {
				b, err := tx.CreateBucketIfNotExists([]byte(name))
				for i := 0; i < 5000 && err == nil; i++ {
					err = change(b, fmt.Appendf(nil, "%05d", i), i)
				}
				return errors.Join(err, b.SetSequence(42))
			}})
		}
	}
	write(func(b *bolt.Bucket, key []byte, i int) error { return b.Put(key, []byte(strings.Repeat("v", 100))) })
	write(func(b *bolt.Bucket, key []byte, i int) error {
		if i%50 == 0 {
			return nil
		}
		return b.Delete(key)
	})
	if err := errors.Join(f.Flush(context.Background()), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func contentOf(t *testing.T, path string) string {
	t.Helper()
	f, err := boltfile.Open(path, boltfile.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Check(); err != nil {
		t.Error(err)
	}
	var b strings.Builder
	err = f.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, bucket *bolt.Bucket) error {
			fmt.Fprintf(&b, "%s %d\n", name, bucket.Sequence())
			return bucket.ForEach(func(k, v []byte) error {
				fmt.Fprintf(&b, "%s=%s\n", k, v)
				return nil
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCompact(t *testing.T) {
	path := thinned(t)
	want := contentOf(t, path)
	if strings.Count(want, "\n") != 202 {
		t.Fatalf("%d lines", strings.Count(want, "\n"))
	}
	var points []string
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after, err := boltfile.Compact(path, boltfile.Options{Hook: func(point string) {
		points = append(points, point)
		now, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		if swapped := string(now) != string(old); swapped != (point == "after:compact") {
			t.Errorf("%s: swapped: %v", point, swapped)
		}
	}})
	info, _ := os.Stat(path)
	if err != nil || before != int64(len(old)) || after >= before/2 || info.Size() != after {
		t.Errorf("from %d to %d, which has %d: %v", before, after, info.Size(), err)
	}
	if got := contentOf(t, path); got != want {
		t.Error("the content differs")
	}
	if strings.Join(points, " ") != "before:compact after:compact" {
		t.Errorf("%v", points)
	}
	again, now, err := boltfile.Compact(path, boltfile.Options{})
	if err != nil || again != after || now != after {
		t.Errorf("again: from %d to %d: %v", again, now, err)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if len(left) != 1 || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", left, info.Mode())
	}
}

func TestCompactLeavesWhatItCannotRead(t *testing.T) {
	path := thinned(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	var damaged *boltfile.DamagedError
	if _, _, err := boltfile.Compact(path, boltfile.Options{}); !errors.As(err, &damaged) {
		t.Errorf("half a file: %v", err)
	}
	if now, _ := os.ReadFile(path); string(now) != string(text[:len(text)/2]) {
		t.Error("the file was changed")
	}
	if _, _, err := boltfile.Compact(filepath.Join(t.TempDir(), "none"), boltfile.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	path = thinned(t)
	f, err := boltfile.Open(path, boltfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var used *boltfile.InUseError
	if _, _, err := boltfile.Compact(path, boltfile.Options{Timeout: 1}); !errors.As(err, &used) {
		t.Errorf("a file in use: %v", err)
	}
}

// What a killed one left half done is nothing.
func TestCompactAfterAKill(t *testing.T) {
	path := thinned(t)
	want := contentOf(t, path)
	if err := os.WriteFile(path+".new", []byte("half a copy"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := contentOf(t, path); got != want {
		t.Error("the content differs")
	}
	if _, _, err := boltfile.Compact(path, boltfile.Options{}); err != nil {
		t.Fatal(err)
	}
	if got := contentOf(t, path); got != want {
		t.Error("the content differs")
	}
}
