package storage_test

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"operon/spec/value"
	"operon/storage"
)

// file makes a file and its value.
func file(t *testing.T, path, content string) value.Value {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return value.FromFile(value.FileInfo{Name: filepath.Base(path), Path: path})
}

func prepare(t *testing.T, s *storage.Store, spawning bool, items ...value.Value) *storage.Output {
	t.Helper()
	o, err := s.Prepare(items, spawning)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// stored puts an output and reads its first value when it is durable.
func stored(t *testing.T, s *storage.Store, i uint32, o *storage.Output) value.Value {
	t.Helper()
	b := &storage.Batch{}
	b.PutRecord(1, record(i), o)
	s.Submit(b)
	flush(t, s)
	return first(t, s, i)
}

func first(t *testing.T, s *storage.Store, i uint32) (got value.Value) {
	t.Helper()
	view(t, s, func(r *storage.Reader) error {
		return r.Values(1, record(i).Coord, 0, 1, func(_ uint32, v value.Value) error {
			got = v
			return nil
		})
	})
	return got
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestFilesAreMovedOrCopied(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "state"), storage.Options{})
	scratch := filepath.Join(dir, "state", "work", "job1")
	linked := filepath.Join(scratch, "linked")
	v := file(t, linked, "linked")
	if err := os.Link(linked, filepath.Join(scratch, "other")); err != nil {
		t.Fatal(err)
	}
	pointed := filepath.Join(scratch, "pointed")
	file(t, filepath.Join(scratch, "target"), "pointed")
	if err := os.Symlink("target", pointed); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		v       value.Value
		content string
		stays   bool
	}{
		{file(t, filepath.Join(scratch, "mine"), "mine"), "mine", false},
		{file(t, filepath.Join(dir, "theirs"), "theirs"), "theirs", true},
		{v, "linked", true},
		{value.FromFile(value.FileInfo{Path: pointed}), "pointed", true},
		{file(t, filepath.Join(scratch, "empty"), ""), "", false},
	} {
		from := c.v.File.Path
		exec := i%2 == 1
		c.v.File.Exec = exec
		got := stored(t, s, uint32(i), prepare(t, s, false, c.v))
		content, err := os.ReadFile(got.File.Path)
		if err != nil || string(content) != c.content {
			t.Errorf("%s: %q (%v)", from, content, err)
		}
		if got.File.SHA256 != sha256.Sum256([]byte(c.content)) || got.File.Size != int64(len(c.content)) || got.File.Name != filepath.Base(from) {
			t.Errorf("%s: stored as %+v", from, got.File)
		}
		info, err := os.Stat(got.File.Path)
		if err != nil || info.Mode()&0o222 != 0 || info.Mode()&0o100 != 0 != exec {
			t.Errorf("%s: mode %v (%v)", from, info.Mode(), err)
		}
		if exists(from) != c.stays {
			t.Errorf("%s: still there: %v", from, exists(from))
		}
	}
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, storage.Options{})
	for name, v := range map[string]value.Value{
		"missing": value.FromFile(value.FileInfo{Path: filepath.Join(dir, "nothing")}),
		"folder":  value.FromFile(value.FileInfo{Path: t.TempDir()}),
		"no kind": {},
	} {
		if _, err := s.Prepare([]value.Value{v}, false); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := s.Prepare(nil, false); err == nil {
		t.Error("a single output without a value: no error")
	}
}

// A file by reference is the user's: nothing is read, moved, or made of it.
func TestFileByReference(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, storage.Options{})
	ref := value.FileInfo{Name: "a", Size: 9, SHA256: sha256.Sum256([]byte("a")), Path: "data/a", Ref: true}
	got := stored(t, s, 0, prepare(t, s, false, value.FromFile(ref)))
	if *got.File != ref {
		t.Errorf("%+v, want %+v", *got.File, ref)
	}
	if n := blobs(t, dir); n != 0 {
		t.Errorf("%d blobs", n)
	}
}

