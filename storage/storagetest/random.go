package storagetest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"pgregory.net/rapid"

	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// Script draws changes for a twin. Files for it are made in Dir.
type Script struct {
	Twin *Twin
	Dir  string
	made int // files
}

// Instances that a script uses have their number of dimensions.
var dims = []int{0, 1, 1, 2, 3}

const instances = 5

func drawJob(t *rapid.T) (uint64, coord.Coord) {
	inst := rapid.IntRange(1, instances).Draw(t, "instance")
	var c coord.Coord
	for range dims[inst-1] {
		c = c.Append(uint32(rapid.IntRange(0, 3).Draw(t, "index")))
	}
	return uint64(inst), c
}

// Batch draws a batch with a few changes and submits it.
func (s *Script) Batch(t *rapid.T) {
	b := s.Twin.Batch()
	for range rapid.IntRange(0, 6).Draw(t, "changes") {
		if err := s.change(t, b); err != nil {
			t.Fatal(err)
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "applied") == 0 {
		b.Real.Applied = s.Twin.Durable()
	}
	b.Real.Urgent = rapid.Bool().Draw(t, "urgent")
	b.Submit(nil)
}

func (s *Script) change(t *rapid.T, b *Batch) error {
	inst, c := drawJob(t)
	if s.Twin.Model.Gone[inst] { // a number is never given again
		return nil
	}
	switch rapid.IntRange(0, 20).Draw(t, "change") {
	case 0:
		b.PutFootprint(drawFootprint(t))
	case 1, 2:
		b.PutHeader(drawHeader(t, inst))
	case 3:
		b.SetState(inst, storage.State(rapid.IntRange(1, 2).Draw(t, "state")))
	case 4:
		b.PutFailure(inst, drawFailure(t, c))
	case 5:
		b.DropFailure(inst, c)
	case 6, 7:
		b.DropRecord(inst, c)
	case 8:
		return s.drop(t, b, inst)
	case 9, 10:
		from, job := drawJob(t)
		if dims[from-1] != dims[inst-1] || s.Twin.Model.Released[inst] {
			return nil
		}
		_, err := b.Copy(Job{from, job}, inst, drawRecord(t, c))
		return err
	default:
		if s.Twin.Model.Released[inst] { // the scheduler makes a new instance then
			return nil
		}
		spawning := rapid.Bool().Draw(t, "spawning")
		values, err := s.drawValues(t, spawning)
		if err != nil {
			return err
		}
		return b.PutValues(inst, drawRecord(t, c), values, spawning)
	}
	return nil
}

// drop drops all or the values of an instance, but not often.
func (s *Script) drop(t *rapid.T, b *Batch, inst uint64) error {
	switch rapid.IntRange(0, 5).Draw(t, "drop") {
	case 0:
		b.DropInstance(inst)
	case 1:
		b.DropValues(inst)
	}
	return nil
}

func drawTime(t *rapid.T) time.Time {
	return time.Unix(rapid.Int64Range(1, 1<<32).Draw(t, "seconds"), rapid.Int64Range(0, 1e9-1).Draw(t, "nanoseconds")).UTC()
}

func drawFootprint(t *rapid.T) storage.Footprint {
	return storage.Footprint{
		Format: 1, RunID: rapid.String().Draw(t, "run"), State: "running", File: "a.yaml", Pipeline: "a",
		Source: append([]byte(nil), rapid.SliceOfN(rapid.Byte(), 1, 100).Draw(t, "source")...), Started: drawTime(t),
	}
}

func drawHeader(t *rapid.T, inst uint64) storage.Header {
	h := storage.Header{ID: inst, Task: rapid.String().Draw(t, "task"), Entity: "E", Spawn: "s", State: storage.Current, Created: drawTime(t)}
	for i := range dims[inst-1] {
		h.Dims = append(h.Dims, fmt.Sprint("d", i))
	}
	h.Fingerprint[0] = rapid.Byte().Draw(t, "fingerprint")
	return h
}

func drawFailure(t *rapid.T, c coord.Coord) storage.Failure {
	return storage.Failure{
		Coord: c, Kind: "exit", Message: rapid.String().Draw(t, "message"), Exit: rapid.IntRange(-1, 255).Draw(t, "exit"),
		Attempts: 3, Start: rapid.Int64().Draw(t, "start"), End: rapid.Int64().Draw(t, "end"),
		Stderr: append([]byte(nil), rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(t, "stderr")...),
	}
}

func drawRecord(t *rapid.T, c coord.Coord) storage.Record {
	r := storage.Record{
		Coord: c, Attempts: rapid.Uint32().Draw(t, "attempts"), Start: rapid.Int64().Draw(t, "start"), End: rapid.Int64().Draw(t, "end"),
		CPU: rapid.Int64().Draw(t, "cpu"), MaxRSS: 1 << 20, Logged: 7,
	}
	r.Key[3] = rapid.Byte().Draw(t, "key")
	return r
}

// drawValues draws few or many small values, and sometimes large ones and
// files.
func (s *Script) drawValues(t *rapid.T, spawning bool) ([]value.Value, error) {
	n := 1
	if spawning {
		n = rapid.SampledFrom([]int{0, 1, 2, 5, 400, 3000}).Draw(t, "items")
	}
	values := make([]value.Value, n)
	for i := range values {
		values[i] = value.FromJSON(fmt.Appendf(nil, `"item %d"`, i))
	}
	for i := range min(n, 3) {
		v, err := s.drawValue(t)
		if err != nil {
			return nil, err
		}
		values[rapid.IntRange(i, n-1).Draw(t, "place")] = v
	}
	return values, nil
}

func (s *Script) drawValue(t *rapid.T) (value.Value, error) {
	switch rapid.IntRange(0, 6).Draw(t, "value") {
	case 0:
		return value.NewHole(rapid.String().Draw(t, "reason")), nil
	case 1:
		letter := rapid.ByteRange('a', 'c').Draw(t, "letter")
		return value.FromText(string(bytes.Repeat([]byte{letter}, storage.InlineLimit))), nil
	case 2:
		return value.FromText(string(bytes.Repeat([]byte{'x'}, storage.InlineLimit-rapid.IntRange(2, 9000).Draw(t, "less")))), nil
	case 3:
		return value.FromFile(value.FileInfo{Name: "ref", Size: 3, SHA256: sha256.Sum256([]byte("ref")), Path: "data/ref", Ref: true}), nil
	case 4:
		return s.file(fmt.Sprint("content ", rapid.IntRange(0, 2).Draw(t, "content")), rapid.Bool().Draw(t, "exec"))
	}
	return value.FromText(rapid.String().Draw(t, "text")), nil
}

// file makes a file, to be moved or copied into the store.
func (s *Script) file(content string, exec bool) (value.Value, error) {
	s.made++
	path := filepath.Join(s.Dir, fmt.Sprint("file", s.made))
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		return value.Value{}, err
	}
	return value.FromFile(value.FileInfo{
		Name: "name", Exec: exec, Path: path, Size: int64(len(content)), SHA256: sha256.Sum256([]byte(content)),
	}), nil
}
