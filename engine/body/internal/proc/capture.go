package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Capture is what a program wrote to one of its outputs.
type Capture struct {
	Size int64 // bytes written
	fd   int
}

// ReadAt reads what was written, as io.ReaderAt says.
func (c *Capture) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		m, err := unix.Pread(c.fd, p[n:], off+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, fmt.Errorf("read captured output: %w", err)
		}
		if m == 0 {
			return n, io.EOF
		}
		n += m
	}
	return n, nil
}

// Bytes reads all of it.
func (c *Capture) Bytes() ([]byte, error) {
	b := make([]byte, c.Size)
	n, err := c.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return b[:n], nil
}

// capture is one of a slot's two files for output. Programs append to it, so
// that it may be emptied without anybody's file position being in the way.
type capture struct {
	Capture
}

func (c *capture) last() *Capture { return &c.Capture }

func (c *capture) replace(fd int) {
	closeFD(&c.fd)
	c.fd, c.Size = fd, 0
}

// measure notes how much has been written.
func (c *capture) measure() error {
	size, err := fileSize(c.fd)
	c.Size = size
	return err
}

// empty truncates the file, if anything was written.
func (c *capture) empty() error {
	if err := c.measure(); err != nil || c.Size == 0 {
		return err
	}
	if err := unix.Ftruncate(c.fd, 0); err != nil {
		return fmt.Errorf("empty captured output: %w", err)
	}
	c.Size = 0
	return nil
}

func fileSize(fd int) (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("look at captured output: %w", err)
	}
	return st.Size, nil
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

// linkFrom is the size from which standard output becomes a file by getting a
// name, instead of being copied; the slot then needs a new file.
const linkFrom = 1 << 20

// SaveStdout makes a file at path of what the last program printed.
func (s *Slot) SaveStdout(path string) error {
	if s.out.Size >= linkFrom && linkTo(s.out.fd, path) == nil {
		s.dirty = true
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.NewSectionReader(&s.out, 0, s.out.Size))
	return errors.Join(err, f.Close())
}

// linkTo gives an unnamed file a name. Where that can't be done (another file
// system) it is an error.
func linkTo(fd int, path string) error {
	return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
}
