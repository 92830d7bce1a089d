package storage

import (
	"math"
	"reflect"
	"testing"
	"time"

	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage/boltfile"
)

// FuzzRecordDecode decodes anything; what decodes must survive another turn.
func FuzzRecordDecode(f *testing.F) {
	r := storedRecord{Record: Record{Coord: coord.Of(1, 2), Attempts: 3, Start: math.MinInt64, End: math.MaxInt64, CPU: -1}, flags: flagInlined, inline: []byte{1, 1, '1'}}
	f.Add(appendRecord(nil, &r))
	r.flags, r.inline, r.chunks, r.Extent, r.Spawning = flagChunked|flagSpawning, nil, 9, 1000, true
	f.Add(appendRecord(nil, &r))
	f.Add(appendFailure(nil, &Failure{Coord: coord.Of(7), Kind: "exit", Exit: -1, Stderr: []byte{0, 255}}))
	f.Add(appendHeader(nil, &Header{ID: 5, Dims: []string{"i"}, State: Retired, Created: time.Unix(0, 1).UTC()}))
	f.Add(appendFootprint(nil, &Footprint{RunID: "r", Source: []byte("s")}))
	f.Add(appendJobs(nil, []Ref{{1, coord.Of(1)}, {1, coord.Of(2)}, {1, coord.Of(9)}, {2, ""}}))
	f.Fuzz(func(t *testing.T, body []byte) {
		if r, ok := decodeRecord(body); ok {
			again, ok := decodeRecord(appendRecord(nil, &r))
			if !ok || !reflect.DeepEqual(again, r) {
				t.Errorf("record %+v became %+v", r, again)
			}
			if len(appendRecord(nil, &r)) > recordRoom+len(r.inline) {
				t.Errorf("record %+v is longer than its room", r)
			}
			blobsOfInline(r.inline, map[blobID]int64{})
		}
		if r, ok := decodeFailure(body); ok {
			if again, ok := decodeFailure(appendFailure(nil, &r)); !ok || !reflect.DeepEqual(again, r) {
				t.Errorf("failure %+v became %+v", r, again)
			}
		}
		if h, ok := decodeHeader(body); ok {
			if again, ok := decodeHeader(appendHeader(nil, &h)); !ok || !reflect.DeepEqual(again, h) {
				t.Errorf("header %+v became %+v", h, again)
			}
		}
		if p, ok := decodeFootprint(body); ok {
			if again, ok := decodeFootprint(appendFootprint(nil, &p)); !ok || !reflect.DeepEqual(again, p) {
				t.Errorf("footprint %+v became %+v", p, again)
			}
		}
	})
}

// FuzzCommitDecode decodes any list of jobs.
func FuzzCommitDecode(f *testing.F) {
	const limit = 1000
	f.Add(appendJobs(nil, []Ref{{1, coord.Of(1)}, {1, coord.Of(2)}, {1, coord.Of(9)}, {2, ""}}))
	f.Fuzz(func(t *testing.T, body []byte) {
		jobs, ok := decodeJobs(body, limit)
		if !ok {
			return
		}
		if again, ok := decodeJobs(appendJobs(nil, jobs), limit); !ok || !reflect.DeepEqual(again, jobs) {
			t.Errorf("%d jobs became %d", len(jobs), len(again))
		}
	})
}

// FuzzChunkDecode reads every item of anything that is taken for a chunk.
func FuzzChunkDecode(f *testing.F) {
	var p packer
	for _, it := range []item{
		{kind: itemJSON, text: []byte("1")},
		{kind: itemHole, text: []byte(`"no"`)},
		{kind: itemBlob, size: 1 << 40},
		{kind: itemFile, file: value.FileInfo{Name: "n", Exec: true, Size: 3}},
		{kind: itemFile, file: value.FileInfo{Name: "n", Ref: true, Path: "a/n"}},
	} {
		p.add(&it)
	}
	p.cut()
	f.Add(p.chunks[0].body, uint32(4))
	f.Add(p.chunks[0].body, uint32(3))
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 0}, uint32(math.MaxUint32))
	f.Fuzz(func(t *testing.T, body []byte, last uint32) {
		v, ok := decodeChunk(body, last)
		if !ok {
			return
		}
		for i := v.first; ; i++ {
			if it, ok := v.item(i); ok {
				fields := boltfile.NewFields(appendItem(nil, &it))
				if again := takeItem(fields); fields.Err() != nil || !reflect.DeepEqual(again, it) {
					t.Errorf("item %+v became %+v", it, again)
				}
			}
			if i == v.last {
				return
			}
		}
	})
}

func TestChunksStayWithinTheirLimit(t *testing.T) {
	var p packer
	sizes := []int{1, 10, InlineLimit, InlineLimit, 5, InlineLimit, 200}
	const n = 5000
	for i := range n {
		p.add(&item{kind: itemJSON, text: make([]byte, sizes[i%len(sizes)])})
	}
	p.cut()
	next := uint32(0)
	for _, ch := range p.chunks {
		if len(ch.body) > chunkLimit {
			t.Errorf("a chunk of %d bytes", len(ch.body))
		}
		v, ok := decodeChunk(ch.body, ch.last)
		if !ok || v.first != next {
			t.Fatalf("chunk from %d (%v), want %d", v.first, ok, next)
		}
		for i := v.first; i <= v.last; i++ {
			if it, ok := v.item(i); !ok || len(it.text) != sizes[i%uint32(len(sizes))] {
				t.Fatalf("item %d has %d bytes (%v)", i, len(it.text), ok)
			}
		}
		next = v.last + 1
	}
	if next != n {
		t.Errorf("%d items of %d", next, n)
	}
}