// blobs is how many blobs there are.
func blobs(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, storage.BlobsDir))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if !e.IsDir() {
			n++
		}
	}
	return n
}

// A job that passes on a file names its blob again, and the blob lives as long
// as one of the two records.
func TestBlobIsSharedAndGoesLast(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, storage.Options{})
	got := stored(t, s, 0, prepare(t, s, false, file(t, filepath.Join(dir, "f"), "content")))
	again := stored(t, s, 1, prepare(t, s, false, value.FromFile(value.FileInfo{Name: "g", Path: got.File.Path})))
	if again.File.Path != got.File.Path || again.File.Name != "g" || blobs(t, dir) != 1 {
		t.Errorf("%+v beside %+v, %d blobs", again.File, got.File, blobs(t, dir))
	}
	for i := range uint32(2) {
		if blobs(t, dir) != 1 {
			t.Errorf("the blob went before record %d did", i)
		}
		b := &storage.Batch{}
		b.DropRecord(1, record(i).Coord)
		s.Submit(b)
		flush(t, s)
	}
	if blobs(t, dir) != 0 {
		t.Error("the blob is left")
	}
}

// A blob that an output names, which is not submitted yet, stays.
func TestPreparedBlobStays(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, storage.Options{})
	text := value.FromText(strings.Repeat("x", storage.InlineLimit))
	stored(t, s, 0, prepare(t, s, false, text))
	held := prepare(t, s, false, text)
	b := &storage.Batch{}
	b.DropRecord(1, record(0).Coord)
	s.Submit(b)
	flush(t, s)
	if blobs(t, dir) != 1 {
		t.Fatalf("%d blobs while one is held", blobs(t, dir))
	}
	if removed, err := s.Sweep(t.Context()); err != nil || removed != 0 {
		t.Errorf("swept %d (%v)", removed, err)
	}
	if got := stored(t, s, 1, held); string(got.JSON) != string(text.JSON) {
		t.Error("another value")
	}
	// And one that never comes is found by Sweep.
	prepare(t, s, false, value.FromText(strings.Repeat("y", storage.InlineLimit))).Discard()
	if removed, err := s.Sweep(t.Context()); err != nil || removed != 1 || blobs(t, dir) != 1 {
		t.Errorf("swept %d (%v), %d left", removed, err, blobs(t, dir))
	}
}

func TestDigestIsThatOfTheValues(t *testing.T) {
	s := open(t, t.TempDir(), storage.Options{})
	values := []value.Value{value.FromText("a"), value.NewHole("b"), value.FromText(strings.Repeat("x", 1<<20))}
	if got := prepare(t, s, true, values...); got.Digest() != storage.DigestOf(values) || got.Extent() != 3 {
		t.Errorf("digest %v, extent %d", got.Digest(), got.Extent())
	}
	seen := map[value.Digest]bool{}
	for _, items := range [][]value.Value{{}, values[:1], values[:2], {values[1], values[0]}} {
		seen[prepare(t, s, true, items...).Digest()] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d digests of 4 outputs", len(seen))
	}
}

func TestReadOnlyStoreRefusesToWrite(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, storage.Options{})
	stored(t, s, 0, prepare(t, s, false, value.FromText("a")))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r := open(t, dir, storage.Options{ReadOnly: true})
	if got := first(t, r, 0); string(got.JSON) != `"a"` {
		t.Errorf("read %s", got.JSON)
	}
	if _, err := r.Prepare([]value.Value{value.FromText("b")}, false); !errors.Is(err, storage.ErrReadOnly) {
		t.Error(err)
	}
	refused := make(chan error, 1)
	r.Submit(&storage.Batch{Done: func(_ uint64, err error) { refused <- err }})
	if err := <-refused; !errors.Is(err, storage.ErrReadOnly) {
		t.Error(err)
	}
}
