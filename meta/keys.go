package meta

import (
	"encoding/binary"

	"operon/spec/coord"
)

const (
	stateBucket     = "state"
	dataflowsBucket = "dataflows"
	historyBucket   = "history"
	commandsBucket  = "commands"

	formatKey    = "format"
	footprintKey = "footprint"
	appliedKey   = "applied"
	bucketsKey   = "buckets"

	dataflowPrefix = 'd' // of the bucket of a dataflow; no other name is nine bytes long
)

// Kinds of keys in the bucket of a dataflow.
const (
	ticketsKind     = 't'
	resolutionsKind = 'r'
	sharesKind      = 's'
)

func bucketOf(id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{dataflowPrefix}, id)
}

func dataflowKey(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

func pageKey(kind byte, prefix coord.Coord, page uint32) []byte {
	return binary.BigEndian.AppendUint32(append([]byte{kind}, prefix...), page)
}

// pageOf takes a page's key apart.
func pageOf(key []byte) (prefix coord.Coord, page uint32, ok bool) {
	n := len(key) - 4
	if n < 1 || !isCoord(n-1) {
		return "", 0, false
	}
	return coord.Coord(key[1:n]), binary.BigEndian.Uint32(key[n:]), true
}

func shareKey(ref uint32, pins coord.Coord) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{sharesKind}, ref), pins...)
}

func shareOf(key []byte) (ref uint32, pins coord.Coord, ok bool) {
	if len(key) < 5 || !isCoord(len(key)-5) {
		return 0, "", false
	}
	return binary.BigEndian.Uint32(key[1:]), coord.Coord(key[5:]), true
}

// isCoord reports whether a coordinate can be n bytes long.
func isCoord(n int) bool { return n%4 == 0 && n/4 <= coord.MaxDims }
