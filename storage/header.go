package storage

import (
	"encoding/binary"
	"time"

	"operon/spec/value"
	"operon/storage/boltfile"
)

// State is what an instance is to its pipeline.
type State uint8

const (
	Current  State = 1 // of the pipeline as it is
	Retired  State = 2 // replaced or removed; its records are the memo
	Released State = 3 // its values were, or are being, dropped on purpose
)

// String is the state's name.
func (s State) String() string {
	switch s {
	case Current:
		return "current"
	case Retired:
		return "retired"
	case Released:
		return "released"
	}
	return "unknown"
}

// Header says what an instance is.
type Header struct {
	ID          uint64
	Task        string
	Entity      string
	Fingerprint value.Digest
	Dims        []string // of the context, in canonical order, which the coordinates are in
	Spawn       string   // dimension that its jobs spawn, or ""
	State       State
	Created     time.Time
}

// Footprint says whose results a store holds.
type Footprint struct {
	Format   int    // of the whole state directory, as its writer counts
	RunID    string // of the run that wrote last
	State    string // running, stopped, failed, complete
	File     string // base name of the pipeline file
	Pipeline string // name of the pipeline
	Asked    []byte // JSON of what was asked for
	Source   []byte // the pipeline file as it was
	Build    string // of the program that wrote it
	Started  time.Time
	Updated  time.Time
}

const headerVersion = 1

func appendHeader(b []byte, h *Header) []byte {
	b = append(b, headerVersion)
	b = binary.AppendUvarint(b, h.ID)
	b = boltfile.AppendBytes(b, h.Task)
	b = boltfile.AppendBytes(b, h.Entity)
	b = append(b, h.Fingerprint[:]...)
	b = binary.AppendUvarint(b, uint64(len(h.Dims)))
	for _, d := range h.Dims {
		b = boltfile.AppendBytes(b, d)
	}
	b = boltfile.AppendBytes(b, h.Spawn)
	b = append(b, byte(h.State))
	return boltfile.AppendTime(b, h.Created)
}

func decodeHeader(body []byte) (h Header, ok bool) {
	f := boltfile.NewFields(body)
	if f.Byte() != headerVersion {
		return h, false
	}
	h.ID = f.Uvarint()
	h.Task = f.String()
	h.Entity = f.String()
	copy(h.Fingerprint[:], f.Take(len(h.Fingerprint)))
	n := f.Uvarint()
	for ; n > 0 && f.More(); n-- {
		h.Dims = append(h.Dims, f.String())
	}
	if n > 0 {
		return h, false
	}
	h.Spawn = f.String()
	h.State = State(f.Byte())
	h.Created = f.Time()
	return h, f.Err() == nil
}

func appendFootprint(b []byte, p *Footprint) []byte {
	b = append(b, headerVersion)
	b = binary.AppendVarint(b, int64(p.Format))
	b = boltfile.AppendBytes(b, p.RunID)
	b = boltfile.AppendBytes(b, p.State)
	b = boltfile.AppendBytes(b, p.File)
	b = boltfile.AppendBytes(b, p.Pipeline)
	b = boltfile.AppendBytes(b, p.Asked)
	b = boltfile.AppendBytes(b, p.Source)
	b = boltfile.AppendBytes(b, p.Build)
	b = boltfile.AppendTime(b, p.Started)
	return boltfile.AppendTime(b, p.Updated)
}

func decodeFootprint(body []byte) (p Footprint, ok bool) {
	f := boltfile.NewFields(body)
	if f.Byte() != headerVersion {
		return p, false
	}
	p.Format = int(f.Varint())
	p.RunID = f.String()
	p.State = f.String()
	p.File = f.String()
	p.Pipeline = f.String()
	p.Asked = append([]byte(nil), f.Bytes()...)
	p.Source = append([]byte(nil), f.Bytes()...)
	p.Build = f.String()
	p.Started = f.Time()
	p.Updated = f.Time()
	return p, f.Err() == nil
}
