package boltfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// copyStep is the most bytes that one transaction of a copy holds.
const copyStep = 16 << 20

// Compact copies the database file at path into a new one, which has no free
// room, and puts that in its place if it is the smaller one. It returns the
// sizes in bytes before and after. Nobody may have the file open. Whenever it is
// killed, one of the two files lies at path, whole, and they hold the same.
//
// It needs room for the copy. Of o it uses Timeout, and Hook with the points
// before:compact and after:compact around the swap. The errors are those of Open.
func Compact(path string, o Options) (before, after int64, err error) {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if err := inspect(path); err != nil {
		return 0, 0, err
	}
	temp := path + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, fmt.Errorf("compact database: %w", err)
	}
	if err := copyTo(temp, path, o); err != nil {
		_ = os.Remove(temp)
		return 0, 0, err
	}
	if before, after, err = sizes(path, temp); err != nil {
		return 0, 0, errors.Join(fmt.Errorf("compact database: %w", err), os.Remove(temp))
	}
	if after >= before {
		if err := os.Remove(temp); err != nil {
			return before, before, fmt.Errorf("compact database: %w", err)
		}
		return before, before, nil
	}
	o.hook("before:compact")
	err = os.Rename(temp, path)
	if err == nil {
		err = SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return before, before, fmt.Errorf("compact database %q: %w", path, withCause(err))
	}
	o.hook("after:compact")
	return before, after, nil
}

func sizes(path, temp string) (before, after int64, err error) {
	old, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	now, err := os.Stat(temp)
	if err != nil {
		return 0, 0, err
	}
	return old.Size(), now.Size(), nil
}

// copyTo makes a whole, synced database at temp that holds what the one at path
// does.
func copyTo(temp, path string, o Options) (err error) {
	from, err := open(path, Options{ReadOnly: true, Timeout: o.Timeout})
	if err != nil {
		return err
	}
	defer func() {
		if from.stuck.Load() != nil {
			release(from.raw)
			return
		}
		err = errors.Join(err, from.db.Close())
	}()
	err = guard(path, func() error {
		_, err := checkTree(from.raw, path) // the copy has a list of free pages of its own
		return err
	})
	if err != nil {
		return err
	}
	// Nothing is synced on the way: until the copy has its name it is nothing.
	to, err := bolt.Open(temp, 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType, Timeout: o.Timeout, NoSync: true, NoGrowSync: true})
	if err != nil {
		return fmt.Errorf("copy database to %q: %w", temp, withCause(err))
	}
	to.AllocSize = os.Getpagesize() // no room for what may come
	err = from.strict(func() error { return bolt.Compact(to, from.db, copyStep) })
	if err == nil {
		err = sameContent(from, to)
	}
	if err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		var damaged *DamagedError
		if errors.As(err, &damaged) {
			return err
		}
		return fmt.Errorf("copy database to %q: %w", temp, withCause(err))
	}
	return nil
}

// sameContent is an error if a copy lacks a key that the original has, or holds
// another value under it. The original goes for good, so it is worth a look.
func sameContent(from *File, to *bolt.DB) error {
	return from.View(func(a *bolt.Tx) error {
		return to.View(func(b *bolt.Tx) error {
			return a.ForEach(func(name []byte, old *bolt.Bucket) error {
				copied := b.Bucket(name)
				if copied == nil || copied.Sequence() != old.Sequence() {
					return fmt.Errorf("the copy of bucket %x is not what it was", name)
				}
				return sameBucket(name, old, copied)
			})
		})
	})
}

func sameBucket(name []byte, old, copied *bolt.Bucket) error {
	a, b := old.Cursor(), copied.Cursor()
	k, v := a.First()
	l, w := b.First()
	for k != nil && string(k) == string(l) && string(v) == string(w) {
		k, v = a.Next()
		l, w = b.Next()
	}
	if k != nil || l != nil {
		return fmt.Errorf("the copy of bucket %x is not what it was at key %x", name, k)
	}
	return nil
}
