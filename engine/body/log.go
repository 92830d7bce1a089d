package body

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"operon/engine/body/internal/proc"
)

// tailLimit is how much of the end of standard error a failure shows.
const tailLimit = 2 << 10

// writeLog writes what a job printed to standard error to its log, the middle
// left out if it is longer than limit, and returns the log's size and the last
// lines. Nothing printed makes no log.
func (c *common) writeLog(errs *proc.Capture, path string) (size int64, tail []byte, err error) {
	if errs.Size == 0 {
		return 0, nil, nil
	}
	tail, err = lastLines(errs)
	if err != nil || path == "" {
		return 0, tail, err
	}
	f, err := createLog(path)
	if err != nil {
		return 0, tail, err
	}
	w := c.secrets.writer(f)
	size, err = copyLog(w, errs, c.logLimit)
	return size, tail, errors.Join(err, w.Close(), f.Close())
}

// createLog creates the file, and its folder if that is missing.
func createLog(path string) (*os.File, error) {
	f, err := os.Create(path)
	if !errors.Is(err, os.ErrNotExist) {
		return f, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return os.Create(path)
}

func copyLog(f io.Writer, errs *proc.Capture, limit int64) (int64, error) {
	if errs.Size <= limit {
		return io.Copy(f, io.NewSectionReader(errs, 0, errs.Size))
	}
	head := limit / 2
	tail := limit - head
	n, err := io.Copy(f, io.NewSectionReader(errs, 0, head))
	if err != nil {
		return n, err
	}
	m, err := fmt.Fprintf(f, "\n[operon: %d bytes left out here; --log-limit keeps %d]\n", errs.Size-limit, limit)
	n += int64(m)
	if err != nil {
		return n, err
	}
	k, err := io.Copy(f, io.NewSectionReader(errs, errs.Size-tail, tail))
	return n + k, err
}

// lastLines are the last whole lines that fit into tailLimit; of a longer line
// its end.
func lastLines(errs *proc.Capture) ([]byte, error) {
	n := min(errs.Size, tailLimit)
	tail := make([]byte, n)
	if _, err := errs.ReadAt(tail, errs.Size-n); err != nil && err != io.EOF {
		return nil, err
	}
	if n == errs.Size {
		return tail, nil
	}
	if i := bytes.IndexByte(tail, '\n'); i >= 0 && i+1 < len(tail) {
		tail = tail[i+1:]
	}
	return tail, nil
}
