package boltfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"operon/storage/boltfile"
)

func TestCreateFillsOrLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.db")
	if _, err := boltfile.Open(path, boltfile.Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a reader of nothing got %v", err)
	}
	broken := errors.New("no")
	_, err := boltfile.Open(path, boltfile.Options{Init: func(*bolt.Tx) error { return broken }})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 0 {
		t.Fatalf("left %v (%v)", left, err)
	}
	if err := os.WriteFile(path+".new", []byte("left by a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := open(t, path, boltfile.Options{Init: put(0, 3).Apply})
	if n, err := keys(f); n != 3 || err != nil {
		t.Fatalf("%d keys (%v), want 3", n, err)
	}
}

func TestCommitsInOrderAndDurable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.db")
	f := open(t, path, boltfile.Options{})
	var done []int
	for i := range 100 {
		c := put(i, i+1)
		c.Done = func(err error) {
			if err != nil {
				t.Error(err)
			}
			done = append(done, i)
		}
		f.Submit(c)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if len(done) != 100 || !slices.IsSorted(done) {
		t.Errorf("done %v", done)
	}
	if n, err := keys(open(t, path, boltfile.Options{ReadOnly: true})); n != 100 || err != nil {
		t.Errorf("%d keys (%v), want 100", n, err)
	}
}

// With an interval that never ends, only the first commit and what an urgent
// one carries along are written.
func TestIntervalGathersUntilUrgent(t *testing.T) {
	commits := 0
	f := open(t, filepath.Join(t.TempDir(), "data.db"), boltfile.Options{
		Interval: 1000 * time.Hour,
		Name:     "data",
		Hook: func(point string) {
			if point == "before:data" {
				commits++
			}
		},
	})
	first := make(chan error)
	c := put(0, 1)
	c.Done = func(err error) { first <- err }
	f.Submit(c)
	if err := <-first; err != nil { // nothing came before it, so it need not wait
		t.Fatal(err)
	}
	for i := range 50 {
		f.Submit(put(i, i+1))
	}
	last := make(chan error)
	urgent := put(50, 51)
	urgent.Urgent, urgent.Done = true, func(err error) { last <- err }
	f.Submit(urgent)
	if err := <-last; err != nil {
		t.Fatal(err)
	}
	f.Submit(put(51, 52))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if commits != 3 {
		t.Errorf("%d transactions, want the first, the urgent one, and that of Close", commits)
	}
}

func TestFailedCommitEndsWritingAndChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.db")
	f := open(t, path, boltfile.Options{})
	f.Submit(put(0, 10))
	if err := flush(t, f); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	results := make(chan error, 3)
	note := func(err error) { results <- err }
	half := put(10, 20)
	half.Done = note
	bad := boltfile.Commit{Apply: func(tx *bolt.Tx) error {
		return errors.Join(put(20, 30).Apply(tx), broken)
	}, Done: note}
	f.Submit(boltfile.Commit{Apply: func(tx *bolt.Tx) error {
		return errors.Join(half.Apply(tx), bad.Apply(tx))
	}, Done: note})
	f.Submit(boltfile.Commit{Apply: put(30, 40).Apply, Done: note})
	for range 2 {
		if err := <-results; !errors.Is(err, broken) {
			t.Errorf("done with %v", err)
		}
	}
	if err := flush(t, f); !errors.Is(err, broken) || !errors.Is(f.Failed(), broken) {
		t.Errorf("flushed with %v, failed with %v", err, f.Failed())
	}
	if n, err := keys(f); n != 10 || err != nil {
		t.Errorf("%d keys (%v), want 10", n, err)
	}
	if err := f.Close(); !errors.Is(err, broken) {
		t.Errorf("closed with %v", err)
	}
	if err := flush(t, f); !boltfile.IsClosed(err) {
		t.Errorf("after Close: %v", err)
	}
	f = open(t, path, boltfile.Options{})
	f.Submit(put(10, 12))
	if err := flush(t, f); err != nil {
		t.Error(err)
	}
	if n, err := keys(f); n != 12 || err != nil {
		t.Errorf("%d keys (%v), want 12", n, err)
	}
}

func TestSecondOpenerIsRefusedInTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data.db")
	open(t, path, boltfile.Options{})
	for _, readOnly := range []bool{false, true} {
		_, err := boltfile.Open(path, boltfile.Options{ReadOnly: readOnly, Timeout: 60 * time.Millisecond})
		var used *boltfile.InUseError
		if !errors.As(err, &used) {
			t.Errorf("read only %v: %v", readOnly, err)
		}
	}
}

func TestReadersShareAndWriteNothing(t *testing.T) {
	path := filled(t, 10)
	a := open(t, path, boltfile.Options{ReadOnly: true})
	open(t, path, boltfile.Options{ReadOnly: true})
	done := make(chan error, 1)
	c := put(10, 11)
	c.Done = func(err error) { done <- err }
	a.Submit(c)
	if err := <-done; err == nil {
		t.Error("a reader wrote")
	}
}

func TestDeleteInSteps(t *testing.T) {
	path := filled(t, 5000)
	transactions := 0
	f := open(t, path, boltfile.Options{Name: "x", Hook: func(point string) {
		if point == "before:x" {
			transactions++
		}
	}})
	seen := 0
	done := make(chan error, 1)
	f.DeleteInSteps(bucket, 1000, func(_ *bolt.Tx, k, v []byte) error {
		if _, ok := boltfile.Unseal(bucket, k, v); !ok {
			return errWrong
		}
		seen++
		return nil
	}, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if seen != 5000 || transactions < 5 {
		t.Errorf("saw %d keys in %d transactions", seen, transactions)
	}
	if err := f.View(func(tx *bolt.Tx) error {
		if tx.Bucket(bucket) != nil {
			t.Error("the bucket is left")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	f.DeleteInSteps(bucket, 1000, nil, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Errorf("of nothing: %v", err)
	}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
}

func TestEmptyValueIsNotAbsent(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "data.db"), boltfile.Options{})
	f.Submit(boltfile.Commit{Apply: func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket(bucket)
		if err != nil {
			return err
		}
		return b.Put([]byte("k"), boltfile.Seal(bucket, []byte("k"), nil))
	}})
	if err := flush(t, f); err != nil {
		t.Fatal(err)
	}
	if err := f.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucket)
		body, ok := boltfile.Unseal(bucket, []byte("k"), b.Get([]byte("k")))
		if !ok || body == nil || len(body) != 0 {
			t.Errorf("the empty value is %v, %v", body, ok)
		}
		if body, ok := boltfile.Unseal(bucket, []byte("l"), b.Get([]byte("l"))); ok || body != nil {
			t.Errorf("an absent value is %v", body)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A bug of the caller's is not to be taken for damage.
func TestOtherPanicsPass(t *testing.T) {
	f := open(t, filled(t, 10), boltfile.Options{})
	defer func() {
		if p := recover(); p != "a bug" {
			t.Errorf("recovered %v", p)
		}
		if n, err := keys(f); n != 10 || err != nil { // and its transaction has ended
			t.Errorf("%d keys, %v", n, err)
		}
	}()
	_ = f.View(func(*bolt.Tx) error { panic("a bug") })
}

func TestReadOnlyPlaces(t *testing.T) {
	asAnyUser(t, func(t *testing.T) {
		path := filled(t, 10)
		if err := errors.Join(os.Chmod(path, 0o400), os.Chmod(filepath.Dir(path), 0o500)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(filepath.Dir(path), 0o700) })
		if n, err := keys(open(t, path, boltfile.Options{ReadOnly: true})); n != 10 || err != nil {
			t.Errorf("%d keys (%v), want 10", n, err)
		}
		if _, err := boltfile.Open(path, boltfile.Options{}); !errors.Is(err, syscall.EACCES) {
			t.Errorf("opened for writing: %v", err)
		}
		if _, err := boltfile.Open(path+"2", boltfile.Options{}); !errors.Is(err, syscall.EACCES) {
			t.Errorf("created: %v", err)
		}
	})
}
