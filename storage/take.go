package storage

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"operon/spec/value"
)

// takeValue makes the stored form of a value, its bytes in a blob where they
// belong there.
func (s *Store) takeValue(o *Output, v value.Value) (*item, error) {
	switch v.Kind {
	case value.JSON:
		if len(v.JSON) <= InlineLimit {
			return &item{kind: itemJSON, text: v.JSON}, nil
		}
		return s.takeText(o, v.JSON)
	case value.Hole:
		return &item{kind: itemHole, text: v.JSON}, nil
	case value.File:
		if v.File.Ref {
			return &item{kind: itemFile, file: *v.File}, nil
		}
		return s.takeFile(o, *v.File)
	}
	return nil, fmt.Errorf("value of no kind (%d)", v.Kind)
}

// takeText writes a large JSON text to a blob.
func (s *Store) takeText(o *Output, text []byte) (*item, error) {
	id := blobID{digest: sha256.Sum256(text)}
	o.hold(id, int64(len(text)))
	err := s.writeBlob(o, id, func(to *os.File) error {
		_, err := to.Write(text)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("store value of %d bytes: %w", len(text), err)
	}
	return &item{kind: itemBlob, digest: id.digest, size: int64(len(text))}, nil
}

// writeBlob writes a blob of known digest.
func (s *Store) writeBlob(o *Output, id blobID, write func(to *os.File) error) error {
	to, err := os.CreateTemp(s.blobs.temp(), "")
	if err != nil {
		return err
	}
	err = errors.Join(write(to), finish(to, id), to.Close())
	return s.settle(o, to.Name(), id, err)
}

// finish makes a blob's bytes and mode durable.
func finish(f *os.File, id blobID) error {
	if err := f.Chmod(id.mode()); err != nil {
		return err
	}
	return f.Sync()
}

// settle publishes a temporary file, or removes it after an error.
func (s *Store) settle(o *Output, temp string, id blobID, err error) error {
	if err == nil {
		err = s.blobs.publish(temp, id)
	}
	if err != nil {
		_ = os.Remove(temp)
		return err
	}
	o.renamed = s.blobs.renames.Load()
	return nil
}

// takeFile brings a file into a blob: one that is a blob already is only
// named, one in the scratch folder moved, any other copied.
func (s *Store) takeFile(o *Output, f value.FileInfo) (*item, error) {
	if f.Name == "" {
		f.Name = filepath.Base(f.Path)
	}
	var err error
	if !s.takeBlob(o, &f) {
		err = s.moveFile(o, &f)
		if errors.Is(err, errCannotMove) {
			err = s.copyFile(o, &f)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("store file %q: %w", f.Path, err)
	}
	f.Path = ""
	return &item{kind: itemFile, file: f}, nil
}

// takeBlob names a blob of this store again: a job passed on a file that it got.
func (s *Store) takeBlob(o *Output, f *value.FileInfo) bool {
	if filepath.Dir(f.Path) != s.blobs.dir {
		return false
	}
	id, ok := blobOfName(filepath.Base(f.Path))
	if !ok || id.exec != f.Exec {
		return false
	}
	s.blobs.pin([]blobID{id}) // before looking: it stays if it is there now
	info, err := os.Stat(f.Path)
	if err != nil {
		s.blobs.unpin([]blobID{id})
		return false
	}
	o.hold(id, info.Size())
	s.blobs.unpin([]blobID{id})
	f.SHA256, f.Size = id.digest, info.Size()
	return true
}

// errCannotMove says that a file has to be copied.
var errCannotMove = errors.New("file cannot be moved")

// moveFile renames a file of the scratch folder into the blobs. One that has
// other names is not moved: its mode is theirs too, and who has them may write
// to it.
func (s *Store) moveFile(o *Output, f *value.FileInfo) error {
	if !within(f.Path, s.opts.Scratch) {
		return errCannotMove
	}
	info, err := os.Lstat(f.Path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || links(info) != 1 {
		return errCannotMove
	}
	from, err := os.OpenFile(f.Path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return errCannotMove
	}
	defer from.Close()
	if err := digest(from, f); err != nil {
		return err
	}
	id := blobID{digest: f.SHA256, exec: f.Exec}
	if err := finish(from, id); err != nil {
		return errCannotMove
	}
	o.hold(id, f.Size)
	if err := s.blobs.publish(f.Path, id); err != nil {
		return errCannotMove // another file system, most likely
	}
	o.renamed = s.blobs.renames.Load()
	return nil
}

// within reports whether a path lies under a folder, by its text.
func within(path, dir string) bool {
	return dir != "" && strings.HasPrefix(filepath.Clean(path), filepath.Clean(dir)+string(filepath.Separator))
}

// digest reads a file to find out its size and digest.
func digest(from *os.File, f *value.FileInfo) (err error) {
	h := sha256.New()
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	f.Size, err = io.Copy(h, from)
	f.SHA256 = value.Digest(h.Sum(nil))
	return err
}

// copyFile copies a file into the blobs. What is digested is the copy.
func (s *Store) copyFile(o *Output, f *value.FileInfo) error {
	from, err := os.OpenFile(f.Path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	if info, err := from.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, errors.New("is not a regular file"))
	}
	to, err := os.CreateTemp(s.blobs.temp(), "")
	if err != nil {
		return err
	}
	if !clone(to, from) {
		_, err = io.Copy(to, from)
	}
	if err == nil {
		err = digest(to, f)
	}
	id := blobID{digest: f.SHA256, exec: f.Exec}
	if err == nil {
		o.hold(id, f.Size)
		err = finish(to, id)
	}
	return s.settle(o, to.Name(), id, errors.Join(err, to.Close()))
}
