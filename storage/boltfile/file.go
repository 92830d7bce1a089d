package boltfile

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Options say how to open a File. The zero Options open one for writing.
type Options struct {
	// ReadOnly opens an existing file beside other readers and writes nothing.
	ReadOnly bool
	// Timeout is how long to wait for another process that has the file open.
	// 0: one second.
	Timeout time.Duration
	// Interval is the time to leave between two commits while nobody waits.
	// 0: 10 ms; negative: none.
	Interval time.Duration
	// Hook is called by the writer at each commit point, with "before:" or
	// "after:" and Name ("create" when the file is made). Tests take the file
	// as it then is for what a crash would leave.
	Hook func(point string)
	// Name is the name of the commit point.
	Name string
	// Init fills a file that is newly made, in its first transaction.
	Init func(*bolt.Tx) error
}

// File is an open database file. Its methods may be called by any goroutine.
type File struct {
	path string
	db   *bolt.DB
	raw  *os.File // db's own handle, to be closed where db can't
	opts Options

	// free is what is wrong with the list of free pages, of a file that is only
	// read.
	free *DamagedError

	// stuck is the damage after which bbolt's locks may be held for ever.
	stuck atomic.Pointer[DamagedError]

	mu     sync.Mutex // guards what follows
	queue  []Commit
	urgent bool  // something in queue is
	closed bool  // nothing more comes
	failed error // what ended writing

	wake    chan struct{} // capacity 1: queue, urgent or closed changed
	stopped chan struct{} // closed when the writer has ended
}

// Path is where the file lies.
func (f *File) Path() string { return f.path }

// ReadOnly reports whether the file was opened for reading only.
func (f *File) ReadOnly() bool { return f.opts.ReadOnly }

// FreeListDamage is what is wrong with the list of free pages, nil if nothing is.
// Only a file opened for reading can have such damage: Open refuses it to others.
func (f *File) FreeListDamage() *DamagedError { return f.free }

// View calls fn in a read transaction. Everything that fn gets from it ends
// with it. It returns fn's error, or a *DamagedError.
func (f *File) View(fn func(*bolt.Tx) error) error {
	tx, err := f.begin(false)
	if err != nil {
		return err
	}
	defer f.rollback(tx)
	return guard(f.path, func() error { return fn(tx) })
}

// begin starts a transaction. A panic in there leaves locks behind.
func (f *File) begin(writable bool) (tx *bolt.Tx, err error) {
	if d := f.stuck.Load(); d != nil {
		return nil, d
	}
	err = f.strict(func() error {
		tx, err = f.db.Begin(writable)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("begin transaction of %q: %w", f.path, err)
	}
	return tx, nil
}

// rollback ends a transaction, if it has not ended yet.
func (f *File) rollback(tx *bolt.Tx) {
	// The only error is that the transaction has ended.
	_ = f.strict(tx.Rollback)
}

// strict is guard for what bbolt does while it holds locks: after damage in
// there, nothing may ask for them again.
func (f *File) strict(fn func() error) error {
	err := guard(f.path, fn)
	if d, ok := err.(*DamagedError); ok {
		f.stuck.CompareAndSwap(nil, d)
	}
	return err
}

// Size is the number of bytes that the database fills, which may be less than
// the file has.
func (f *File) Size() (size int64, err error) {
	err = f.View(func(tx *bolt.Tx) error {
		size = tx.Size()
		return nil
	})
	return size, err
}

// Check reads the whole file and returns the first thing that is wrong with
// its structure, as a *DamagedError. Nothing may be written meanwhile.
func (f *File) Check() error {
	return f.View(func(tx *bolt.Tx) error {
		var first error
		for err := range tx.Check() {
			if first == nil {
				first = &DamagedError{Path: f.path, Detail: err.Error()}
			}
		}
		return first
	})
}

// CheckPages reads every page as the last commit left it, and returns a
// *DamagedError if one makes no sense, is led to twice, or has keys where a
// look-up does not find them: what writes to such a file spoils more. The file is
// one opened for writing.
func (f *File) CheckPages() error {
	done := make(chan error, 1)
	f.Submit(Commit{Urgent: true, Done: func(err error) { // by the writer: nothing is written meanwhile
		if err == nil {
			err = checkPages(f.raw, f.path)
		}
		done <- err
	}})
	return <-done
}

// Close waits until everything submitted is committed and all readers have
// ended, and closes the file. It returns what ended writing, if anything did.
func (f *File) Close() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.signal()
	<-f.stopped

	f.mu.Lock()
	failed := f.failed
	f.mu.Unlock()
	if f.stuck.Load() != nil {
		release(f.raw) // whatever locks of its own bbolt still holds
		return failed
	}
	if err := f.db.Close(); err != nil {
		return fmt.Errorf("close %q: %w", f.path, err)
	}
	return failed
}
