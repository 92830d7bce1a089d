package storage_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// BenchmarkPutRecords writes small records, 2,000 a batch, as fast as the
// writer takes them with two batches on their way.
func BenchmarkPutRecords(b *testing.B) {
	s := open(b, b.TempDir(), storage.Options{})
	slots := make(chan struct{}, 2)
	b.ResetTimer()
	for n := 0; n < b.N; {
		batch := &storage.Batch{Done: func(_ uint64, err error) {
			if err != nil {
				b.Error(err)
			}
			<-slots
		}}
		for range min(2000, b.N-n) {
			batch.PutRecord(1, record(uint32(n)), small(b, s, n))
			n++
		}
		batch.Urgent = len(slots) > 0
		slots <- struct{}{}
		s.Submit(batch)
	}
	flush(b, s)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

func record(i uint32) storage.Record {
	return storage.Record{Coord: coord.Of(i), Attempts: 1, Start: 1_700_000_000_000_000_000, End: 1_700_000_000_100_000_000, CPU: 90_000_000, MaxRSS: 4 << 20}
}

func small(tb testing.TB, s *storage.Store, i int) *storage.Output {
	o, err := s.Prepare([]value.Value{value.FromJSON(fmt.Appendf(nil, `"result %d"`, i))}, false)
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

// filled is a store with n small records, and a list of n items under instance 2.
func filled(b *testing.B, n int) *storage.Store {
	s := open(b, filepath.Join(b.TempDir(), "state"), storage.Options{})
	batch := &storage.Batch{}
	items := make([]value.Value, n)
	for i := range n {
		batch.PutRecord(1, record(uint32(i)), small(b, s, i))
		items[i] = value.FromJSON(fmt.Appendf(nil, "%d", i))
	}
	list, err := s.Prepare(items, true)
	if err != nil {
		b.Fatal(err)
	}
	batch.PutRecord(2, storage.Record{}, list)
	s.Submit(batch)
	flush(b, s)
	return s
}

func BenchmarkReadRecords(b *testing.B) {
	s := filled(b, 200_000)
	b.ResetTimer()
	view(b, s, func(r *storage.Reader) error {
		for i := range b.N {
			if _, ok, err := r.Record(1, coord.Of(uint32(i%200_000))); err != nil || !ok {
				return fmt.Errorf("record %d: %v %w", i, ok, err)
			}
		}
		return nil
	})
}

func BenchmarkReadValues(b *testing.B) {
	s := filled(b, 200_000)
	b.ResetTimer()
	view(b, s, func(r *storage.Reader) error {
		for i := range b.N {
			if err := r.Values(1, coord.Of(uint32(i%200_000)), 0, 1, func(uint32, value.Value) error { return nil }); err != nil {
				return err
			}
		}
		return nil
	})
}

func BenchmarkReadItems(b *testing.B) {
	s := filled(b, 200_000)
	b.ResetTimer()
	view(b, s, func(r *storage.Reader) error {
		for i := range b.N {
			n := uint32(i % 200_000)
			if err := r.Values(2, "", n, n+1, func(uint32, value.Value) error { return nil }); err != nil {
				return err
			}
		}
		return nil
	})
}

func BenchmarkReadRandomItems(b *testing.B) {
	s := filled(b, 200_000)
	b.ResetTimer()
	view(b, s, func(r *storage.Reader) error {
		for i := range b.N {
			n := uint32(i) * 2654435761 % 200_000
			if err := r.Values(2, "", n, n+1, func(uint32, value.Value) error { return nil }); err != nil {
				return err
			}
		}
		return nil
	})
}

func BenchmarkScanRecords(b *testing.B) {
	s := filled(b, 200_000)
	b.ResetTimer()
	for range b.N {
		view(b, s, func(r *storage.Reader) error {
			return r.Records(1, "", func(storage.Record) error { return nil })
		})
	}
	b.ReportMetric(float64(b.N)*200_000/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkViewOfOne opens a view for each record, as a job that reads one does.
func BenchmarkViewOfOne(b *testing.B) {
	s := filled(b, 200_000)
	b.ResetTimer()
	for i := range b.N {
		view(b, s, func(r *storage.Reader) error {
			_, _, err := r.Record(1, coord.Of(uint32(i%200_000)))
			return err
		})
	}
}
