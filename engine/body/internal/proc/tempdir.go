package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// tempDir is the folder for temporary files. Looking into it after each job
// would cost more than the look at its time stamp, which is set to a time that
// no change leaves there.
type tempDir struct {
	path string
	fd   int
	open bool
}

// make makes the folder, empty.
func (t *tempDir) make() error {
	if err := RemoveTree(t.path); err != nil {
		return err
	}
	if err := os.Mkdir(t.path, 0o700); err != nil {
		return fmt.Errorf("make temporary folder: %w", err)
	}
	fd, err := unix.Open(t.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open temporary folder %q: %w", t.path, err)
	}
	t.fd, t.open = fd, true
	return t.stamp()
}

func (t *tempDir) stamp() error {
	var epoch [2]unix.Timeval
	if err := unix.Futimes(t.fd, epoch[:]); err != nil {
		return fmt.Errorf("stamp temporary folder: %w", err)
	}
	return nil
}

// clean empties the folder if it was touched.
func (t *tempDir) clean() error {
	var st unix.Stat_t
	if err := unix.Fstat(t.fd, &st); err != nil {
		return fmt.Errorf("look at temporary folder: %w", err)
	}
	if st.Mtim.Sec == 0 && st.Mtim.Nsec == 0 && st.Nlink > 0 && st.Mode&0o777 == 0o700 {
		return nil
	}
	t.close()
	return t.make()
}

func (t *tempDir) close() {
	if t.open {
		unix.Close(t.fd)
		t.open = false
	}
}

func (t *tempDir) remove() error {
	t.close()
	if t.path == "" {
		return nil
	}
	return RemoveTree(t.path)
}

// RemoveTree removes path and all in it, also where a program took away the
// permission to do so. Nothing there is no error.
func RemoveTree(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	// WalkDir calls back before it reads a folder: what it reads was opened up.
	_ = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(name, 0o700) // RemoveAll below tells what stays
		}
		return nil
	})
	return os.RemoveAll(path)
}
