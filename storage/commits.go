package storage

import (
	"encoding/binary"

	"operon/spec/coord"
	"operon/storage/boltfile"
)

// Ref names a job of an instance.
type Ref struct {
	Instance uint64
	Coord    coord.Coord
}

// appendJobs appends a list of jobs, a run of neighbours (one job, and the next
// ones on its last dimension) as one entry: instance, coordinate, length.
func appendJobs(b []byte, jobs []Ref) []byte {
	for len(jobs) > 0 {
		n := 1
		for n < len(jobs) && follows(jobs[n-1], jobs[n]) {
			n++
		}
		b = binary.AppendUvarint(b, jobs[0].Instance)
		b = boltfile.AppendBytes(b, jobs[0].Coord)
		b = binary.AppendUvarint(b, uint64(n))
		jobs = jobs[n:]
	}
	return b
}

// follows reports whether b is a's next neighbour on the last dimension.
func follows(a, b Ref) bool {
	n := a.Coord.Len() - 1
	return n >= 0 && a.Instance == b.Instance && a.Coord.Len() == b.Coord.Len() &&
		a.Coord.Prefix(n) == b.Coord.Prefix(n) && uint64(a.Coord.At(n))+1 == uint64(b.Coord.At(n))
}

// maxListed bounds what the list of one commit may claim to hold.
const maxListed = 1 << 26

// decodeJobs reads what appendJobs wrote, up to limit jobs.
func decodeJobs(body []byte, limit uint64) (jobs []Ref, ok bool) {
	f := boltfile.NewFields(body)
	for f.More() {
		inst := f.Uvarint()
		key := f.Bytes()
		n := f.Uvarint()
		if len(key)%4 != 0 || len(key)/4 > coord.MaxDims || n == 0 || n > limit-uint64(len(jobs)) {
			return nil, false
		}
		c := coord.Coord(key)
		jobs = append(jobs, Ref{Instance: inst, Coord: c})
		if n == 1 {
			continue
		}
		last := c.Len() - 1
		if last < 0 || n-1 > uint64(coord.MaxExtent)-uint64(c.At(last)) {
			return nil, false
		}
		prefix, first := c.Prefix(last), c.At(last)
		for i := uint64(1); i < n; i++ {
			jobs = append(jobs, Ref{Instance: inst, Coord: prefix.Append(first + uint32(i))})
		}
	}
	return jobs, f.Err() == nil
}
