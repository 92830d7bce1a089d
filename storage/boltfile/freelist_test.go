package boltfile_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"operon/storage/boltfile"
)

// holed is a file with free pages, some behind values that run over pages, and
// where its list of free pages lies.
func holed(t *testing.T) (content []byte, at, entries int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data.db")
	f, err := boltfile.Open(path, boltfile.Options{Interval: -1})
	if err != nil {
		t.Fatal(err)
	}
	long := []byte(strings.Repeat("long ", 3000))
	for i := range 40 {
		f.Submit(boltfile.Commit{Apply: func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(bucket)
			if err != nil {
				return err
			}
			if i%3 == 2 {
				return b.Delete(key(i - 1))
			}
			return b.Put(key(i), boltfile.Seal(bucket, key(i), bytes.Clone(long)))
		}})
		if err := f.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if content, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	newest := uint64(0)
	for n := range 2 {
		m := content[n*os.Getpagesize()+16:]
		if tx := binary.LittleEndian.Uint64(m[48:]); tx >= newest {
			newest, at = tx, int(binary.LittleEndian.Uint64(m[32:]))*os.Getpagesize()
		}
	}
	if entries = int(binary.LittleEndian.Uint16(content[at+10:])); entries < 5 {
		t.Fatalf("%d free pages", entries)
	}
	return content, at, entries
}

// Whatever byte of the list of free pages is damaged: readers read on, but where
// it looks as if what they read were damaged, and who writes is refused, or writes
// without harm.
func TestDamagedFreeList(t *testing.T) {
	content, at, entries := holed(t)
	path := filepath.Join(t.TempDir(), "data.db")
	refused, told, unread := 0, 0, 0
	for off := 0; off < 16+8*entries; off++ {
		for _, mask := range []byte{1, 4, 0x10, 0xFF} {
			damaged := bytes.Clone(content)
			damaged[at+off] ^= mask
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := boltfile.Open(path, boltfile.Options{ReadOnly: true})
			if isDamage(err) && off >= 16 && ascends(damaged[at+16:at+16+8*entries]) {
				unread++
				continue
			}
			if err != nil {
				t.Fatalf("byte %d with %#x: a reader: %v", off, mask, err)
			}
			before, err := keys(f)
			damage := f.FreeListDamage()
			f.Close()
			if err != nil {
				t.Fatalf("byte %d with %#x: a reader: %v", off, mask, err)
			}
			if damage != nil {
				told++
			}
			f, err = boltfile.Open(path, boltfile.Options{Interval: -1})
			if (err != nil) != (damage != nil) {
				t.Errorf("byte %d with %#x: a reader is told %v, a writer %v", off, mask, damage, err)
			}
			if err != nil {
				refused++
				if !isDamage(err) || strings.Contains(err.Error(), "runtime") || strings.Contains(err.Error(), "invalid freelist") {
					t.Errorf("byte %d with %#x: %v", off, mask, err)
				}
				continue
			}
			f.Submit(put(1000, 1400))
			err = flush(t, f)
			if n, readErr := keys(f); err != nil || readErr != nil || n != before+400 {
				t.Errorf("byte %d with %#x: %d keys of %d; %v, %v", off, mask, n, before+400, err, readErr)
			}
			f.Close()
		}
	}
	if refused == 0 || told == 0 || unread > refused/4 {
		t.Errorf("refused %d, told %d, unread %d: the test tests nothing", refused, told, unread)
	}
}

// ascends reports whether the page numbers of a list are in order.
func ascends(ids []byte) bool {
	for last := uint64(0); len(ids) > 0; ids = ids[8:] {
		id := binary.LittleEndian.Uint64(ids)
		if id <= last {
			return false
		}
		last = id
	}
	return true
}
