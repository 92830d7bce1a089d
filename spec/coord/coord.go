// Package coord holds coordinates: one index for each dimension of an ordered
// list of dimensions.
//
// A coordinate is always in the canonical order of its dimensions, the order
// that package spec fixes. It does not carry the dimensions' names; who holds
// a coordinate knows them. The package is the leaf that everything which
// speaks of coordinates shares, and imports nothing of operon.
//
// # Caveats
//
// Coordinates of different dimension lists compare and hash like any other
// strings: nothing notices that they do not belong together.
package coord

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxDims is the largest number of dimensions of one coordinate.
const MaxDims = 17 // sixteen of a context, and the one that its task spawns

// MaxExtent is the largest length of an axis; indices lie below it.
const MaxExtent = 1<<32 - 1

// Coord is a coordinate: four big-endian bytes an index, in canonical order.
// The zero value is the coordinate without dimensions. Coordinates of one list
// of dimensions are comparable, hash well as map keys, and sort by index,
// first dimension first; the same bytes are the key in both stores.
type Coord string

// Of makes a coordinate of indices, first dimension first.
func Of(indices ...uint32) Coord {
	b := make([]byte, 0, 4*len(indices))
	for _, i := range indices {
		b = binary.BigEndian.AppendUint32(b, i)
	}
	return Coord(b)
}

// FromKey reads a coordinate of n dimensions from the front of a store's key
// and returns the rest of the key. It reports false if the key is too short.
func FromKey(key []byte, n int) (c Coord, rest []byte, ok bool) {
	if len(key) < 4*n {
		return "", key, false
	}
	return Coord(key[:4*n]), key[4*n:], true
}

// Len is the number of dimensions.
func (c Coord) Len() int { return len(c) / 4 }

// At is the index on the n-th dimension, counted from 0.
func (c Coord) At(n int) uint32 {
	return uint32(c[4*n])<<24 | uint32(c[4*n+1])<<16 | uint32(c[4*n+2])<<8 | uint32(c[4*n+3])
}

// Append is c with one more index behind it.
func (c Coord) Append(index uint32) Coord {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], index)
	return c + Coord(b[:])
}

// Prefix is c's first n dimensions.
func (c Coord) Prefix(n int) Coord { return c[:4*n] }

// Project picks c's indices at the given positions, in that order.
func (c Coord) Project(positions []int) Coord {
	if isPrefix(positions) {
		return c[:4*len(positions)]
	}
	b := make([]byte, 0, 4*len(positions))
	for _, p := range positions {
		b = append(b, c[4*p:4*p+4]...)
	}
	return Coord(b)
}

func isPrefix(positions []int) bool {
	for i, p := range positions {
		if i != p {
			return false
		}
	}
	return true
}

// AppendKey appends c's binary key to b.
func (c Coord) AppendKey(b []byte) []byte { return append(b, c...) }

// Indices are c's indices, first dimension first.
func (c Coord) Indices() []uint32 {
	out := make([]uint32, c.Len())
	for i := range out {
		out[i] = c.At(i)
	}
	return out
}

// Format prints c as "i=0,j=2", its dimensions named in canonical order. The
// coordinate without dimensions prints as the empty string.
func (c Coord) Format(dims []string) string {
	var b strings.Builder
	for i := range c.Len() {
		if i > 0 {
			b.WriteByte(',')
		}
		name := "?"
		if i < len(dims) {
			name = dims[i]
		}
		b.WriteString(name)
		b.WriteByte('=')
		b.WriteString(strconv.FormatUint(uint64(c.At(i)), 10))
	}
	return b.String()
}

// Binding is a partial coordinate: an index for some dimensions, by name.
type Binding map[string]uint32

// Parse reads "i=0,j=2", in any order, naming any subset of dims. The empty
// string binds nothing. The error says which part is wrong.
func Parse(text string, dims []string) (Binding, error) {
	out := Binding{}
	if strings.TrimSpace(text) == "" {
		return out, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, num, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return nil, fmt.Errorf("coordinate %q: %q is not of the form dimension=index", text, part)
		}
		name = strings.TrimSpace(name)
		if !slices.Contains(dims, name) {
			return nil, fmt.Errorf("coordinate %q: %q is not a dimension here (there are: %s)", text, name, strings.Join(dims, ", "))
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("coordinate %q: %q is given twice", text, name)
		}
		index, err := strconv.ParseUint(strings.TrimSpace(num), 10, 32)
		if err != nil || index >= MaxExtent {
			return nil, fmt.Errorf("coordinate %q: %q is not an index (a whole number from 0)", text, num)
		}
		out[name] = uint32(index)
	}
	return out, nil
}

// Bind is the binding of all of c's dimensions.
func Bind(c Coord, dims []string) Binding {
	b := Binding{}
	for n, d := range dims {
		b[d] = c.At(n)
	}
	return b
}

// Full makes the coordinate of dims that the binding names, and reports false
// if it leaves one of them out.
func (b Binding) Full(dims []string) (Coord, bool) {
	c := make([]uint32, len(dims))
	for n, d := range dims {
		index, ok := b[d]
		if !ok {
			return "", false
		}
		c[n] = index
	}
	return Of(c...), true
}

// Match reports whether c, a coordinate of dims, agrees with the binding on
// every dimension that the binding names.
func (b Binding) Match(c Coord, dims []string) bool {
	for n, d := range dims {
		if want, ok := b[d]; ok && c.At(n) != want {
			return false
		}
	}
	return true
}
