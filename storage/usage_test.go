package storage_test

import (
	"strings"
	"testing"

	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// A blob is counted with the last of the instances that name it, and not at all
// while another one does.
func TestUsage(t *testing.T) {
	s := open(t, t.TempDir(), storage.Options{})
	large := func(letter string) value.Value { return value.FromText(strings.Repeat(letter, 20_000)) }
	put := func(inst uint64, values ...value.Value) {
		b := &storage.Batch{}
		b.PutHeader(storage.Header{ID: inst, Task: "t", Entity: "T", State: storage.Current})
		for i, v := range values {
			o, err := s.Prepare([]value.Value{v}, false)
			if err != nil {
				t.Fatal(err)
			}
			b.PutRecord(inst, storage.Record{Coord: coord.Of(uint32(i))}, o)
		}
		b.PutFailure(inst, storage.Failure{Coord: coord.Of(99), Kind: "exit"})
		s.Submit(b)
	}
	put(1, large("a"), large("b"), large("b"), value.FromText("small"))
	put(2, large("b"), large("c"), large("d"))
	put(3, large("d"))
	flush(t, s)
	usage := func(insts ...uint64) (out []storage.Usage) {
		view(t, s, func(r *storage.Reader) (err error) {
			out, err = r.Usage(insts)
			return err
		})
		return out
	}
	const text = 20_002 // with its quotes
	got := usage(1, 2)
	if got[0].Records != 4 || got[0].Failures != 1 || got[0].Blobs != 1 || got[0].BlobBytes != text || got[0].Bytes == 0 {
		t.Errorf("%+v", got[0])
	}
	if got[1].Records != 3 || got[1].Blobs != 2 || got[1].BlobBytes != 2*text {
		t.Errorf("%+v", got[1])
	}
	if got := usage(2, 3, 1); got[0].Blobs != 1 || got[1].Blobs != 1 || got[2].Blobs != 2 {
		t.Errorf("%+v", got)
	}
	if got := usage(7); got[0] != (storage.Usage{}) {
		t.Errorf("%+v of nothing", got)
	}
}
