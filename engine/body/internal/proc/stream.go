package proc

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// pipeChunk is how much is read from a pipe at once: what a pipe holds, as a
// rule.
const pipeChunk = 64 << 10

// stream is one of a slot's two outputs: a pipe that the slot keeps, and what
// was read from it.
//
// Nobody waits for the pipe's end, which may never come: the slot holds the
// other end as well. A short program's output is read when the program is over;
// of one that is still running when its first look comes, a goroutine of the
// slot's reads along.
type stream struct {
	Capture
	read    *os.File
	readFD  int // the same; does not block
	writeFD int // what programs get
	scratch []byte
	err     error // the first one while storing what was read
	along   sync.WaitGroup
}

// open makes a new pipe in place of the old one.
func (s *stream) open() error {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("make pipe for output: %w", err)
	}
	if err := unix.SetNonblock(p[0], true); err != nil {
		unix.Close(p[0])
		unix.Close(p[1])
		return fmt.Errorf("make pipe for output: %w", err)
	}
	s.close()
	s.readFD, s.writeFD = p[0], p[1]
	s.read = os.NewFile(uintptr(p[0]), "output")
	return nil
}

func (s *stream) close() {
	if s.read != nil {
		s.read.Close()
		s.read = nil
	}
	closeFD(&s.writeFD)
	s.reset()
}

// follow reads along while the program runs. full is called once when max bytes
// have been exceeded (0: never), or when what was read can't be stored; from then
// on it is thrown away.
func (s *stream) follow(max int64, full func()) {
	s.along.Go(func() {
		buf := make([]byte, pipeChunk)
		for told := false; ; {
			n, err := s.read.Read(buf)
			s.store(buf[:n])
			if err != nil {
				return // the deadline that unfollow sets
			}
			if !told && (s.err != nil || max > 0 && s.Size > max) {
				told = true
				full()
			}
		}
	})
}

// unfollow ends follow.
func (s *stream) unfollow() {
	_ = s.read.SetReadDeadline(past) // a pipe can
	s.along.Wait()
	_ = s.read.SetReadDeadline(never)
}

// finish reads what is left when all who wrote are gone.
func (s *stream) finish() error {
	if s.scratch == nil {
		s.scratch = make([]byte, pipeChunk)
	}
	for {
		n, err := unix.Read(s.readFD, s.scratch)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return s.err
		case err != nil:
			return fmt.Errorf("read output: %w", err)
		}
		s.store(s.scratch[:n])
		if n < len(s.scratch) {
			return s.err // that was all: a pipe gives what it has
		}
	}
}

func (s *stream) store(p []byte) {
	if s.err == nil && len(p) > 0 {
		if err := s.write(p); err != nil {
			s.err = fmt.Errorf("spool output: %w", err)
		}
	}
}

// clean makes the stream ready for the next program.
func (s *stream) clean() {
	s.reset()
	s.err = nil
}

// Stdout is what the last program wrote to its standard output, until Clean.
func (s *Slot) Stdout() *Capture { return &s.out.Capture }

// Stderr is what the last program wrote to its standard error, until Clean.
func (s *Slot) Stderr() *Capture { return &s.err.Capture }

// SaveStdout makes a file at path of what the last program printed.
func (s *Slot) SaveStdout(path string) error { return s.out.save(path) }

// freshStreams replaces the pipes that programs write to, and the file that they
// read from.
func (s *Slot) freshStreams() error {
	if err := errors.Join(s.out.open(), s.err.open()); err != nil {
		return err
	}
	s.in.close()
	s.dirty = false
	return nil
}

// follow reads along with both outputs.
func (s *Slot) follow(p *Program, stdoutFull, stderrFull func()) {
	s.out.follow(p.MaxOutput, stdoutFull)
	s.err.follow(0, stderrFull)
}

// finish ends the reading along, if there is any, and reads the rest.
func (s *Slot) finish(following bool) error {
	if following {
		s.out.unfollow()
		s.err.unfollow()
	}
	return errors.Join(s.out.finish(), s.err.finish())
}
