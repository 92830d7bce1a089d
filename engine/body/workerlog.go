package body

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// workerLog is the log of the processes of one number, one after another: what
// they print to standard error while they run. It keeps a head of half its limit
// and what was printed last, at least a quarter of it. The file is made with the
// first byte.
type workerLog struct {
	path  string
	limit int64

	mu      sync.Mutex
	f       *os.File
	made    bool  // by this runner
	failed  bool  // the file can't be written; a log is not worth a job
	length  int64 // of the file
	mark    int64 // where the tail begins, once something was left out
	dropped int64 // bytes left out
	tail    []byte
}

// Write implements io.Writer.
func (l *workerLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = append(l.tail, p...)
	if over := len(l.tail) - tailLimit; over > 0 {
		l.tail = append(l.tail[:0], l.tail[over:]...)
	}
	if len(p) == 0 || l.path == "" || l.failed {
		return len(p), nil
	}
	if err := l.store(p); err != nil {
		l.failed = true
	}
	return len(p), nil
}

func (l *workerLog) store(p []byte) (err error) {
	if l.f == nil {
		if l.f, err = l.open(); err != nil {
			return err
		}
		l.made = true
	}
	for len(p) > 0 {
		n := min(int64(len(p)), max(1, l.limit-l.length))
		if _, err := l.f.WriteAt(p[:n], l.length); err != nil {
			return err
		}
		l.length += n
		p = p[n:]
		if l.length >= l.limit {
			if err := l.shorten(); err != nil {
				return err
			}
		}
	}
	return nil
}

// open makes the file, or opens it again after it was closed.
func (l *workerLog) open() (*os.File, error) {
	if !l.made {
		return createLog(l.path)
	}
	return os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, 0o666)
}

// shorten takes out what lies between the head and the last quarter.
func (l *workerLog) shorten() error {
	head, keep := l.limit/2, l.limit/4
	tail := make([]byte, keep)
	if _, err := l.f.ReadAt(tail, l.length-keep); err != nil && err != io.EOF {
		return err
	}
	from := head // where what is left out begins, in this file
	if l.mark > 0 {
		from = l.mark
	}
	l.dropped += l.length - keep - from
	mark := fmt.Appendf(nil, "\n[operon: %d bytes left out here; --log-limit keeps %d]\n", l.dropped, l.limit)
	if err := l.f.Truncate(head); err != nil {
		return err
	}
	if _, err := l.f.WriteAt(append(mark, tail...), head); err != nil {
		return err
	}
	l.mark = head + int64(len(mark))
	l.length = l.mark + keep
	return nil
}

// last is what was printed last, whole lines as far as they fit.
func (l *workerLog) last() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]byte(nil), l.tail...)
}

// size is the length of the file.
func (l *workerLog) size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.length
}

func (l *workerLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil {
		l.failed = errors.Join(l.f.Close()) != nil || l.failed
		l.f = nil
	}
}
