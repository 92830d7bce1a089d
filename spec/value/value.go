// Package value holds what tasks make and take: a JSON value or a file, and
// the nested lists that slices are.
//
// Bodies make values, stores keep them, and the job key digests them; the
// package is the leaf that these share, and imports nothing of operon.
//
// # Caveats
//
// JSON text is kept digit for digit as the body wrote it. Only white space
// outside of strings is taken out, so two values are equal here if and only if
// their compact texts are: 1.0 and 1 are two values.
package value

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// Digest is a SHA-256.
type Digest [sha256.Size]byte

// String is the digest in lower-case hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// ParseDigest reads what String prints.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(d) {
		return d, fmt.Errorf("digest %q: want %d hexadecimal digits", s, 2*len(d))
	}
	copy(d[:], b)
	return d, nil
}

// ReadDigest is the digest of all that r gives.
func ReadDigest(r io.Reader) (Digest, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return Digest{}, err
	}
	return Digest(h.Sum(nil)), nil
}

// Kind tells what a value is.
type Kind uint8

const (
	JSON Kind = 1 // a JSON value, its compact text in Value.JSON
	File Kind = 2 // a file, described by Value.File
	Hole Kind = 3 // the recorded absence of a value, its reason as a JSON string in Value.JSON
)

// Value is one entity value. The zero Value is none.
type Value struct {
	Kind Kind
	JSON []byte    // Kind JSON: compact JSON text, valid UTF-8; not to be changed
	File *FileInfo // Kind File
}

// FileInfo describes a file value.
type FileInfo struct {
	Name   string // base name
	Exec   bool   // executable bit
	Size   int64  // bytes
	SHA256 Digest
	// Path is where the bytes lie now. Of a file taken by reference it is
	// relative to the pipeline file's folder; else it is absolute, and is not
	// part of the value.
	Path string
	Ref  bool // taken by reference (source glob): nobody but the user owns the bytes
}

// FromJSON makes a value of compact JSON text, which it keeps.
func FromJSON(compact []byte) Value { return Value{Kind: JSON, JSON: compact} }

// FromText makes the JSON string of text, which must be valid UTF-8.
func FromText(text string) Value {
	return Value{Kind: JSON, JSON: AppendString(make([]byte, 0, len(text)+2), text)}
}

// FromFile makes a file value.
func FromFile(f FileInfo) Value { return Value{Kind: File, File: &f} }

// NewHole makes the absence of a value, with the reason for it.
func NewHole(reason string) Value {
	return Value{Kind: Hole, JSON: AppendString(nil, reason)}
}

// Text is the decoded string of a JSON string value; ok is false of any other.
func (v Value) Text() (text string, ok bool) {
	if v.Kind != JSON || len(v.JSON) < 2 || v.JSON[0] != '"' {
		return "", false
	}
	inner := v.JSON[1 : len(v.JSON)-1]
	for _, c := range inner {
		if c == '\\' {
			if json.Unmarshal(v.JSON, &text) != nil {
				return "", false
			}
			return text, true
		}
	}
	return string(inner), true
}

// Reason is why the value is a hole.
func (v Value) Reason() string {
	text, _ := Value{Kind: JSON, JSON: v.JSON}.Text()
	return text
}

// AppendJSON appends v as JSON: a JSON value as it is, a file as
// {"file","size","sha256"}, a hole as null.
func (v Value) AppendJSON(b []byte) []byte {
	switch v.Kind {
	case JSON:
		return append(b, v.JSON...)
	case File:
		b = append(b, `{"file":`...)
		b = AppendString(b, v.File.Name)
		b = append(b, `,"size":`...)
		b = strconv.AppendInt(b, v.File.Size, 10)
		b = append(b, `,"sha256":"`...)
		b = append(b, v.File.SHA256.String()...)
		return append(b, `"}`...)
	}
	return append(b, "null"...)
}

// WriteIdentity writes to h what makes the value the value it is, framed so
// that no two sequences of different values write the same: the JSON text; of
// a file name, executable bit and content digest; of a hole that it is one.
func (v Value) WriteIdentity(h io.Writer) {
	var head [9]byte
	head[0] = byte(v.Kind)
	switch v.Kind {
	case JSON:
		binary.BigEndian.PutUint64(head[1:], uint64(len(v.JSON)))
		h.Write(head[:])
		h.Write(v.JSON)
	case File:
		binary.BigEndian.PutUint64(head[1:], uint64(len(v.File.Name)))
		h.Write(head[:])
		h.Write([]byte(v.File.Name))
		exec := byte(0)
		if v.File.Exec {
			exec = 1
		}
		h.Write([]byte{exec})
		h.Write(v.File.SHA256[:])
	default:
		h.Write(head[:])
	}
}

// Digest is the SHA-256 of the value's identity.
func (v Value) Digest() Digest {
	var room [256]byte
	if head := 9; v.Kind == JSON && head+len(v.JSON) <= len(room) { // nearly all values, and without a hash on the heap
		room[0] = byte(JSON)
		binary.BigEndian.PutUint64(room[1:], uint64(len(v.JSON)))
		return sha256.Sum256(room[:head+copy(room[head:], v.JSON)])
	}
	h := sha256.New()
	v.WriteIdentity(h)
	return Digest(h.Sum(nil))
}

// AppendString appends text as a JSON string: only what JSON requires to be
// escaped is, and what is not valid UTF-8 becomes U+FFFD.
func AppendString(b []byte, text string) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(text[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(b, text[start:i]...)
				b = append(b, "\uFFFD"...)
				start = i + 1
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, text[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
		i++
		start = i
	}
	b = append(b, text[start:]...)
	return append(b, '"')
}
