package storage

import (
	"encoding/binary"

	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage/boltfile"
)

// Record says that a job is done, and what came of it.
type Record struct {
	Coord    coord.Coord
	Key      value.Digest // the job key: what the job was made of
	Digest   value.Digest // of the output; see Output.Digest
	Extent   uint32       // number of items, of a job that spawns a dimension
	Spawning bool
	Hole     bool // it has no value: its one item is a hole, and its list has no items
	Attempts uint32
	Start    int64 // Unix time in nanoseconds
	End      int64 // Unix time in nanoseconds
	CPU      int64 // nanoseconds
	MaxRSS   int64 // bytes
	// Logged is how many bytes of standard error the job's log holds. Below 0 they
	// lie in a log that many jobs share: that of worker −1−Logged.
	Logged int64
}

// Failure says that a job has failed for good, and how.
type Failure struct {
	Coord    coord.Coord
	Kind     string
	Message  string
	Exit     int
	Signal   string
	Attempts uint32
	Start    int64 // Unix time in nanoseconds
	End      int64 // Unix time in nanoseconds
	Log      string
	Stderr   []byte
}

const recordVersion = 1

// Flags of a stored record. Without inlined and chunked, its values were
// released.
const (
	flagSpawning = 1 << iota
	flagInlined  // the items follow
	flagChunked  // the items lie in chunks
	flagBlobs    // an item names a blob
	flagHole     // the one item is a hole, also of a job that spawns
	flagsKnown   = flagSpawning | flagInlined | flagChunked | flagBlobs | flagHole
)

// storedRecord is a record with what the store knows of its output.
type storedRecord struct {
	Record
	flags  byte
	inline []byte // items one after another
	chunks uint32 // number of chunks
}

// items is how many items the output has.
func (r *storedRecord) items() uint32 {
	if r.flags&flagSpawning != 0 && r.flags&flagHole == 0 {
		return r.Extent
	}
	return 1
}

// releasedFlags are the flags of a record without values.
func releasedFlags(r Record) (flags byte) {
	if r.Spawning {
		flags |= flagSpawning
	}
	if r.Hole {
		flags |= flagHole
	}
	return flags
}

func (r *storedRecord) released() bool { return r.flags&(flagInlined|flagChunked) == 0 }

func appendRecord(b []byte, r *storedRecord) []byte {
	b = append(b, recordVersion, r.flags, byte(r.Coord.Len()))
	b = append(b, r.Coord...)
	b = append(b, r.Key[:]...)
	b = append(b, r.Digest[:]...)
	b = binary.BigEndian.AppendUint32(b, r.Extent)
	b = binary.AppendUvarint(b, uint64(r.Attempts))
	b = binary.AppendVarint(b, r.Start)
	b = binary.AppendVarint(b, r.End-r.Start)
	b = binary.AppendVarint(b, r.CPU)
	b = binary.AppendVarint(b, r.MaxRSS)
	b = binary.AppendVarint(b, r.Logged)
	if r.flags&flagChunked != 0 {
		b = binary.AppendUvarint(b, uint64(r.chunks))
	}
	return append(b, r.inline...)
}

// decodeRecord reads what appendRecord wrote. The inline items are part of
// body, and not looked at.
func decodeRecord(body []byte) (r storedRecord, ok bool) { return decodeRecordOf(body, "") }

// decodeRecordOf is decodeRecord where the record is most likely that of job c,
// whose coordinate then need not be made again.
func decodeRecordOf(body []byte, c coord.Coord) (r storedRecord, ok bool) {
	f := boltfile.NewFields(body)
	if f.Byte() != recordVersion {
		return r, false
	}
	r.flags = f.Byte()
	dims := int(f.Byte())
	if r.flags&^flagsKnown != 0 || r.flags&flagInlined != 0 && r.flags&flagChunked != 0 || dims > coord.MaxDims {
		return r, false
	}
	r.Spawning, r.Hole = r.flags&flagSpawning != 0, r.flags&flagHole != 0
	if at := f.Take(4 * dims); string(at) == string(c) {
		r.Coord = c
	} else {
		r.Coord = coord.Coord(at)
	}
	copy(r.Key[:], f.Take(len(r.Key)))
	copy(r.Digest[:], f.Take(len(r.Digest)))
	r.Extent = f.Uint32()
	r.Attempts = takeUint32(f)
	r.Start = f.Varint()
	r.End = r.Start + f.Varint()
	r.CPU = f.Varint()
	r.MaxRSS = f.Varint()
	r.Logged = f.Varint()
	if r.flags&flagChunked != 0 {
		r.chunks = takeUint32(f)
	}
	if r.flags&flagInlined != 0 {
		r.inline = f.Rest()
	}
	return r, f.Err() == nil
}

// takeUint32 reads a number of variable length that must fit 32 bits.
func takeUint32(f *boltfile.Fields) uint32 {
	n := f.Uvarint()
	if n > 1<<32-1 {
		f.Bad()
		return 0
	}
	return uint32(n)
}

func appendFailure(b []byte, r *Failure) []byte {
	b = append(b, recordVersion, byte(r.Coord.Len()))
	b = append(b, r.Coord...)
	b = boltfile.AppendBytes(b, r.Kind)
	b = boltfile.AppendBytes(b, r.Message)
	b = binary.AppendVarint(b, int64(r.Exit))
	b = boltfile.AppendBytes(b, r.Signal)
	b = binary.AppendUvarint(b, uint64(r.Attempts))
	b = binary.AppendVarint(b, r.Start)
	b = binary.AppendVarint(b, r.End)
	b = boltfile.AppendBytes(b, r.Log)
	return boltfile.AppendBytes(b, r.Stderr)
}

func decodeFailure(body []byte) (r Failure, ok bool) {
	f := boltfile.NewFields(body)
	if f.Byte() != recordVersion {
		return r, false
	}
	dims := int(f.Byte())
	if dims > coord.MaxDims {
		return r, false
	}
	r.Coord = coord.Coord(f.Take(4 * dims))
	r.Kind = f.String()
	r.Message = f.String()
	r.Exit = int(f.Varint())
	r.Signal = f.String()
	r.Attempts = takeUint32(f)
	r.Start = f.Varint()
	r.End = f.Varint()
	r.Log = f.String()
	r.Stderr = append([]byte(nil), f.Bytes()...)
	return r, f.Err() == nil
}
