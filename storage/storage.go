package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"operon/spec/value"
	"operon/storage/boltfile"
)

// Format is the version of the format of data.db that this package writes.
const Format = 1

// DataFile is the name of the database in a state directory, and BlobsDir that
// of the folder of blobs.
const (
	DataFile = "data.db"
	BlobsDir = "blobs"
)

// Options say how to open a Store. The zero Options open one for writing.
type Options struct {
	// ReadOnly opens what is there and writes nothing, not even beside it.
	ReadOnly bool
	// Hook is called by the writer at each commit point; see boltfile.Options.
	// Points are named data, blobs (names of new blobs) and drop (removal of
	// blobs that nothing names).
	Hook func(point string)
	// Logger gets warnings; nil: nobody does.
	Logger *slog.Logger
	// Interval is the time between two commits while nobody waits; see
	// boltfile.Options.
	Interval time.Duration
	// Scratch is a folder whose files belong to jobs that have ended, so that
	// Prepare may move them instead of copying. "": the state directory.
	Scratch string
}

// Store is the data of a state directory. Its methods may be called by any
// goroutine.
type Store struct {
	dir   string
	opts  Options
	log   *slog.Logger
	file  *boltfile.File
	blobs blobs

	pending overlay
	writer  txWriter // the writer goroutine's own

	submit  sync.Mutex // held from numbering a batch to queueing it
	number  uint64     // of the last batch submitted; guarded by submit
	next    atomic.Uint64
	durable atomic.Uint64 // number of the last durable batch
	drops   atomic.Int64  // instances being dropped in steps
}

// Open opens the data of a state directory, and makes what is missing unless it
// is to be read only. It does not take the directory's lock
// (boltfile.AcquireLock). A damaged data.db is a *boltfile.DamagedError, one of
// a later version a *NewerError, none at all, opened for reading,
// fs.ErrNotExist.
func Open(dir string, o Options) (*Store, error) {
	s := &Store{dir: dir, opts: o, log: o.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.opts.Scratch == "" {
		s.opts.Scratch = dir
	}
	s.blobs.dir = filepath.Join(dir, BlobsDir)
	if !o.ReadOnly {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("open data: %w", err)
		}
		if err := s.blobs.open(); err != nil {
			return nil, err
		}
	}
	file, err := boltfile.Open(filepath.Join(dir, DataFile), boltfile.Options{
		ReadOnly: o.ReadOnly,
		Hook:     o.Hook,
		Name:     "data",
		Interval: o.Interval,
		Init:     initialize,
	})
	if err != nil {
		return nil, err
	}
	s.file = file
	if err := file.View(s.load); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	s.writer.freed = map[blobID]struct{}{}
	s.writer.gone = s.pending.gone.clone()
	if !o.ReadOnly {
		s.resumeDrops()
	}
	return s, nil
}

// initialize fills a new data.db.
func initialize(tx *bolt.Tx) error {
	for _, name := range []string{stateBucket, headersBucket, dropsBucket, commitsBucket, blobsBucket} {
		if _, err := tx.CreateBucket([]byte(name)); err != nil {
			return fmt.Errorf("create bucket %q: %w", name, err)
		}
	}
	b := tx.Bucket([]byte(stateBucket))
	for key, n := range map[string]uint64{formatKey: Format, nextKey: 1, commitKey: 0, bucketsKey: 5} {
		if err := b.Put([]byte(key), sealNumber(key, n)); err != nil {
			return fmt.Errorf("put %q: %w", key, err)
		}
	}
	return nil
}

func sealNumber(key string, n uint64) []byte {
	return boltfile.Seal([]byte(stateBucket), []byte(key), binary.BigEndian.AppendUint64(nil, n))
}

// number reads a number of the state bucket.
func number(tx *bolt.Tx, key string) (uint64, error) {
	b := tx.Bucket([]byte(stateBucket))
	if b == nil {
		return 0, &Damage{Detail: "this is no data of ours: there is no state"}
	}
	body, ok := boltfile.Unseal([]byte(stateBucket), []byte(key), b.Get([]byte(key)))
	if !ok || len(body) != 8 {
		return 0, &Damage{Detail: fmt.Sprintf("state %q cannot be read", key)}
	}
	return binary.BigEndian.Uint64(body), nil
}

