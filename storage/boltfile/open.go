package boltfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

const (
	defaultTimeout  = time.Second
	defaultInterval = 10 * time.Millisecond

	// mapSize is how much address space a file opened for writing gets at
	// first. Mapping a file anew waits for all readers, so it had better be
	// rare; unused address space costs nothing.
	mapSize = 64 << 20
)

// Open opens the database file at path, and makes it first if there is none
// and it may write. It returns a *DamagedError for what is no database file, an
// *InUseError if another process has it open, and else the system's error.
func Open(path string, o Options) (*File, error) {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	err := inspect(path)
	if errors.Is(err, fs.ErrNotExist) && !o.ReadOnly {
		err = create(path, o)
	}
	if err != nil {
		return nil, err
	}
	f, err := open(path, o)
	if err != nil {
		return nil, err
	}
	var free *DamagedError
	err = guard(path, func() (err error) {
		free, err = checkTree(f.raw, path)
		return err
	})
	if err == nil && free != nil && !o.ReadOnly {
		err = free
	}
	if err != nil {
		return nil, errors.Join(err, f.db.Close())
	}
	f.free = free
	if o.ReadOnly {
		close(f.stopped)
	} else {
		go f.write()
	}
	return f, nil
}

// inspect looks at what lies at path before anything is opened: opening a pipe
// would wait, and bbolt would take an empty file for a new one.
func inspect(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("open database: %w", err)
	case info.IsDir():
		return &DamagedError{Path: path, Detail: "is a folder, not a file", Empty: true}
	case !info.Mode().IsRegular():
		return &DamagedError{Path: path, Detail: "is not a regular file", Empty: true}
	case info.Size() == 0:
		return &DamagedError{Path: path, Detail: "is an empty file", Empty: true}
	}
	return nil
}

// create makes the file under another name and renames it, so that there is
// either no file or a whole one.
func create(path string, o Options) error {
	o.hook("before:create")
	temp := path + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("create database: %w", err)
	}
	err := guard(temp, func() error { return fill(temp, o) })
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err == nil {
		err = SyncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = os.Remove(temp)
		return fmt.Errorf("create database %q: %w", path, withCause(err))
	}
	o.hook("after:create")
	return nil
}

// fill makes a database of what Init puts in it.
func fill(path string, o Options) error {
	db, err := bolt.Open(path, 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType, Timeout: o.Timeout})
	if err != nil {
		return err
	}
	if o.Init != nil {
		err = db.Update(o.Init)
	}
	if err == nil {
		err = db.Sync()
	}
	return errors.Join(err, db.Close())
}

func open(path string, o Options) (*File, error) {
	f := &File{path: path, opts: o, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	options := &bolt.Options{
		Timeout:      o.Timeout,
		ReadOnly:     o.ReadOnly,
		FreelistType: bolt.FreelistMapType,
		NoStatistics: true,
		OpenFile: func(name string, flag int, mode os.FileMode) (file *os.File, err error) {
			// Without O_CREATE: a file that went since inspect saw it is not to
			// come back as an empty database.
			file, err = os.OpenFile(name, flag&^os.O_CREATE, mode)
			f.raw = file
			return file, err
		},
	}
	if !o.ReadOnly {
		options.InitialMmapSize = mapSize
	}
	err := guard(path, func() (err error) {
		f.db, err = bolt.Open(path, 0o600, options)
		return err
	})
	var damaged *DamagedError
	if errors.As(err, &damaged) && f.raw != nil {
		if free, found := checkTree(f.raw, path); found != nil {
			err = found // which says more
		} else if free != nil {
			err = free
		}
		release(f.raw) // bbolt panicked and did not
	}
	if err != nil {
		return nil, opening(path, err)
	}
	return f, nil
}

// release closes a file that bbolt will not close. The kernel's lock has to be
// given back by name: the map, which stays, would keep it.
func release(file *os.File) {
	_ = unix.Flock(int(file.Fd()), unix.LOCK_UN)
	_ = file.Close()
}

// opening says what an error of bbolt's Open means.
func opening(path string, err error) error {
	var system *fs.PathError
	var damaged *DamagedError
	switch {
	case errors.As(err, &damaged):
		return err
	case errors.Is(err, berrors.ErrTimeout):
		owner, _ := ReadOwner(filepath.Dir(path))
		return &InUseError{Path: path, Owner: owner}
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrVersionMismatch), errors.Is(err, berrors.ErrChecksum):
		return &DamagedError{Path: path, Detail: "is no database file, or both of its first pages are overwritten"}
	case errors.As(err, &system):
		return fmt.Errorf("open database: %w", err)
	}
	if info, statErr := os.Stat(path); statErr == nil && info.Size() < int64(2*os.Getpagesize()) {
		return &DamagedError{Path: path, Detail: "is cut short"}
	}
	return fmt.Errorf("open database %q: %w", path, withCause(err))
}

func (o *Options) hook(point string) {
	if o.Hook != nil {
		o.Hook(point)
	}
}

// SyncDir makes the names in a folder durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	err = d.Sync()
	if closed := d.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
