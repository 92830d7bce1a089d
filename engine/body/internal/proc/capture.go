package proc

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// memLimit is how much of an output is kept in memory; a longer one lies in an
// unnamed file.
const memLimit = 256 << 10

// Capture is what a program wrote to one of its outputs. If a limit was set, the
// middle of what is longer is gone: half the limit is left of its head, and half
// of its tail.
type Capture struct {
	Size  int64 // bytes written
	limit int64 // bytes kept; 0: all
	dir   string
	mem   []byte
	file  int // -1: all is in mem
}

// place tells where byte off of the output is stored, and how many bytes are
// stored behind one another from there. What is behind the head goes round and
// round in the room that is left.
func (c *Capture) place(off int64) (pos, room int64) {
	if c.limit <= 0 {
		return off, math.MaxInt64
	}
	if off < c.head() {
		return off, c.head() - off
	}
	ring := c.limit - c.head()
	at := (off - c.head()) % ring
	return c.head() + at, ring - at
}

func (c *Capture) head() int64 { return c.limit / 2 }

// write appends to the output.
func (c *Capture) write(p []byte) error {
	for len(p) > 0 {
		pos, room := c.place(c.Size)
		n := min(int64(len(p)), room)
		if err := c.put(p[:n], pos); err != nil {
			return err
		}
		c.Size += n
		p = p[n:]
	}
	return nil
}

// put stores p at a position that is at most the end of what is stored.
func (c *Capture) put(p []byte, pos int64) error {
	end := pos + int64(len(p))
	if c.file < 0 && end > memLimit {
		if err := c.spill(); err != nil {
			return err
		}
	}
	if c.file >= 0 {
		return pwriteAll(c.file, p, pos)
	}
	n := copy(c.mem[pos:], p)
	c.mem = append(c.mem, p[n:]...)
	return nil
}

// spill moves what is in memory to a file.
func (c *Capture) spill() error {
	fd, err := openUnnamed(c.dir, 0)
	if err != nil {
		return err
	}
	if err := pwriteAll(fd, c.mem, 0); err != nil {
		unix.Close(fd)
		return err
	}
	c.file, c.mem = fd, nil // many jobs may print much at once
	return nil
}

// ReadAt reads what was written, as io.ReaderAt says. What was not kept must not
// be asked for.
func (c *Capture) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) && off < c.Size {
		pos, room := c.place(off)
		m := int(min(int64(len(p)-n), room, c.Size-off))
		if err := c.get(p[n:n+m], pos); err != nil {
			return n, err
		}
		n += m
		off += int64(m)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (c *Capture) get(p []byte, pos int64) error {
	if c.file < 0 {
		copy(p, c.mem[pos:])
		return nil
	}
	for len(p) > 0 {
		n, err := unix.Pread(c.file, p, pos)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("read spooled output: %w", err)
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		p, pos = p[n:], pos+int64(n)
	}
	return nil
}

// Bytes are all of an output without limit, in memory of the caller's.
func (c *Capture) Bytes() ([]byte, error) {
	b := make([]byte, c.Size)
	_, err := c.ReadAt(b, 0)
	return b, err
}

// save makes a file at path of an output without limit.
func (c *Capture) save(path string) error {
	if c.file >= 0 && linkTo(c.file, path) == nil {
		return nil // Clean lets go of it
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.NewSectionReader(c, 0, c.Size))
	return errors.Join(err, f.Close())
}

// reset forgets the output.
func (c *Capture) reset() {
	closeFD(&c.file)
	c.Size, c.mem = 0, c.mem[:0]
}

func pwriteAll(fd int, p []byte, pos int64) error {
	for len(p) > 0 {
		n, err := unix.Pwrite(fd, p, pos)
		if err != nil && err != unix.EINTR {
			return err
		}
		n = max(n, 0)
		p, pos = p[n:], pos+int64(n)
	}
	return nil
}

// linkTo gives an unnamed file a name. Where that can't be done (another file
// system) it is an error.
func linkTo(fd int, path string) error {
	return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
}

// openUnnamed opens a file in dir that has no name, for reading and writing.
func openUnnamed(dir string, flags int) (int, error) {
	flags |= unix.O_RDWR | unix.O_CLOEXEC
	fd, err := unix.Open(dir, flags|unix.O_TMPFILE, 0o600)
	if err == nil {
		return fd, nil
	}
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EINVAL) {
		return -1, fmt.Errorf("open unnamed file in %q: %w", dir, err)
	}
	return openUnlinked(dir, flags)
}

// openUnlinked is openUnnamed where the file system has no unnamed files: one
// that loses its name at once.
func openUnlinked(dir string, flags int) (int, error) {
	f, err := os.CreateTemp(dir, "unnamed-")
	if err != nil {
		return -1, err
	}
	defer f.Close()
	defer os.Remove(f.Name())
	fd, err := unix.Open(f.Name(), flags, 0)
	if err != nil {
		return -1, fmt.Errorf("open unnamed file in %q: %w", dir, err)
	}
	return fd, nil
}
