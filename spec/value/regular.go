package value

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ErrNotRegular says that something else lies where a file is to be: a folder, a
// FIFO, a device.
var ErrNotRegular = errors.New("is no regular file")

// OpenRegular opens a regular file for reading, and says what it is. Anything else
// is ErrNotRegular, at once: opening a FIFO would wait for who writes to it.
func OpenRegular(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) { // a socket, or a device that is not there
		return nil, nil, fmt.Errorf("%q %w", path, ErrNotRegular)
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%q %w", path, ErrNotRegular)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}
