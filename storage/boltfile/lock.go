package boltfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const lockFile = "lock"

// Lock is the right to use a state directory: alone, or beside other readers.
// The kernel takes it back when the process ends, however it ends.
type Lock struct {
	dir   string
	file  *os.File // nil: there was nothing to lock and no right to make it
	owner bool     // the owner file is ours
}

// AcquireLock takes the lock of the state directory dir, shared for a reader
// or else alone, without waiting. It returns an *InUseError if it is refused.
// A reader of a directory that may not be written gets a Lock that holds
// nothing if nobody has made the lock file yet.
func AcquireLock(dir string, shared bool) (*Lock, error) {
	path := filepath.Join(dir, lockFile)
	for {
		file, err := openLock(path, shared)
		if err != nil {
			return nil, fmt.Errorf("lock state directory %q: %w", dir, err)
		}
		l := &Lock{dir: dir, file: file}
		if file == nil {
			return l, nil
		}
		held, err := l.take(shared)
		if err != nil {
			file.Close()
			return nil, err
		}
		if held {
			return l, nil
		}
		file.Close() // the file was replaced while we took it: take the new one
	}
}

// openLock opens the lock file, making it if it may. It returns no file to a
// reader that finds none and may not make one.
func openLock(path string, shared bool) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil || !shared || !forbidden(err) {
		return file, err
	}
	file, err = os.Open(path)
	if errors.Is(err, fs.ErrNotExist) || forbidden(err) {
		return nil, nil
	}
	return file, err
}

// forbidden reports whether an error says that a place may not be written.
func forbidden(err error) bool {
	return errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

// take locks the open file, and reports false if another file lies at its path
// by now: a lock on a file that nobody else will open is none.
func (l *Lock) take(shared bool) (bool, error) {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	err := unix.Flock(int(l.file.Fd()), how|unix.LOCK_NB)
	for errors.Is(err, unix.EINTR) {
		err = unix.Flock(int(l.file.Fd()), how|unix.LOCK_NB)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		owner, _ := ReadOwner(l.dir)
		return false, &InUseError{Path: l.dir, Owner: owner}
	}
	if err != nil {
		return false, fmt.Errorf("lock state directory %q: %w", l.dir, err)
	}
	mine, err := l.file.Stat()
	if err != nil {
		return false, fmt.Errorf("lock state directory %q: %w", l.dir, err)
	}
	there, err := os.Stat(l.file.Name())
	return err == nil && os.SameFile(mine, there), nil
}

// Held reports whether the lock holds anything; see AcquireLock.
func (l *Lock) Held() bool { return l.file != nil }

// WriteOwner says in the directory who holds it. Only who holds the lock alone
// may call it; Release takes it back.
func (l *Lock) WriteOwner(o Owner) error {
	if err := writeOwner(l.dir, o); err != nil {
		return err
	}
	l.owner = true
	return nil
}

// Release gives the lock back and removes what WriteOwner wrote. Further calls
// do nothing.
func (l *Lock) Release() error {
	if l.file == nil {
		return nil
	}
	var removed error
	if l.owner {
		removed = removeOwner(l.dir)
	}
	// Closing is not enough: a child of this process that is about to exec has
	// the file open for a moment longer.
	_ = unix.Flock(int(l.file.Fd()), unix.LOCK_UN)
	closed := l.file.Close()
	l.file, l.owner = nil, false
	if err := errors.Join(removed, closed); err != nil {
		return fmt.Errorf("release state directory %q: %w", l.dir, err)
	}
	return nil
}
