package value

import (
	"encoding/binary"
	"io"
)

// Slice is a nested list of values: what a reference Entity<d1, …, dn> gives.
// It nests n deep in the order the reference names the dimensions; every list
// is in index order.
type Slice struct {
	// Lens holds the lengths of the lists, level by level, outermost first: a
	// level's lists in the order in which they are met reading left to right.
	// Lens[0] has one entry. The lists of the last level hold Items. NoList
	// instead of a length stands for a list that is not there: Items hold the
	// hole that is in its place, and the levels below nothing of it.
	Lens [][]uint32
	// Items are the values, left to right.
	Items []Value
}

// NoList is the length of a list that is a hole. No list is that long.
const NoList = 1<<32 - 1

// Depth is how deep the list nests, at least 1.
func (s *Slice) Depth() int { return len(s.Lens) }

// AppendJSON appends s as nested JSON arrays, each value printed by item.
func (s *Slice) AppendJSON(b []byte, item func([]byte, Value) []byte) []byte {
	at := make([]int, len(s.Lens)+1) // next list of each level, then next item
	var list func(level int)
	list = func(level int) {
		n := s.Lens[level][at[level]]
		at[level]++
		if n == NoList {
			b = item(b, s.Items[at[len(s.Lens)]])
			at[len(s.Lens)]++
			return
		}
		b = append(b, '[')
		for i := range n {
			if i > 0 {
				b = append(b, ',')
			}
			if level+1 < len(s.Lens) {
				list(level + 1)
				continue
			}
			b = item(b, s.Items[at[len(s.Lens)]])
			at[len(s.Lens)]++
		}
		b = append(b, ']')
	}
	list(0)
	return b
}

// WriteIdentity writes to h what makes the slice what it is: its shape and its
// values, holes as holes.
func (s *Slice) WriteIdentity(h io.Writer) {
	var n [4]byte
	put := func(x uint32) {
		binary.BigEndian.PutUint32(n[:], x)
		h.Write(n[:])
	}
	put(uint32(len(s.Lens)))
	for _, level := range s.Lens {
		put(uint32(len(level)))
		for _, length := range level {
			put(length)
		}
	}
	for _, v := range s.Items {
		v.WriteIdentity(h)
	}
}
