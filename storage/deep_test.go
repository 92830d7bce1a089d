package storage_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

const pieces = 8 // of a large blob, at least

// large is a store in which n records name one file, and n one text, both of
// several pieces.
func large(t *testing.T, n uint32) (s *storage.Store, dir string) {
	dir = t.TempDir()
	s = open(t, dir, storage.Options{})
	text := strings.Repeat("0123456789abcdef", pieces*(256<<10)/16)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &storage.Batch{}
	for i := range n {
		for inst, v := range []value.Value{value.FromFile(value.FileInfo{Name: "file", Path: path}), value.FromText(text)} {
			o, err := s.Prepare([]value.Value{v}, false)
			if err != nil {
				t.Fatal(err)
			}
			b.PutRecord(uint64(inst)+1, storage.Record{Coord: coord.Of(i)}, o)
			if inst == 1 && i > 2 {
				b.PutRecord(3, storage.Record{Coord: coord.Of(i)}, o)
			}
		}
	}
	s.Submit(b)
	flush(t, s)
	return s, dir
}

// A blob is read once a check, however many records name it; its damage is that
// of each.
func TestBlobsAreReadOnce(t *testing.T) {
	const jobs = 40
	s, dir := large(t, jobs)
	looked, found := 0, map[uint64]int{}
	count := func() {
		looked = 0
		clear(found)
		view(t, s, func(r *storage.Reader) error {
			_, err := r.CheckWith(storage.Checking{
				Deep: true,
				Stop: func() error { looked++; return nil },
				Fault: func(d *storage.Damage) error {
					if d.Kind == storage.DamagedBlob {
						found[d.Instance]++
					}
					return nil
				},
			})
			return err
		})
	}
	count()
	if looked < 2*jobs+2*pieces || looked > 3*jobs+4*pieces || len(found) > 0 {
		t.Errorf("looked %d times at %d records of two blobs of %d pieces; %v", looked, 3*jobs-3, pieces, found)
	}
	blobs, err := filepath.Glob(filepath.Join(dir, storage.BlobsDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range blobs {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the folder of temporary files
		}
		text[len(text)/2] ^= 1
		if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	count()
	if found[1] != jobs || found[2] != jobs || found[3] != jobs-3 || looked > 3*jobs+4*pieces {
		t.Errorf("damage of %v, looked %d times", found, looked)
	}
}

// A check ends in the middle of a blob.
func TestCheckStopsInABlob(t *testing.T) {
	s, _ := large(t, 1)
	enough := errors.New("enough")
	for after := range 2 * pieces {
		calls := 0
		stop := func() error {
			if calls++; calls > after {
				return enough
			}
			return nil
		}
		err := s.View(func(r *storage.Reader) error {
			_, err := r.CheckWith(storage.Checking{Deep: true, Stop: stop, Fault: func(d *storage.Damage) error { return d }})
			return err
		})
		if !errors.Is(err, enough) || calls != after+1 {
			t.Errorf("after %d calls: %v after %d", after, err, calls)
		}
	}
	err := s.View(func(r *storage.Reader) error {
		_, _, err := r.ItemDigest(2, coord.Of(0), 0, func() error { return enough })
		return err
	})
	if !errors.Is(err, enough) {
		t.Errorf("the digest of a text: %v", err)
	}
}

// The digest of an item without its value is that of its value.
func TestItemDigest(t *testing.T) {
	s := open(t, t.TempDir(), storage.Options{})
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("file"), 0o600); err != nil {
		t.Fatal(err)
	}
	many := []value.Value{value.FromJSON([]byte("1")), value.FromText(strings.Repeat("long", 10_000)), value.FromFile(value.FileInfo{Name: "file", Path: path})}
	for range 5000 {
		many = append(many, value.FromText(strings.Repeat("x", len(many)%700)))
	}
	b := &storage.Batch{}
	for inst, items := range [][]value.Value{many, many[:1], many[1:2], {}} {
		o, err := s.Prepare(items, len(items) != 1)
		if err != nil {
			t.Fatal(err)
		}
		b.PutRecord(uint64(inst)+1, storage.Record{Spawning: len(items) != 1}, o)
	}
	b.PutRecord(5, storage.Record{}, s.PrepareHole("for want of it", true))
	s.Submit(b)
	for _, when := range []string{"pending", "durable"} {
		view(t, s, func(r *storage.Reader) error {
			for inst := uint64(1); inst <= 5; inst++ {
				var all value.Identities
				n := uint32(0)
				err := r.Values(inst, "", 0, 1<<20, func(i uint32, v value.Value) error {
					n++
					all.Value(v)
					for range 2 { // from what it remembers, too
						d, ok, err := r.ItemDigest(inst, "", i, nil)
						if err != nil || !ok || d != v.Digest() {
							t.Errorf("%s: item %d of %d: %v, %v", when, i, inst, ok, err)
						}
					}
					return nil
				})
				if err != nil {
					return err
				}
				var sum value.Identities
				items, err := r.Identities(inst, "", 0, 1<<20, &sum, nil)
				if err != nil || items != n || sum.Sum() != all.Sum() {
					t.Errorf("%s: %d items of %d, not %d, or other ones: %v", when, items, inst, n, err)
				}
				if _, ok, err := r.ItemDigest(inst, "", n, nil); ok || err != nil {
					t.Errorf("%s: beyond the end of %d: %v, %v", when, inst, ok, err)
				}
			}
			if _, _, err := r.ItemDigest(9, "", 0, nil); !errors.Is(err, storage.ErrNoRecord) {
				t.Errorf("no record: %v", err)
			}
			return nil
		})
		flush(t, s)
	}
}
