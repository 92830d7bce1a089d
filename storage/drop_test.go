package storage

import (
	"testing"

	bolt "go.etcd.io/bbolt"

	"operon/storage/boltfile"
)

// A drop of the values that ends when the whole instance is being dropped leaves
// the note of that.
func TestNoteOfADropThatBecameLarger(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	nothing := func(*bolt.Tx) error { return nil }
	left := func(noted, finished byte) (left bool) {
		s.file.Submit(boltfile.Commit{Apply: func(tx *bolt.Tx) error { return s.writerOf(tx).putDrop(1, noted) }})
		s.drops.Add(1)
		s.finishDrop(1, finished, nothing)
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := s.file.View(func(tx *bolt.Tx) error {
			left = tx.Bucket([]byte(dropsBucket)).Get(instanceKey(1)) != nil
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return left
	}
	if left(dropValues, dropValues) {
		t.Error("the note of the values is left")
	}
	if !left(dropAll, dropValues) {
		t.Error("the note of the instance went with the values")
	}
	if left(dropAll, dropAll) {
		t.Error("the note of the instance is left")
	}
}
