package meta

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"operon/storage/boltfile"
)

// Format is the version of the format of meta.db that this package writes.
const Format = 1

// FileName is the name of the database in a state directory.
const FileName = "meta.db"

// Options say how to open a Store. The zero Options open one for writing.
type Options struct {
	// ReadOnly opens what is there and writes nothing.
	ReadOnly bool
	// Hook is called by the writer at each commit point, named meta; see
	// boltfile.Options.
	Hook func(point string)
	// Interval is the time between two commits while nobody waits; see
	// boltfile.Options.
	Interval time.Duration
}

// Store is the metadata of a state directory. Its methods may be called by any
// goroutine.
type Store struct {
	file *boltfile.File
}

// Open opens the metadata of a state directory, and makes it if there is none
// unless it is to be read only. It does not take the directory's lock. What is
// no database is a *boltfile.DamagedError, another format a *NewerError or an
// *OlderError, other damage a *Damage; none at all, opened for reading,
// fs.ErrNotExist.
func Open(dir string, o Options) (*Store, error) {
	if !o.ReadOnly {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("open metadata: %w", err)
		}
	}
	file, err := boltfile.Open(filepath.Join(dir, FileName), boltfile.Options{
		ReadOnly: o.ReadOnly,
		Hook:     o.Hook,
		Name:     "meta",
		Interval: o.Interval,
		Init:     initialize,
	})
	if err != nil {
		return nil, err
	}
	if err := file.View(checkFormat); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Store{file: file}, nil
}

// initialize fills a new meta.db.
func initialize(tx *bolt.Tx) error {
	for _, name := range []string{stateBucket, dataflowsBucket, historyBucket} {
		if _, err := tx.CreateBucket([]byte(name)); err != nil {
			return fmt.Errorf("create bucket %q: %w", name, err)
		}
	}
	if err := putNumber(tx, formatKey, Format); err != nil {
		return err
	}
	if err := putNumber(tx, bucketsKey, 3); err != nil {
		return err
	}
	return putNumber(tx, appliedKey, 0)
}

// countBuckets is how many buckets there are.
func countBuckets(tx *bolt.Tx) (n uint64) {
	c := tx.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		n++
	}
	return n
}

func checkFormat(tx *bolt.Tx) error {
	format, err := number(tx, formatKey)
	switch {
	case err != nil:
		return err
	case format > Format:
		return &NewerError{Have: int(format), Know: Format}
	case format < Format:
		return &OlderError{Have: int(format), Know: Format}
	}
	for _, name := range []string{dataflowsBucket, historyBucket} {
		if tx.Bucket([]byte(name)) == nil {
			return &Damage{Detail: fmt.Sprintf("bucket %q is missing", name)}
		}
	}
	// A damaged page can hide buckets without making any of them wrong.
	buckets, err := number(tx, bucketsKey)
	if err == nil && buckets != countBuckets(tx) {
		err = &Damage{Detail: fmt.Sprintf("there are %d buckets of %d", countBuckets(tx), buckets)}
	}
	return err
}

func putNumber(tx *bolt.Tx, key string, n uint64) error {
	return put(tx.Bucket([]byte(stateBucket)), []byte(stateBucket), []byte(key), binary.BigEndian.AppendUint64(nil, n))
}

func number(tx *bolt.Tx, key string) (uint64, error) {
	b := tx.Bucket([]byte(stateBucket))
	if b == nil {
		return 0, &Damage{Detail: "this is no metadata of ours: there is no state"}
	}
	body, ok := boltfile.Unseal([]byte(stateBucket), []byte(key), b.Get([]byte(key)))
	if !ok || len(body) != 8 {
		return 0, &Damage{Detail: fmt.Sprintf("state %q cannot be read", key)}
	}
	return binary.BigEndian.Uint64(body), nil
}

// put seals and puts a value.
func put(b *bolt.Bucket, bucket, key, body []byte) error {
	if err := b.Put(key, boltfile.Seal(bucket, key, body)); err != nil {
		return fmt.Errorf("put %q in %q: %w", key, bucket, err)
	}
	return nil
}

// Submit gives a batch to the writer and returns at once.
func (s *Store) Submit(b *Batch) {
	s.file.Submit(boltfile.Commit{Apply: b.apply, Done: b.Done, Urgent: b.Urgent})
}

// Flush waits until everything submitted so far is durable, or ctx ends. It
// returns what ended writing, if anything did.
func (s *Store) Flush(ctx context.Context) error { return s.file.Flush(ctx) }

// Failed is what ended writing, nil while nothing did.
func (s *Store) Failed() error { return s.file.Failed() }

// FreeListDamage is what is wrong with the list of free pages of the file; see
// boltfile.File.
func (s *Store) FreeListDamage() *boltfile.DamagedError { return s.file.FreeListDamage() }

// Close waits until everything submitted is durable and closes the store.
func (s *Store) Close() error { return s.file.Close() }

// Remove deletes the metadata file of a state directory, if there is one. What
// is not a file it leaves, and returns an error.
func Remove(dir string) error {
	path := filepath.Join(dir, FileName)
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && info.IsDir() {
		return fmt.Errorf("remove metadata: %q is a folder", path)
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err == nil {
		err = boltfile.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("remove metadata: %w", err)
	}
	return nil
}

// MoveAside gives what lies in the place of the metadata file another name in
// the same directory, whatever it is, and returns that.
func MoveAside(dir string) (string, error) {
	path := filepath.Join(dir, FileName)
	for n := 1; ; n++ {
		to := fmt.Sprintf("%s.damaged-%d", path, n)
		if _, err := os.Lstat(to); err == nil {
			continue
		} else if !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("move metadata aside: %w", err)
		}
		if err := os.Rename(path, to); err != nil {
			return "", fmt.Errorf("move metadata aside: %w", err)
		}
		return to, boltfile.SyncDir(dir)
	}
}
