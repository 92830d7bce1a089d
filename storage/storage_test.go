package storage_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
	"operon/storage/boltfile"
)

func TestNothingThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if _, err := storage.Open(dir, storage.Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read only: %v", err)
	}
	if exists(dir) {
		t.Error("a reader made the directory")
	}
	s := open(t, dir, storage.Options{})
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v (%v)", info.Mode(), err)
	}
	view(t, s, func(r *storage.Reader) error {
		if _, ok, err := r.Footprint(); ok || err != nil {
			t.Errorf("footprint: %v, %v", ok, err)
		}
		if _, ok, err := r.Record(1, ""); ok || err != nil {
			t.Errorf("record: %v, %v", ok, err)
		}
		if err := r.Values(1, "", 0, 1, nil); !errors.Is(err, storage.ErrNoRecord) {
			t.Errorf("values: %v", err)
		}
		return nil
	})
}

func TestInstancesAreNeverGivenTwice(t *testing.T) {
	dir := t.TempDir()
	given := map[uint64]bool{}
	for range 3 {
		s := open(t, dir, storage.Options{})
		b := &storage.Batch{}
		for range 3 {
			id := s.AllocateInstance()
			if given[id] || id == 0 {
				t.Errorf("%d is given twice, or 0", id)
			}
			given[id] = true
			b.PutHeader(storage.Header{ID: id, State: storage.Current})
			b.DropInstance(id)
		}
		s.Submit(b)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// What is submitted is read at once, and said to others when it is durable.
func TestReadersSeeWhatIsSubmitted(t *testing.T) {
	started, release := make(chan bool, 10), make(chan bool)
	s := open(t, t.TempDir(), storage.Options{Hook: func(point string) {
		if point == "before:data" {
			started <- true
			<-release
		}
	}})
	b := &storage.Batch{}
	b.PutHeader(storage.Header{ID: 1, Task: "t", State: storage.Current})
	b.PutRecord(1, record(7), small(t, s, 7))
	b.PutFailure(1, storage.Failure{Coord: record(8).Coord, Kind: "exit"})
	s.Submit(b)
	<-started // and cannot be durable
	if got := first(t, s, 7); string(got.JSON) != `"result 7"` {
		t.Errorf("read %s", got.JSON)
	}
	if err := s.ViewDurable(func(r *storage.Reader) error {
		_, ok, err := r.Record(1, record(7).Coord)
		_, failed, err2 := r.Failure(1, record(8).Coord)
		if ok || failed {
			t.Error("told before it is durable")
		}
		return errors.Join(err, err2)
	}); err != nil {
		t.Error(err)
	}
	close(release)
	flush(t, s)
	if err := s.ViewDurable(func(r *storage.Reader) error {
		_, ok, err := r.Record(1, record(7).Coord)
		if !ok {
			t.Error("not told when it is durable")
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func TestBatchesAreNumberedAndListed(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, storage.Options{})
	var numbers []uint64
	for i := range uint32(5) {
		b := &storage.Batch{Done: func(n uint64, err error) {
			if err != nil {
				t.Error(err)
			}
			numbers = append(numbers, n)
		}}
		for j := range 3 * i { // the first one puts no record
			b.PutRecord(1, record(100*i+j), small(t, s, 0))
		}
		s.Submit(b)
	}
	flush(t, s)
	if !slices.Equal(numbers, []uint64{1, 2, 3, 4, 5}) || s.LastCommit() != 5 {
		t.Errorf("numbers %v, last %d", numbers, s.LastCommit())
	}
	lists := func() (all []string) {
		view(t, s, func(r *storage.Reader) error {
			return r.Commits(2, func(n uint64, jobs []storage.Ref) error {
				all = append(all, fmt.Sprint(n, len(jobs), jobs[0].Coord.Indices()))
				return nil
			})
		})
		return all
	}
	if got := lists(); !slices.Equal(got, []string{"3 6 [200]", "4 9 [300]", "5 12 [400]"}) {
		t.Errorf("lists %q", got)
	}
	b := &storage.Batch{Applied: 4}
	s.Submit(b)
	if got := lists(); !slices.Equal(got, []string{"5 12 [400]"}) {
		t.Errorf("lists %q after 4 was applied", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, storage.Options{})
	if got := lists(); !slices.Equal(got, []string{"5 12 [400]"}) || s.LastCommit() != 6 {
		t.Errorf("lists %q, last %d", got, s.LastCommit())
	}
}

// More keys than a step deletes, and a close on the way.
func TestDroppingInSteps(t *testing.T) {
	const n = 50_000
	for _, c := range []struct {
		name string
		drop func(b *storage.Batch)
		left int
	}{
		{"instance", func(b *storage.Batch) { b.DropInstance(1) }, 0},
		{"values", func(b *storage.Batch) { b.DropValues(1) }, n},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, storage.Options{})
			b := &storage.Batch{}
			b.PutHeader(storage.Header{ID: 1, State: storage.Current})
			large := prepare(t, s, false, value.FromText(strings.Repeat("x", storage.InlineLimit)))
			list := prepare(t, s, true, slices.Repeat([]value.Value{value.FromText("item")}, 1000)...)
			for i := range uint32(n) {
				o := large
				if i%1000 == 0 {
					o = list
				} else if i != n-1 {
					o = small(t, s, int(i))
				}
				b.PutRecord(1, record(i), o)
			}
			s.Submit(b)
			flush(t, s)
			if blobs(t, dir) != 1 {
				t.Fatalf("%d blobs", blobs(t, dir))
			}
			drop := &storage.Batch{}
			c.drop(drop)
			s.Submit(drop)
			if err := s.Close(); err != nil { // in the middle of it
				t.Fatal(err)
			}
			s = open(t, dir, storage.Options{ReadOnly: true})
			checkDropped(t, s, c.left)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, storage.Options{})
			flush(t, s)
			checkDropped(t, s, c.left)
			if blobs(t, dir) != 0 {
				t.Errorf("%d blobs are left", blobs(t, dir))
			}
			view(t, s, func(r *storage.Reader) error {
				report, err := r.Check(true, func(d *storage.Damage) error { return d })
				if report.StrayChunks != 0 {
					t.Errorf("%d chunks are left", report.StrayChunks)
				}
				return err
			})
		})
	}
}

// checkDropped looks whether an instance has the records it should, and no
// values.
func checkDropped(t *testing.T, s *storage.Store, records int) {
	t.Helper()
	view(t, s, func(r *storage.Reader) error {
		h, ok, err := r.Header(1)
		if ok != (records > 0) || ok && h.State != storage.Released {
			t.Errorf("header %+v, %v", h, ok)
		}
		want := storage.ErrReleased
		if records == 0 {
			want = storage.ErrNoRecord
		}
		if err := r.Values(1, record(7).Coord, 0, 1, nil); !errors.Is(err, want) {
			t.Errorf("values: %v", err)
		}
		n := 0
		return errors.Join(err, r.Records(1, "", func(storage.Record) error {
			n++
			if n > records {
				return errors.New("a record is left")
			}
			return nil
		}))
	})
}

// A job may end after its dataflow was dropped.
func TestRecordOfADroppedInstanceIsIgnored(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, storage.Options{})
	b := &storage.Batch{}
	b.PutHeader(storage.Header{ID: 1, State: storage.Current})
	b.DropInstance(1)
	s.Submit(b)
	late := &storage.Batch{}
	late.PutRecord(1, record(0), prepare(t, s, false, file(t, filepath.Join(dir, "f"), "late")))
	late.PutFailure(1, storage.Failure{Coord: record(1).Coord})
	s.Submit(late)
	flush(t, s)
	view(t, s, func(r *storage.Reader) error {
		_, ok, err := r.Record(1, record(0).Coord)
		if ok {
			t.Error("the record is there")
		}
		return err
	})
	if blobs(t, dir) != 0 {
		t.Errorf("%d blobs", blobs(t, dir))
	}
}

// The empty list is a value, not the lack of one.
func TestEmptyOutputs(t *testing.T) {
	s := open(t, t.TempDir(), storage.Options{})
	b := &storage.Batch{}
	b.PutRecord(1, storage.Record{}, prepare(t, s, true))
	b.PutRecord(2, record(0), prepare(t, s, false, value.FromJSON([]byte(`""`))))
	b.PutRecord(3, record(0), nil)
	s.Submit(b)
	for range 2 { // out of memory, then from the file
		view(t, s, func(r *storage.Reader) error {
			rec, ok, err := r.Record(1, "")
			if !ok || rec.Extent != 0 || !rec.Spawning {
				t.Errorf("record %+v, %v", rec, ok)
			}
			none := func(uint32, value.Value) error { return errors.New("an item") }
			if err := r.Values(3, coord.Of(0), 0, 1, none); !errors.Is(err, storage.ErrReleased) {
				t.Errorf("without an output: %v", err)
			}
			return errors.Join(err, r.Values(1, "", 0, 9, none), r.CheckJob(1, "", true), r.CheckJob(2, coord.Of(0), true))
		})
		flush(t, s)
	}
}

// A disk that is full ends writing; what was durable stays, and writing goes on
// when there is room again.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("operon-test", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("needs a small file system:", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s := open(t, dir, storage.Options{})
	durable := uint32(0)
	for i := uint32(0); ; i++ {
		o, err := s.Prepare([]value.Value{value.FromText(strings.Repeat("x", 10_000))}, false)
		if err != nil {
			t.Fatal(err) // nothing of it lies in a blob
		}
		b := &storage.Batch{}
		b.PutRecord(1, record(i), o)
		s.Submit(b)
		if err := s.Flush(t.Context()); err != nil {
			if !errors.Is(err, syscall.ENOSPC) || !errors.Is(s.Failed(), syscall.ENOSPC) {
				t.Errorf("full: %v, failed: %v", err, s.Failed())
			}
			break
		}
		durable = i + 1
	}
	if _, err := s.Prepare([]value.Value{value.FromText(strings.Repeat("y", 1<<20))}, false); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a blob: %v", err)
	}
	if err := s.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("closed with %v", err)
	}
	s = open(t, dir, storage.Options{})
	view(t, s, func(r *storage.Reader) error {
		report, err := r.Check(true, func(d *storage.Damage) error { return d })
		if report.Records != uint64(durable) {
			t.Errorf("%d records, want %d", report.Records, durable)
		}
		return err
	})
	b := &storage.Batch{}
	for i := range durable {
		b.DropRecord(1, record(i).Coord)
	}
	s.Submit(b)
	if err := s.Flush(t.Context()); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	s.Close()
}

func TestNewerFormat(t *testing.T) {
	dir := t.TempDir()
	if err := open(t, dir, storage.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	f, err := boltfile.Open(filepath.Join(dir, storage.DataFile), boltfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.Submit(boltfile.Commit{Apply: func(tx *bolt.Tx) error {
		bucket, key := []byte("state"), []byte("format")
		return tx.Bucket(bucket).Put(key, boltfile.Seal(bucket, key, []byte{0, 0, 0, 0, 0, 0, 0, storage.Format + 1}))
	}})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var newer *storage.NewerError
	if _, err := storage.Open(dir, storage.Options{}); !errors.As(err, &newer) || newer.Have != storage.Format+1 {
		t.Error(err)
	}
}
