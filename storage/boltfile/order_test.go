package boltfile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"operon/storage/boltfile"
)

// inOrder asks InOrder of a file's one bucket, and looks every key up.
func inOrder(t *testing.T, path string) (keys uint64, ok bool, found, all uint64, err error) {
	f, err := boltfile.Open(path, boltfile.Options{ReadOnly: true})
	if err != nil {
		return 0, false, 0, 0, err
	}
	defer f.Close()
	err = f.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucket)
		if b == nil {
			return nil
		}
		keys, ok = f.InOrder(tx, b)
		c, again := b.Cursor(), b.Cursor()
		for k, _ := c.First(); k != nil; k, _ = c.Next() {
			all++
			if got, _ := again.Seek(k); bytes.Equal(got, k) {
				found++
			}
		}
		return nil
	})
	return keys, ok, found, all, err
}

func TestInOrder(t *testing.T) {
	for _, n := range []int{1, 7, 500, 20_000} {
		keys, ok, found, all, err := inOrder(t, filled(t, n))
		if err != nil || !ok || keys != uint64(n) || found != all || all != keys {
			t.Errorf("%d keys: %d in order %v, %d found of %d, %v", n, keys, ok, found, all, err)
		}
	}
}

// Whatever is damaged: where InOrder finds all in order, every key is found.
func TestInOrderOfDamage(t *testing.T) {
	whole, err := os.ReadFile(filled(t, 700))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "data.db")
	wrong, lost := 0, 0
	for at := 2 * os.Getpagesize(); at < len(whole); at += 109 {
		content := bytes.Clone(whole)
		content[at] ^= 1 << (at % 8)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		keys, ok, found, all, err := inOrder(t, path)
		if err != nil {
			continue // said at once
		}
		if !ok {
			wrong++
		}
		if found != all {
			lost++
		}
		if ok && (found != all || keys != all) {
			t.Errorf("byte %d: %d in order, %d of %d found", at, keys, found, all)
		}
	}
	if wrong == 0 || lost == 0 {
		t.Errorf("%d out of order, %d with keys that are not found: the test tests nothing", wrong, lost)
	}
}
