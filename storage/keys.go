package storage

import (
	"encoding/binary"

	"operon/spec/coord"
)

// Top-level buckets. Those of an instance are a letter and its eight-byte
// number; no other name is nine bytes long.
const (
	stateBucket   = "state"   // format, footprint, next instance, last commit, buckets
	headersBucket = "headers" // instance -> header
	dropsBucket   = "drops"   // instance -> what is being dropped of it in steps
	commitsBucket = "commits" // commit -> jobs whose records it holds
	blobsBucket   = "blobs"   // blob -> how many records name it

	recordsPrefix  = 'r' // job -> record
	chunksPrefix   = 'v' // job, last item -> items
	failuresPrefix = 'f' // job -> failure
)

// Keys of the state bucket.
const (
	formatKey    = "format"
	footprintKey = "footprint"
	nextKey      = "next"
	commitKey    = "commit"
	bucketsKey   = "buckets"

	stateNumbers = 4 // all of them but the footprint
)

// jobMark ends a job's key, so that the job without dimensions has one too.
const jobMark = 1

func bucketOf(prefix byte, inst uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefix}, inst)
}

func instanceKey(inst uint64) []byte { return binary.BigEndian.AppendUint64(nil, inst) }

func appendJobKey(b []byte, c coord.Coord) []byte { return append(append(b, c...), jobMark) }

// jobOf is the coordinate that a job's key is made of.
func jobOf(key []byte) (coord.Coord, bool) {
	if !isJobKey(key) {
		return "", false
	}
	return coord.Coord(key[:len(key)-1]), true
}

func isJobKey(key []byte) bool {
	n := len(key) - 1
	return n >= 0 && n%4 == 0 && n/4 <= coord.MaxDims && key[n] == jobMark
}

func appendChunkKey(b []byte, c coord.Coord, last uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, c...), last)
}

// chunkOf is the last item of the chunk under a key, which must be job c's.
func chunkOf(key []byte, c coord.Coord) (last uint32, ok bool) {
	n := len(key) - 4
	if n != len(c) || string(key[:n]) != string(c) {
		return 0, false
	}
	return binary.BigEndian.Uint32(key[n:]), true
}
