package boltfile

import (
	"encoding/binary"
	"errors"
	"time"
)

// ErrFields says that a stored value ends in the middle of a field, has bytes
// behind its last one, or holds a number that its field cannot.
var ErrFields = errors.New("fields do not fit the value")

// AppendBytes appends a field of bytes, its length before it.
func AppendBytes[T ~string | ~[]byte](b []byte, field T) []byte {
	b = binary.AppendUvarint(b, uint64(len(field)))
	return append(b, field...)
}

// AppendTime appends a time to the nanosecond; the zero time stays zero.
func AppendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, 0)
	}
	b = append(b, 1)
	b = binary.AppendVarint(b, t.Unix())
	return binary.AppendUvarint(b, uint64(t.Nanosecond()))
}

// Fields reads the fields of a stored value one after another. After the first
// that does not fit, all further ones are zero and Err says so.
type Fields struct {
	rest []byte
	bad  bool
}

// NewFields reads from body.
func NewFields(body []byte) *Fields { return &Fields{rest: body} }

// Bad notes that a field made no sense to the caller.
func (f *Fields) Bad() { f.bad, f.rest = true, nil }

// Err is ErrFields if a field did not fit, or something is left unread.
func (f *Fields) Err() error {
	if f.bad || len(f.rest) > 0 {
		return ErrFields
	}
	return nil
}

// OK reports whether all fields so far did fit.
func (f *Fields) OK() bool { return !f.bad }

// More reports whether something is left to read.
func (f *Fields) More() bool { return len(f.rest) > 0 }

// Rest is all that is left, which it takes.
func (f *Fields) Rest() []byte {
	rest := f.rest
	f.rest = nil
	return rest
}

// Take reads n bytes. What it returns is part of the body.
func (f *Fields) Take(n int) []byte {
	if n < 0 || n > len(f.rest) {
		f.Bad()
		return nil
	}
	taken := f.rest[:n:n]
	f.rest = f.rest[n:]
	return taken
}

// Byte reads one byte.
func (f *Fields) Byte() byte {
	if b := f.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// Uint32 reads four big-endian bytes.
func (f *Fields) Uint32() uint32 {
	if b := f.Take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// Uvarint reads what binary.AppendUvarint appended.
func (f *Fields) Uvarint() uint64 {
	x, n := binary.Uvarint(f.rest)
	if n <= 0 {
		f.Bad()
		return 0
	}
	f.rest = f.rest[n:]
	return x
}

// Varint reads what binary.AppendVarint appended.
func (f *Fields) Varint() int64 {
	x, n := binary.Varint(f.rest)
	if n <= 0 {
		f.Bad()
		return 0
	}
	f.rest = f.rest[n:]
	return x
}

// Bytes reads what AppendBytes appended. What it returns is part of the body.
func (f *Fields) Bytes() []byte {
	n := f.Uvarint()
	if n > uint64(len(f.rest)) {
		f.Bad()
		return nil
	}
	return f.Take(int(n))
}

// String is Bytes as a string.
func (f *Fields) String() string { return string(f.Bytes()) }

// Time reads what AppendTime appended, in UTC.
func (f *Fields) Time() time.Time {
	switch f.Byte() {
	case 0:
		return time.Time{}
	case 1:
		seconds, nano := f.Varint(), f.Uvarint()
		if nano >= 1e9 {
			f.Bad()
			return time.Time{}
		}
		return time.Unix(seconds, int64(nano)).UTC()
	}
	f.Bad()
	return time.Time{}
}
