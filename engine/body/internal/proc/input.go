package proc

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// keepInput is how much of a file for standard input may stay in memory between
// programs; larger ones lie in the slot's folder and are closed after use.
const keepInput = 1 << 20

// input is the file that a program reads as standard input. A file and not a
// pipe: nobody has to feed it, and nothing waits for a program that does not
// read.
type input struct {
	write, read int // two ends of one file; the program gets the one for reading
	size        int64
	key         any // what it holds, or nil
}

// Null is the descriptor of an empty standard input.
func (s *Slot) Null() int { return s.null }

// Input returns a descriptor to read data from, valid until the next call.
func (s *Slot) Input(data []byte) (int, error) {
	s.in.key = nil
	if len(data) > keepInput || s.in.size > keepInput {
		s.in.close()
	}
	if s.in.read < 0 {
		if err := s.in.open(s.dir, len(data)); err != nil {
			return -1, err
		}
	}
	if err := s.in.fill(data); err != nil {
		s.in.close()
		return -1, err
	}
	return s.in.read, nil
}

// KeepInput notes that the input written last is what key stands for.
func (s *Slot) KeepInput(key any) { s.in.key = key }

// KeptInput returns a descriptor to read once more what key stands for, if that
// was written last.
func (s *Slot) KeptInput(key any) (int, bool) {
	if key == nil || s.in.key != key || s.in.read < 0 {
		return -1, false
	}
	if _, err := unix.Seek(s.in.read, 0, unix.SEEK_SET); err != nil {
		return -1, false
	}
	return s.in.read, true
}

func (in *input) open(dir string, size int) error {
	fd, err := openInput(dir, size)
	if err != nil {
		return fmt.Errorf("open file for standard input: %w", err)
	}
	in.write = fd
	name := "/proc/self/fd/" + strconv.Itoa(in.write)
	if in.read, err = unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		in.read = -1
		in.close()
		return fmt.Errorf("open file for standard input: %w", err)
	}
	return nil
}

// openInput opens a file in memory, or in dir if it is to be large or the kernel
// has none in memory.
func openInput(dir string, size int) (int, error) {
	if size <= keepInput {
		if fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC); err == nil {
			return fd, nil
		}
	}
	return openUnnamed(dir, 0)
}

func (in *input) fill(data []byte) error {
	if err := pwriteAll(in.write, data, 0); err != nil {
		return fmt.Errorf("write standard input: %w", err)
	}
	if int64(len(data)) < in.size {
		if err := unix.Ftruncate(in.write, int64(len(data))); err != nil {
			return fmt.Errorf("shorten standard input: %w", err)
		}
	}
	in.size = int64(len(data))
	if _, err := unix.Seek(in.read, 0, unix.SEEK_SET); err != nil {
		return fmt.Errorf("rewind standard input: %w", err)
	}
	return nil
}

func (in *input) close() {
	closeFD(&in.write)
	closeFD(&in.read)
	in.size, in.key = 0, nil
}
