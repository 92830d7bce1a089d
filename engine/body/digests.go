package body

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"operon/spec/value"
)

// A file of digests begins with digestsMagic; then come records of digestSize
// bytes, and the SHA-256 of all before it.
const (
	digestsMagic = "operon digests 1\n"
	digestSize   = 7*8 + sha256.Size
)

// LoadDigests takes over the digests that SaveDigests left at path, so that an
// unchanged file is not read again. A file that is not there, or can't be
// trusted, is none.
func (cfg *Config) LoadDigests(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read known digests: %w", err)
	}
	records, ok := unsealDigests(text)
	if !ok {
		return nil
	}
	c := &cfg.files
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sums == nil {
		c.sums = map[fileID]value.Digest{}
	}
	for len(records) > 0 {
		id, sum := decodeDigest(records[:digestSize])
		c.sums[id] = sum
		records = records[digestSize:]
	}
	c.dirty = false
	return nil
}

// SaveDigests leaves the digests of the files that were looked at since
// LoadDigests at path, for a later run. It writes nothing if nothing is new.
func (cfg *Config) SaveDigests(path string) error {
	c := &cfg.files
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dirty {
		return nil
	}
	text := []byte(digestsMagic)
	for id := range c.used {
		text = appendDigest(text, id, c.sums[id])
	}
	sum := sha256.Sum256(text)
	temp := path + ".tmp"
	err := os.WriteFile(temp, append(text, sum[:]...), 0o600)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return fmt.Errorf("keep known digests: %w", err)
	}
	c.dirty = false
	return nil
}

func unsealDigests(text []byte) (records []byte, ok bool) {
	if len(text) < len(digestsMagic)+sha256.Size || !bytes.HasPrefix(text, []byte(digestsMagic)) {
		return nil, false
	}
	body, sum := text[:len(text)-sha256.Size], text[len(text)-sha256.Size:]
	want := sha256.Sum256(body)
	records = body[len(digestsMagic):]
	return records, bytes.Equal(sum, want[:]) && len(records)%digestSize == 0
}

func appendDigest(b []byte, id fileID, sum value.Digest) []byte {
	for _, n := range []uint64{
		id.dev, id.ino, uint64(id.size), uint64(id.mtime.Sec), uint64(id.mtime.Nsec), uint64(id.ctime.Sec), uint64(id.ctime.Nsec),
	} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return append(b, sum[:]...)
}

func decodeDigest(b []byte) (id fileID, sum value.Digest) {
	at := func(n int) uint64 { return binary.BigEndian.Uint64(b[8*n:]) }
	id = fileID{
		dev: at(0), ino: at(1), size: int64(at(2)),
		mtime: syscall.Timespec{Sec: int64(at(3)), Nsec: int64(at(4))},
		ctime: syscall.Timespec{Sec: int64(at(5)), Nsec: int64(at(6))},
	}
	return id, value.Digest(b[7*8 : digestSize])
}
