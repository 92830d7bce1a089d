package boltfile_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"operon/storage/boltfile"
)

func TestWhatIsNoDatabase(t *testing.T) {
	page := os.Getpagesize()
	whole, err := os.ReadFile(filled(t, 2000))
	if err != nil {
		t.Fatal(err)
	}
	metas := bytes.Clone(whole)
	clear(metas[:2*page])
	for name, content := range map[string][]byte{
		"empty file":     {},
		"foreign file":   bytes.Repeat([]byte("a text file\n"), 5000),
		"short text":     []byte("hello"),
		"half a file":    whole[:len(whole)/2],
		"a page":         whole[:page],
		"two pages":      whole[:2*page],
		"both metas":     metas,
		"zeros":          make([]byte, 32<<10),
		"half a page":    whole[:page/2],
		"three pages":    whole[:3*page],
		"a page and one": whole[:page+1],
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "data.db")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, readOnly := range []bool{true, false} {
				f, err := boltfile.Open(path, boltfile.Options{ReadOnly: readOnly})
				if !isDamage(err) {
					if err == nil {
						f.Close()
					}
					t.Errorf("read only %v: %v", readOnly, err)
				}
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, content) {
				t.Errorf("the file was changed (%v)", err)
			}
		})
	}
	t.Run("folder", func(t *testing.T) {
		if _, err := boltfile.Open(t.TempDir(), boltfile.Options{}); !isDamage(err) {
			t.Error(err)
		}
	})
	t.Run("pipe", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "data.db")
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Skip(err)
		}
		if _, err := boltfile.Open(path, boltfile.Options{}); !isDamage(err) {
			t.Error(err)
		}
	})
}

// One damaged meta page costs at most the last commit.
func TestOneMetaPage(t *testing.T) {
	for which := range 2 {
		path := filled(t, 10)
		overwrite(t, path, int64(which*os.Getpagesize()), make([]byte, 64+16))
		f := open(t, path, boltfile.Options{})
		n, err := keys(f)
		if err != nil || n != 10 && n != 0 {
			t.Errorf("meta %d: %d keys (%v)", which, n, err)
		}
		f.Submit(put(0, 20))
		if err := flush(t, f); err != nil {
			t.Errorf("meta %d: %v", which, err)
		}
		if err := f.Check(); err != nil {
			t.Errorf("meta %d: %v", which, err)
		}
	}
}

func overwrite(t testing.TB, path string, at int64, with []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(with, at)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// use opens a file, reads all of it and writes to it. What it reads must be
// right; it returns an error of damage where it could not be had.
func use(t *testing.T, path string, want int) error {
	t.Helper()
	f, err := boltfile.Open(path, boltfile.Options{Interval: -1})
	if err != nil {
		return err
	}
	n, err := keys(f)
	f.Submit(put(n/2, n/2+3))
	written := flush(t, f)
	closed := f.Close()
	if err == nil && n != want {
		// Keys may be lost with the page that led to them, but not their places
		// taken by others; a count of the keys is for the layer above.
		if n > want {
			t.Errorf("%d keys of %d", n, want)
		}
		return errWrong
	}
	return errors.Join(err, written, closed)
}

// Every page is overwritten in turn, and no use of the file panics.
func TestPagesOverwritten(t *testing.T) {
	page := os.Getpagesize()
	const n = 1000
	whole, err := os.ReadFile(filled(t, n))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "data.db")
	pages := int(binary.LittleEndian.Uint64(whole[16+40:]))
	for _, junk := range [][]byte{make([]byte, page), bytes.Repeat([]byte{0xFF}, page), bytes.Repeat([]byte{1}, page), whole[3*page : 4*page]} {
		for p := 2; p < pages; p++ {
			content := bytes.Clone(whole)
			copy(content[p*page:], junk)
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := use(t, path, n); err != nil && !isDamage(err) && !errors.Is(err, errWrong) {
				t.Errorf("page %d: %v", p, err)
			}
		}
	}
}

