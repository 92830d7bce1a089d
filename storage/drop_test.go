package storage

import (
	"os"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"operon/spec/coord"
	"operon/spec/value"
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

// A store that is closed in the middle of a drop leaves no blob that the steps
// so far have freed: nobody would know of it later.
func TestCloseInTheMiddleOfADrop(t *testing.T) {
	var s *Store
	dropping, commits := false, 0
	closed := make(chan error, 1)
	s, err := Open(t.TempDir(), Options{Hook: func(point string) {
		if !dropping || point != "after:data" {
			return
		}
		if commits++; commits != 2 { // the first notes the drop, the second releases the values
			return
		}
		go func() { closed <- s.Close() }()
		for isOpen := true; isOpen; {
			s.file.Submit(boltfile.Commit{Done: func(err error) { isOpen = isOpen && !boltfile.IsClosed(err) }})
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Prepare([]value.Value{value.FromText(strings.Repeat("a", 2*InlineLimit))}, false)
	if err != nil {
		t.Fatal(err)
	}
	path := s.blobs.path(o.blobs[0])
	put := &Batch{}
	put.PutRecord(1, Record{Coord: coord.Coord("")}, o)
	s.Submit(put)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	dropping = true
	drop := &Batch{Urgent: true}
	drop.DropValues(1)
	s.Submit(drop)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the blob that the drop has freed is still there: %v", err)
	}
}