// load reads what the store keeps in memory.
func (s *Store) load(tx *bolt.Tx) error {
	format, err := number(tx, formatKey)
	if err != nil {
		return err
	}
	if format != Format {
		return &NewerError{Have: int(format), Know: Format}
	}
	for _, name := range []string{headersBucket, dropsBucket, commitsBucket, blobsBucket} {
		if tx.Bucket([]byte(name)) == nil {
			return &Damage{Detail: fmt.Sprintf("bucket %q is missing", name)}
		}
	}
	next, err := number(tx, nextKey)
	if err != nil {
		return err
	}
	commit, err := number(tx, commitKey)
	if err != nil {
		return err
	}
	s.next.Store(next)
	s.number = commit
	s.durable.Store(commit)
	s.pending.load(tx)
	return nil
}

// AllocateInstance is a number for a new instance, never given before. It is
// remembered once a header with it is durable.
func (s *Store) AllocateInstance() uint64 { return s.next.Add(1) - 1 }

// LastCommit is the number of the last batch that is durable.
func (s *Store) LastCommit() uint64 { return s.durable.Load() }

// Flush waits until everything submitted so far is durable and what was to be
// dropped is gone, or ctx ends. It returns what ended writing, if anything did.
func (s *Store) Flush(ctx context.Context) error {
	for {
		if err := s.file.Flush(ctx); err != nil {
			return err
		}
		if s.drops.Load() == 0 {
			return nil
		}
	}
}

// Failed is what ended writing (a full disk, for one), nil while nothing did.
// What was durable by then stays; open the store anew to write again.
func (s *Store) Failed() error { return s.file.Failed() }

// FreeListDamage is what is wrong with the list of free pages of data.db; see
// boltfile.File.
func (s *Store) FreeListDamage() *boltfile.DamagedError { return s.file.FreeListDamage() }

// Close waits until everything submitted is durable and closes the store. What
// is dropped in steps goes on being so when the store is opened for writing
// again; the blobs that the steps so far have freed go now, since only this
// process knows of them.
func (s *Store) Close() error {
	if err := s.file.Close(); err != nil {
		return err // what the last transaction freed may still be named
	}
	if !s.file.ReadOnly() {
		s.removeFreed() // the writer has ended: its list is ours
	}
	return nil
}

// blobExists is the size of a blob; it is *Damage that there is none.
func (s *Store) blobExists(id blobID) (size int64, err error) {
	info, err := os.Stat(s.blobs.path(id))
	if notThere(err) {
		return 0, missing(id)
	}
	if err != nil {
		return 0, fmt.Errorf("look for blob: %w", err)
	}
	if !info.Mode().IsRegular() {
		return 0, notWritten(id)
	}
	return info.Size(), nil
}

// openBlob opens a blob, and says what it is; it is *Damage that there is none.
func (s *Store) openBlob(id blobID) (*os.File, fs.FileInfo, error) {
	f, info, err := value.OpenRegular(s.blobs.path(id))
	switch {
	case notThere(err):
		return nil, nil, missing(id)
	case errors.Is(err, value.ErrNotRegular):
		return nil, nil, notWritten(id)
	case err != nil:
		return nil, nil, fmt.Errorf("read blob: %w", err)
	}
	return f, info, nil
}

// missing is that nothing lies in a blob's place, notWritten that something else
// does.
func missing(id blobID) *Damage {
	return &Damage{Kind: MissingBlob, Detail: fmt.Sprintf("blob %s is missing", id.name())}
}

func notWritten(id blobID) *Damage {
	return &Damage{Kind: DamagedBlob, Detail: fmt.Sprintf("blob %s is not what was written", id.name())}
}

// notThere reports whether an error says that there is no such blob, or no folder of
// blobs.
func notThere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func (s *Store) hook(point string) {
	if s.opts.Hook != nil {
		s.opts.Hook(point)
	}
}
