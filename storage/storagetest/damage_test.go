package storagetest_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"operon/storage"
	"operon/storage/boltfile"
	"operon/storage/storagetest"
)

// step is how far apart the bytes are that are damaged.
const step = 128

// Whatever byte of data.db is damaged: what is read is what was written, or is
// said to be damaged, or is not found and Check says why. Nothing panics. A
// damaged first page may cost the last commit, no more.
func TestEveryByteOfData(t *testing.T) {
	dir := t.TempDir()
	w := small(t, dir)
	shut(t, w.Store, dir)
	path := filepath.Join(dir, storage.DataFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused, told := 0, 0
	for at := 0; at < len(whole); at += step {
		// Not the same bit of the same field over and over.
		at := min(at+at/step%step, len(whole)-1)
		content := bytes.Clone(whole)
		if at%3 == 0 {
			content[at] ^= 0xFF
		} else {
			content[at] ^= 1 << (at / step % 8)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := readDamaged(t, dir, w, at); err != nil {
			refused++
		} else {
			told++
		}
	}
	if refused == 0 || told == 0 {
		t.Errorf("%d files refused, %d read: the test tests nothing", refused, told)
	}
}

// readDamaged opens and reads a store in which byte at is damaged.
func readDamaged(t *testing.T, dir string, w *storagetest.Twin, at int) error {
	t.Helper()
	s, err := storage.Open(dir, storage.Options{ReadOnly: true})
	if err != nil {
		if !storage.IsDamage(err) {
			t.Errorf("byte %d: opened with %v", at, err)
		}
		return err
	}
	defer s.Close()
	m := w.At(s.LastCommit())
	if m == nil || s.LastCommit()+1 < w.Model.Commit {
		t.Errorf("byte %d: at commit %d of %d", at, s.LastCommit(), w.Model.Commit)
		return nil
	}
	faults, err := check(s)
	if err != nil && !storage.IsDamage(err) {
		t.Errorf("byte %d: checked with %v", at, err)
	}
	quiet := faults == 0 && err == nil
	err = s.View(m.Compare)
	if err == nil {
		return nil
	}
	if !storage.IsDamage(err) && (quiet || !storagetest.Differs(err)) {
		t.Errorf("byte %d: compared with %v", at, err)
	}
	if err := s.View(func(r *storage.Reader) error { return eachJob(t, r, m, at, quiet) }); err != nil && !storage.IsDamage(err) {
		t.Errorf("byte %d: read with %v", at, err)
	}
	return nil
}

// check counts what the store finds wrong with itself.
func check(s *storage.Store) (faults int, err error) {
	err = s.View(func(r *storage.Reader) error {
		_, err := r.Check(true, func(*storage.Damage) error {
			faults++
			return nil
		})
		return err
	})
	return faults, err
}

// eachJob reads every job by itself: one may be damaged, and the others right.
func eachJob(t *testing.T, r *storage.Reader, m *storagetest.Model, at int, quiet bool) error {
	for job := range m.Records {
		err := m.CompareJob(r, job.Instance, job.Coord)
		switch {
		case err == nil, storage.IsDamage(err):
		case storagetest.Differs(err):
			if quiet || !errors.Is(err, storage.ErrNoRecord) {
				t.Errorf("byte %d: job %v of instance %d (check was quiet: %v): %v", at, job.Coord.Indices(), job.Instance, quiet, err)
			}
		default:
			t.Errorf("byte %d: job %v of %d: %v", at, job.Coord.Indices(), job.Instance, err)
		}
	}
	return nil
}

// A store that is damaged is written to all the same, or refuses: no panic, and
// what was right stays so.
func TestWritingToDamagedData(t *testing.T) {
	dir := t.TempDir()
	w := small(t, dir)
	shut(t, w.Store, dir)
	path := filepath.Join(dir, storage.DataFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 2 * os.Getpagesize(); at < len(whole); at += 5 * step {
		content := bytes.Clone(whole)
		content[at+at/step%step] ^= 0xFF
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := storage.Open(dir, storage.Options{Interval: -1})
		if err != nil {
			if !storage.IsDamage(err) {
				t.Errorf("byte %d: %v", at, err)
			}
			continue
		}
		b := &storage.Batch{}
		for job := range w.Model.Records {
			b.DropRecord(job.Instance, job.Coord)
			b.PutRecord(job.Instance, storage.Record{Coord: job.Coord}, nil)
		}
		s.Submit(b)
		if err := s.Flush(t.Context()); err != nil && !storage.IsDamage(err) {
			t.Errorf("byte %d: wrote with %v", at, err)
		}
		if err := s.Close(); err != nil && !storage.IsDamage(err) {
			t.Errorf("byte %d: closed with %v", at, err)
		}
	}
}

func TestBlobsDamaged(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"missing": os.Remove,
		"cut short": func(path string) error {
			return errors.Join(os.Chmod(path, 0o600), os.Truncate(path, 1))
		},
		"changed": func(path string) error {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content[len(content)/2] ^= 1
			return errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, content, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			w := small(t, dir)
			blobs, err := filepath.Glob(filepath.Join(dir, storage.BlobsDir, "*[0-9a-fx]"))
			if err != nil || len(blobs) < 2 {
				t.Fatalf("blobs %v (%v)", blobs, err)
			}
			for _, path := range blobs {
				if err := damage(path); err != nil {
					t.Fatal(err)
				}
			}
			faults, err := check(w.Store)
			if err != nil || faults == 0 {
				t.Errorf("%d faults (%v)", faults, err)
			}
			// Doing the jobs again mends it.
			b := &storage.Batch{}
			for job := range w.Model.Records {
				b.DropRecord(job.Instance, job.Coord)
			}
			w.Store.Submit(b)
			flush(t, t.Context(), w)
			if faults, err := check(w.Store); err != nil || faults != 0 {
				t.Errorf("%d faults (%v) after the records were dropped", faults, err)
			}
			shut(t, w.Store, dir)
		})
	}
}

// What lies in the place of data.db, and is none, is damage.
func TestSomethingElseInItsPlace(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, storage.DataFile), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{true, false} {
		if _, err := storage.Open(dir, storage.Options{ReadOnly: readOnly}); !storage.IsDamage(err) {
			t.Errorf("a folder: %v", err)
		}
	}
	other := t.TempDir() // a database, but not ours
	f, err := boltfile.Open(filepath.Join(other, storage.DataFile), boltfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := storage.Open(other, storage.Options{}); !storage.IsDamage(err) {
		t.Errorf("a foreign database: %v", err)
	}
}
