package value

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// Identities digests identities one after another, as writing them to a SHA-256
// would, and what is small without a hash on the heap. The zero Identities is
// ready; Reset makes it so again.
type Identities struct {
	small []byte
	long  hash.Hash
	begun bool // small has been written to long, and goes on being so
}

// smallIdentities is how much is gathered before it is hashed.
const smallIdentities = 4 << 10

// Reset forgets what was added.
func (s *Identities) Reset() {
	s.small, s.begun = s.small[:0], false
}

// Write adds bytes. It never fails.
func (s *Identities) Write(p []byte) (int, error) {
	if len(s.small)+len(p) > smallIdentities {
		s.flush()
	}
	if len(p) > smallIdentities {
		s.long.Write(p)
	} else {
		s.small = append(s.small, p...)
	}
	return len(p), nil
}

func (s *Identities) flush() {
	if s.long == nil {
		s.long = sha256.New()
	}
	if !s.begun {
		s.long.Reset()
		s.begun = true
	}
	s.long.Write(s.small)
	s.small = s.small[:0]
}

// Count adds the number of values that follow, as the digest of an output has it.
func (s *Identities) Count(n uint32) {
	s.small = binary.BigEndian.AppendUint64(s.small, uint64(n))
}

// Text adds the identity of a JSON value whose text, of size bytes, is written
// next.
func (s *Identities) Text(size int64) {
	s.small = append(s.small, byte(JSON))
	s.small = binary.BigEndian.AppendUint64(s.small, uint64(size))
}

// Value adds a value's identity; see Value.WriteIdentity.
func (s *Identities) Value(v Value) {
	switch v.Kind {
	case JSON:
		s.Text(int64(len(v.JSON)))
		_, _ = s.Write(v.JSON)
	default:
		v.WriteIdentity(s)
	}
}

// Sum is the digest of what was added since Reset.
func (s *Identities) Sum() (d Digest) {
	if !s.begun {
		return sha256.Sum256(s.small)
	}
	s.flush()
	s.long.Sum(d[:0])
	return d
}
