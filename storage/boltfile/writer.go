package boltfile

import (
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Commit is something to write.
type Commit struct {
	// Apply changes the database. It is called once, by the writer; its error
	// fails the whole transaction. nil: nothing to change.
	Apply func(*bolt.Tx) error
	// Done, if not nil, is called by the writer after the transaction is
	// durable, or with the error that it is not. It must not wait for a commit.
	Done func(err error)
	// Urgent says that somebody waits.
	Urgent bool
}

// Submit queues a commit and returns at once. What is submitted by one
// goroutine is applied in that order. After Close, and on a file opened for
// reading, Done gets its error before Submit returns.
func (f *File) Submit(c Commit) {
	if err := f.enqueue(c); err != nil && c.Done != nil {
		c.Done(err)
	}
}

func (f *File) enqueue(c Commit) error {
	if f.opts.ReadOnly {
		return fmt.Errorf("commit to %q: %w", f.path, berrors.ErrDatabaseReadOnly)
	}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return fmt.Errorf("commit to %q: %w", f.path, ErrClosed)
	}
	f.queue = append(f.queue, c)
	f.urgent = f.urgent || c.Urgent
	f.mu.Unlock()
	f.signal()
	return nil
}

func (f *File) signal() {
	select {
	case f.wake <- struct{}{}:
	default: // the writer will look anyway
	}
}

// Flush waits until everything submitted so far is durable, or ctx ends. It
// returns what ended writing, if anything did.
func (f *File) Flush(ctx context.Context) error {
	if f.opts.ReadOnly {
		return nil
	}
	done := make(chan error, 1)
	f.Submit(Commit{Done: func(err error) { done <- err }, Urgent: true})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Failed is what ended writing, nil while nothing did.
func (f *File) Failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// write is the writer: take what has queued up, commit it, say so.
func (f *File) write() {
	defer close(f.stopped)
	var last time.Time
	for {
		batch := f.take(last)
		if batch == nil {
			return
		}
		err := f.commit(batch)
		last = time.Now()
		for _, c := range batch {
			if c.Done != nil {
				c.Done(err)
			}
		}
	}
}

// take waits until there is something to commit and it is time to, and returns
// nil when nothing more will come. last is when the last commit ended.
func (f *File) take(last time.Time) []Commit {
	var later <-chan time.Time
	for {
		f.mu.Lock()
		wait := f.opts.Interval - time.Since(last)
		switch {
		case len(f.queue) == 0 && f.closed:
			f.mu.Unlock()
			return nil
		case len(f.queue) > 0 && (f.urgent || f.closed || wait <= 0):
			batch := f.queue
			f.queue, f.urgent = nil, false
			f.mu.Unlock()
			return batch
		case len(f.queue) > 0 && later == nil:
			later = time.After(wait)
		}
		f.mu.Unlock()
		select {
		case <-f.wake:
		case <-later:
			later = nil
		}
	}
}

// commit writes a batch in one transaction. Its error ends writing.
func (f *File) commit(batch []Commit) error {
	if err := f.Failed(); err != nil {
		return fmt.Errorf("nothing is written any more: %w", err)
	}
	if !changes(batch) {
		return nil
	}
	f.opts.hook("before:" + f.opts.Name)
	if err := f.transact(batch); err != nil {
		err = fmt.Errorf("commit to %q: %w", f.path, withCause(err))
		f.mu.Lock()
		f.failed = err
		f.mu.Unlock()
		return err
	}
	f.opts.hook("after:" + f.opts.Name)
	return nil
}

func changes(batch []Commit) bool {
	for _, c := range batch {
		if c.Apply != nil {
			return true
		}
	}
	return false
}

func (f *File) transact(batch []Commit) error {
	tx, err := f.begin(true)
	if err != nil {
		return err
	}
	defer f.rollback(tx) // does nothing after a commit
	f.db.AllocSize = growth(tx.Size())
	err = guard(f.path, func() error {
		for _, c := range batch {
			if c.Apply == nil {
				continue
			}
			if err := c.Apply(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, berrors.ErrIncompatibleValue) {
		// Buckets lie at the top and values below: bbolt met one for the other.
		return &DamagedError{Path: f.path, Detail: "a page has a value in the place of a bucket, or a bucket in that of a value"}
	}
	if err != nil {
		return err
	}
	return f.strict(tx.Commit)
}

// growth is by how much a file of a size is to grow when it must: little while
// it is small, so that small states stay small on disk, and an eighth later.
func growth(size int64) int {
	return int(min(max(size/8, 64<<10), 16<<20))
}

// DeleteInSteps deletes a top-level bucket, at most step keys a transaction, so
// that neither other commits nor memory suffer. visit, if not nil, is called in
// the same transaction with each key and value before they go; they must not be
// kept. done is called by the writer once the bucket is gone, or with an error:
// ErrClosed if the file was closed on the way, and part of the bucket is left.
func (f *File) DeleteInSteps(bucket []byte, step int, visit func(tx *bolt.Tx, k, v []byte) error, done func(err error)) {
	more := false
	apply := func(tx *bolt.Tx) (err error) {
		more, err = deleteStep(tx, bucket, step, visit)
		return err
	}
	f.Submit(Commit{Apply: apply, Done: func(err error) {
		if err != nil || !more {
			done(err)
			return
		}
		f.DeleteInSteps(bucket, step, visit, done)
	}})
}

// deleteStep deletes up to step keys, and the bucket with the last of them.
func deleteStep(tx *bolt.Tx, bucket []byte, step int, visit func(tx *bolt.Tx, k, v []byte) error) (more bool, err error) {
	b := tx.Bucket(bucket)
	if b == nil {
		return false, nil
	}
	keys := make([][]byte, 0, min(step, 1024))
	c := b.Cursor()
	k, v := c.First()
	for ; k != nil && len(keys) < step; k, v = c.Next() {
		if visit != nil {
			if err := visit(tx, k, v); err != nil {
				return false, err
			}
		}
		keys = append(keys, k)
	}
	if k == nil {
		return false, tx.DeleteBucket(bucket)
	}
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return false, fmt.Errorf("delete key %x: %w", k, err)
		}
	}
	return true, nil
}

// IsClosed reports whether an error says that the file was closed before.
func IsClosed(err error) bool { return errors.Is(err, ErrClosed) }
