package control

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// spoolMemory is how much of an answer stays in memory; the rest goes to a
// temporary file.
const spoolMemory = 1 << 20

// spool takes an answer as fast as the engine gives it, so that the engine,
// which reads its stores meanwhile, never waits for a client.
type spool struct {
	memory bytes.Buffer
	file   *os.File // nil until it is needed; has no name any more
}

func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && s.memory.Len()+len(p) <= spoolMemory {
		return s.memory.Write(p)
	}
	if s.file == nil {
		if err := s.open(); err != nil {
			return 0, fmt.Errorf("keep an answer for a client: %w", err)
		}
	}
	return s.file.Write(p)
}

func (s *spool) open() error {
	f, err := os.CreateTemp("", "operon-answer-")
	if err != nil {
		return err
	}
	s.file = f
	return os.Remove(f.Name()) // nothing is left behind, however we end
}

// send writes what was taken to w, and is empty afterwards.
func (s *spool) send(w io.Writer) error {
	_, err := s.memory.WriteTo(w)
	if s.file == nil || err != nil {
		return err
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	// Not io.Copy alone: a file and a socket would meet in the kernel, past
	// the deadline that w sets for each write.
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{s.file}, make([]byte, 64<<10))
	return err
}

// close gives the temporary file back.
func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