// A branch that leads back to itself would be followed for ever.
func TestPagesInACircle(t *testing.T) {
	page := os.Getpagesize()
	path := filled(t, 5000)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	circles := 0
	for p := 2; p < len(whole)/page; p++ {
		at := p * page
		if binary.LittleEndian.Uint64(whole[at:]) != uint64(p) || binary.LittleEndian.Uint16(whole[at+8:]) != 1 {
			continue
		}
		circles++
		content := bytes.Clone(whole)
		binary.LittleEndian.PutUint64(content[at+16+8:], uint64(p))
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := use(t, path, 5000); err != nil && !isDamage(err) {
			t.Errorf("page %d: %v", p, err)
		}
	}
	if circles == 0 {
		t.Fatal("there is no branch: the test tests nothing")
	}
}

// Truncating the file under its map makes the kernel send a signal.
func TestTruncatedWhileOpen(t *testing.T) {
	path := filled(t, 5000)
	f := open(t, path, boltfile.Options{})
	if err := os.Truncate(path, int64(3*os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	if _, err := keys(f); !isDamage(err) {
		t.Errorf("read: %v", err)
	}
	f.Submit(put(0, 5000))
	if err := flush(t, f); !isDamage(err) {
		t.Errorf("wrote: %v", err)
	}
	if err := f.Close(); !isDamage(err) {
		t.Errorf("closed: %v", err)
	}
	l, err := boltfile.Open(path, boltfile.Options{})
	if !isDamage(err) { // and not: in use
		if err == nil {
			l.Close()
		}
		t.Errorf("opened again: %v", err)
	}
}

// What cannot be grown is an error with its cause, and the file stays whole.
func TestFileSizeLimit(t *testing.T) {
	if !child() {
		again(t, func(*exec.Cmd) {})
		return
	}
	path := filled(t, 100)
	limit := syscall.Rlimit{Cur: 300 << 10, Max: 300 << 10}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Skip(err)
	}
	fillUp(t, path, syscall.EFBIG)
}

func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("operon-test", dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Skip("needs a small file system:", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "data.db")
	f := open(t, path, boltfile.Options{})
	f.Submit(put(0, 100))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	fillUp(t, path, syscall.ENOSPC)
}

// fillUp writes until it gets want, and looks whether what was durable is.
func fillUp(t *testing.T, path string, want error) {
	t.Helper()
	f := open(t, path, boltfile.Options{})
	durable, i := 100, 100
	for ; i < 100_000; i += 100 {
		f.Submit(put(i, i+100))
		if err := flush(t, f); err != nil {
			if !errors.Is(err, want) {
				t.Fatalf("got %v, want %v", err, want)
			}
			break
		}
		durable = i + 100
	}
	if i == 100_000 {
		t.Fatal("it never was full")
	}
	if n, err := keys(f); n != durable || err != nil {
		t.Errorf("%d keys (%v), want %d", n, err, durable)
	}
	if err := f.Close(); !errors.Is(err, want) {
		t.Errorf("closed with %v", err)
	}
	f = open(t, path, boltfile.Options{})
	if n, err := keys(f); n != durable || err != nil {
		t.Errorf("opened again: %d keys (%v), want %d", n, err, durable)
	}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
	f.Submit(boltfile.Commit{Apply: func(tx *bolt.Tx) error { return tx.DeleteBucket(bucket) }})
	if err := flush(t, f); err != nil {
		t.Errorf("after space was made: %v", err)
	}
}

// A small bucket lies in a page of the root. bbolt may copy it to the heap, where
// an element that points beyond it would end the process.
func TestSmallBucketOutOfBounds(t *testing.T) {
	path := filled(t, 5)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	hit := 0
	for at := 2 * page; at+16 < len(whole); at++ {
		// A leaf with five elements, and not at the start of a page.
		if at%page == 0 || binary.LittleEndian.Uint16(whole[at+8:]) != 2 || binary.LittleEndian.Uint16(whole[at+10:]) != 5 {
			continue
		}
		for _, field := range []int{4, 8, 12} { // place and sizes of the first element
			content := bytes.Clone(whole)
			content[at+16+field+3] = 0x10
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if f, err := boltfile.Open(path, boltfile.Options{}); isDamage(err) {
				hit++
			} else if err == nil {
				f.Close()
			}
		}
	}
	if hit < 3 {
		t.Errorf("%d of the damaged fields were found", hit)
	}
}

// closed closes a file and returns what it holds.
func closed(t *testing.T, f *boltfile.File, path string) []byte {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

// Nothing but its place among the others vouches for the name of a bucket.
func TestBucketNameDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.db")
	f := open(t, path, boltfile.Options{})
	f.Submit(boltfile.Commit{Apply: func(tx *bolt.Tx) error {
		for _, name := range []string{"bucket1", "bucket2", "bucket3"} {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	}})
	whole := closed(t, f, path)
	for _, name := range []string{"bucket1", "bucket5"} {
		content := bytes.ReplaceAll(whole, []byte("bucket2"), []byte(name))
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := boltfile.Open(path, boltfile.Options{}); !isDamage(err) {
			t.Errorf("bucket2 as %s: %v", name, err)
		}
	}
}

// A branch that sends look-ups for a bucket to the wrong page hides it: that is
// seen at once, whatever the damaged byte.
func TestBranchOfTheBucketsDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.db")
	f := open(t, path, boltfile.Options{})
	const buckets = 120
	name := func(n int) []byte { return fmt.Appendf(nil, "bucket%03d", n) }
	f.Submit(boltfile.Commit{Apply: func(tx *bolt.Tx) error {
		for n := range buckets {
			b, err := tx.CreateBucket(name(n))
			if err == nil {
				err = b.Put([]byte("key"), bytes.Repeat([]byte{byte(n)}, 100))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}})
	whole := closed(t, f, path)
	page, root := os.Getpagesize(), rootOf(whole)
	if n := binary.LittleEndian.Uint16(whole[root*page+10:]); whole[root*page+8] != 1 || n < 3 {
		t.Fatalf("the list of buckets has no branch, or one of %d pages", n)
	}
	seen := 0
	for at := root*page + 16; at < root*page+200; at++ {
		for _, mask := range []byte{1, 4, 0x80, 0xFF} {
			content := bytes.Clone(whole)
			content[at] ^= mask
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := boltfile.Open(path, boltfile.Options{ReadOnly: true})
			if isDamage(err) {
				seen++
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			err = f.View(func(tx *bolt.Tx) error {
				for n := range buckets {
					if tx.Bucket(name(n)) == nil {
						return errWrong
					}
				}
				return nil
			})
			if err := errors.Join(err, f.Close()); err != nil {
				t.Errorf("byte %d of the branch, mask %#x: %v", at-root*page, mask, err)
			}
		}
	}
	if seen == 0 {
		t.Error("nothing was seen to be damaged")
	}
}

// rootOf is the page that the buckets hang on.
func rootOf(content []byte) int {
	newest, root := uint64(0), uint64(0)
	for n := range 2 {
		m := content[n*os.Getpagesize()+16:]
		if tx := binary.LittleEndian.Uint64(m[48:]); tx >= newest {
			newest, root = tx, binary.LittleEndian.Uint64(m[16:])
		}
	}
	return int(root)
}

// CheckPages meets a leaf whose keys no look-up finds, which Open does not read.
func TestCheckPages(t *testing.T) {
	path := filled(t, 5000)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page, checked, found := os.Getpagesize(), 0, 0
	for n := 2; n < len(whole)/page; n++ {
		if whole[n*page+8] != 2 {
			continue // no leaf
		}
		content := bytes.Clone(whole)
		content[n*page+16+16+9] ^= 0xFF // the size of its second key
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := boltfile.Open(path, boltfile.Options{})
		if err != nil {
			continue
		}
		checked++
		if err := f.CheckPages(); isDamage(err) {
			found++
		} else if err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if checked == 0 || found == 0 || found < checked/2 {
		t.Errorf("%d of %d were found", found, checked)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path, boltfile.Options{}).CheckPages(); err != nil {
		t.Errorf("undamaged: %v", err)
	}
}
