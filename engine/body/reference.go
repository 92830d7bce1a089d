package body

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"operon/spec/value"
)

// fileID is what tells that a file has not been written to. The change time
// can't be set back by a program.
type fileID struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

// settled is how long ago a file must have been written for its time stamps to
// tell the next write apart: they are coarse, on some file systems seconds.
const settled = 2 * time.Second

// fileCache remembers the digests of files by their identity, so that a file
// that many jobs take is read once. The zero value is empty; it may be used by
// several goroutines.
type fileCache struct {
	mu    sync.Mutex
	sums  map[fileID]value.Digest
	used  map[fileID]struct{} // looked at here
	dirty bool                // there is something that was not saved
}

// describe opens and digests the file at path; Path of the result is not set.
func (c *fileCache) describe(path string) (value.FileInfo, error) {
	f, before, err := value.OpenRegular(path)
	if err != nil {
		return value.FileInfo{}, err
	}
	defer f.Close()
	info := value.FileInfo{Name: filepath.Base(path), Size: before.Size(), Exec: before.Mode()&0o111 != 0}
	id, stable := identify(before)
	if sum, known := c.find(id); known {
		info.SHA256 = sum
		return info, nil
	}
	if info.SHA256, err = digestOf(f); err != nil {
		return info, err
	}
	after, err := f.Stat()
	if err != nil {
		return info, err
	}
	if now, _ := identify(after); now != id {
		return info, fmt.Errorf("read %q: %w while it was being read", path, ErrChanged)
	}
	if stable {
		c.keep(id, info.SHA256)
	}
	return info, nil
}

func (c *fileCache) find(id fileID) (sum value.Digest, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sum, known = c.sums[id]; known {
		c.note(id)
	}
	return sum, known
}

func (c *fileCache) keep(id fileID, sum value.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sums == nil {
		c.sums = map[fileID]value.Digest{}
	}
	c.sums[id] = sum
	c.dirty = true
	c.note(id)
}

// note remembers that a file was looked at.
func (c *fileCache) note(id fileID) {
	if c.used == nil {
		c.used = map[fileID]struct{}{}
	}
	c.used[id] = struct{}{}
}

func identify(info fs.FileInfo) (id fileID, stable bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, false
	}
	id = fileID{dev: st.Dev, ino: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim}
	return id, time.Since(time.Unix(st.Ctim.Unix())) > settled
}

func digestOf(r io.Reader) (value.Digest, error) {
	sum, err := value.ReadDigest(r)
	if err != nil {
		return sum, fmt.Errorf("digest file: %w", err)
	}
	return sum, nil
}

// referenced is the path of a file that was taken by reference, if it still is
// what it was when it was taken.
func (c *common) referenced(f *value.FileInfo) (string, error) {
	path := resolve(c.cfg.Dir, f.Path)
	now, err := c.cfg.files.describe(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", &Failure{Kind: KindInput, Err: ErrGone,
			Message: fmt.Sprintf("the file %s, taken by reference, is gone; put it back, or run again without it", f.Path)}
	case err != nil && !errors.Is(err, ErrChanged):
		return "", &Failure{Kind: KindInput, Err: err,
			Message: fmt.Sprintf("the file %s, taken by reference, can't be read: %v", f.Path, err)}
	case err != nil || now.SHA256 != f.SHA256 || now.Size != f.Size:
		return "", &Failure{Kind: KindInput, Err: ErrChanged,
			Message: fmt.Sprintf("the file %s, taken by reference, has changed since (%d bytes, sha256 %.12s; it was %d bytes, sha256 %.12s); run again to take it as it is now",
				f.Path, now.Size, now.SHA256, f.Size, f.SHA256)}
	}
	return path, nil
}
