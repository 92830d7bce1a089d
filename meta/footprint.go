package meta

import (
	"encoding/binary"
	"time"

	"operon/spec/value"
	"operon/storage/boltfile"
)

// Footprint says whose metadata it is, and what was asked for.
type Footprint struct {
	Format   int    // of the whole state directory, as its writer counts
	RunID    string // of the run that wrote last
	State    string // running, stopped, failed, complete
	Asked    []byte // JSON of what was asked for
	File     string // base name of the pipeline file
	Pipeline string // name of the pipeline
	Source   []byte // the pipeline file as it was
	Build    string // of the program that wrote it
	Started  time.Time
	Updated  time.Time
	Summary  []byte // JSON of how the run stands
}

// Dataflow is a task installed for running.
type Dataflow struct {
	ID          uint64
	Task        string
	Fingerprint value.Digest
	Dims        []string // of the context, in canonical order
	Spawn       string   // dimension that its jobs spawn, or ""
	State       string
	Topo        int // its place in the order of the pipeline
}

const version = 1

func appendFootprint(b []byte, p *Footprint) []byte {
	b = append(b, version)
	b = binary.AppendVarint(b, int64(p.Format))
	b = boltfile.AppendBytes(b, p.RunID)
	b = boltfile.AppendBytes(b, p.State)
	b = boltfile.AppendBytes(b, p.Asked)
	b = boltfile.AppendBytes(b, p.File)
	b = boltfile.AppendBytes(b, p.Pipeline)
	b = boltfile.AppendBytes(b, p.Source)
	b = boltfile.AppendBytes(b, p.Build)
	b = boltfile.AppendTime(b, p.Started)
	b = boltfile.AppendTime(b, p.Updated)
	return boltfile.AppendBytes(b, p.Summary)
}

func decodeFootprint(body []byte) (p Footprint, ok bool) {
	f := boltfile.NewFields(body)
	if f.Byte() != version {
		return p, false
	}
	p.Format = int(f.Varint())
	p.RunID = f.String()
	p.State = f.String()
	p.Asked = append([]byte(nil), f.Bytes()...)
	p.File = f.String()
	p.Pipeline = f.String()
	p.Source = append([]byte(nil), f.Bytes()...)
	p.Build = f.String()
	p.Started = f.Time()
	p.Updated = f.Time()
	p.Summary = append([]byte(nil), f.Bytes()...)
	return p, f.Err() == nil
}

func appendDataflow(b []byte, d *Dataflow) []byte {
	b = append(b, version)
	b = binary.AppendUvarint(b, d.ID)
	b = boltfile.AppendBytes(b, d.Task)
	b = append(b, d.Fingerprint[:]...)
	b = binary.AppendUvarint(b, uint64(len(d.Dims)))
	for _, dim := range d.Dims {
		b = boltfile.AppendBytes(b, dim)
	}
	b = boltfile.AppendBytes(b, d.Spawn)
	b = boltfile.AppendBytes(b, d.State)
	return binary.AppendVarint(b, int64(d.Topo))
}

func decodeDataflow(body []byte) (d Dataflow, ok bool) {
	f := boltfile.NewFields(body)
	if f.Byte() != version {
		return d, false
	}
	d.ID = f.Uvarint()
	d.Task = f.String()
	copy(d.Fingerprint[:], f.Take(len(d.Fingerprint)))
	n := f.Uvarint()
	for ; n > 0 && f.More(); n-- {
		d.Dims = append(d.Dims, f.String())
	}
	if n > 0 {
		return d, false
	}
	d.Spawn = f.String()
	d.State = f.String()
	d.Topo = int(f.Varint())
	return d, f.Err() == nil
}

func appendShare(b []byte, done, quota uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, done), quota)
}

// decodePair reads two numbers.
func decodePair(body []byte) (a, b uint64, ok bool) {
	f := boltfile.NewFields(body)
	a, b = f.Uvarint(), f.Uvarint()
	return a, b, f.Err() == nil
}

func appendRun(b []byte, runID string, data []byte) []byte {
	return append(boltfile.AppendBytes(b, runID), data...)
}

func decodeRun(body []byte) (runID string, data []byte, ok bool) {
	f := boltfile.NewFields(body)
	runID = f.String()
	data = f.Rest()
	return runID, data, f.Err() == nil
}
