package storage

import (
	"context"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage/boltfile"
)

// What the rest hangs on is damaged with the right checksums or without: Mend
// makes the check hold, and keeps every record that can be read.
func TestMend(t *testing.T) {
	for name, damage := range map[string]func(tx *bolt.Tx) error{
		"nothing": func(*bolt.Tx) error { return nil },
		"count of records": func(tx *bolt.Tx) error {
			return tx.Bucket(bucketOf(recordsPrefix, 1)).SetSequence(7)
		},
		"key of a record": func(tx *bolt.Tx) error {
			return tx.Bucket(bucketOf(recordsPrefix, 1)).Put([]byte{9, 9}, []byte("junk"))
		},
		"header": func(tx *bolt.Tx) error {
			return tx.Bucket([]byte(headersBucket)).Put(instanceKey(2), []byte("junk"))
		},
		"count of headers": func(tx *bolt.Tx) error {
			return tx.Bucket([]byte(headersBucket)).SetSequence(7)
		},
		"list of a commit": func(tx *bolt.Tx) error {
			return tx.Bucket([]byte(commitsBucket)).Put(instanceKey(1), []byte("junk"))
		},
		"note of a drop": func(tx *bolt.Tx) error {
			return tx.Bucket([]byte(dropsBucket)).Put([]byte("junk"), []byte("junk"))
		},
		"footprint": func(tx *bolt.Tx) error {
			return tx.Bucket([]byte(stateBucket)).Put([]byte(footprintKey), []byte("junk"))
		},
		"key of a blob": func(tx *bolt.Tx) error {
			return tx.Bucket([]byte(blobsBucket)).Put([]byte("junk"), []byte("junk"))
		},
		"key of items": func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(bucketOf(chunksPrefix, 1))
			if err != nil {
				return err
			}
			return b.Put([]byte{1}, []byte("junk"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openT(t, dir)
			b := &Batch{Urgent: true}
			for id := range uint64(2) {
				b.PutHeader(Header{ID: s.AllocateInstance(), Task: "t", Dims: []string{"i"}, State: Current})
				for i := range uint32(5) {
					// A text that is a list's items in chunks: more than lies in a record.
					o, err := s.Prepare([]value.Value{value.FromText(string(make([]byte, 2000)))}, false)
					if err != nil {
						t.Fatal(err)
					}
					b.PutRecord(id+1, Record{Coord: coord.Of(i)}, o)
				}
			}
			b.PutFootprint(Footprint{RunID: "r"})
			s.Submit(b)
			closeT(t, s)
			hurt(t, dir, damage)

			s = openT(t, dir)
			before := faults(t, s)
			changed, err := s.Mend(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if wrong := name != "nothing"; changed != wrong || wrong && before == 0 && name != "key of items" {
				t.Errorf("changed %v after %d faults", changed, before)
			}
			if _, err := s.Sweep(context.Background()); err != nil {
				t.Fatal(err)
			}
			if after := faults(t, s); after > 0 {
				t.Errorf("%d faults are left of %d", after, before)
			}
			records := 0
			err = s.View(func(r *Reader) error {
				return r.Scan(1, func(_ Record, d *Damage) error {
					if records++; d != nil {
						t.Error(d)
					}
					return nil
				})
			})
			if err != nil || records != 5 {
				t.Errorf("%d records, %v", records, err)
			}
			closeT(t, s)
			closeT(t, openT(t, dir))
		})
	}
}

func openT(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeT(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// hurt changes the database behind the store's back, and keeps its number of
// buckets right.
func hurt(t *testing.T, dir string, damage func(tx *bolt.Tx) error) {
	t.Helper()
	f, err := boltfile.Open(filepath.Join(dir, DataFile), boltfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.Submit(boltfile.Commit{Apply: func(tx *bolt.Tx) error {
		if err := damage(tx); err != nil {
			return err
		}
		return recountBuckets(tx)
	}})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func faults(t *testing.T, s *Store) (n int) {
	t.Helper()
	err := s.View(func(r *Reader) error {
		_, err := r.Check(true, func(d *Damage) error {
			n++
			return nil
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
