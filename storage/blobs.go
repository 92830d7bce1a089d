package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"operon/spec/value"
	"operon/storage/boltfile"
)

// blobID names a blob: the digest of its bytes, and whether it may be executed,
// since links to one file share their mode.
type blobID struct {
	digest value.Digest
	exec   bool
}

const execSuffix = ".x"

func (id blobID) name() string {
	if id.exec {
		return id.digest.String() + execSuffix
	}
	return id.digest.String()
}

func (id blobID) mode() os.FileMode {
	if id.exec {
		return 0o555
	}
	return 0o444
}

func (id blobID) key() []byte {
	exec := byte(0)
	if id.exec {
		exec = 1
	}
	return append(id.digest[:], exec)
}

func blobOfKey(key []byte) (id blobID, ok bool) {
	n := copy(id.digest[:], key)
	if len(key) != n+1 || n != len(id.digest) || key[n] > 1 {
		return id, false
	}
	id.exec = key[n] == 1
	return id, true
}

func blobOfName(name string) (id blobID, ok bool) {
	hex, exec := strings.CutSuffix(name, execSuffix)
	digest, err := value.ParseDigest(hex)
	return blobID{digest: digest, exec: exec}, err == nil
}

// blobs is the folder of blobs. A blob is pinned while an output that is not
// yet committed names it.
type blobs struct {
	dir     string
	renames atomic.Uint64 // names made so far

	mu   sync.Mutex
	pins map[blobID]int

	synced uint64 // names that are durable; the writer's own
}

func (b *blobs) path(id blobID) string { return filepath.Join(b.dir, id.name()) }

func (b *blobs) temp() string { return filepath.Join(b.dir, "tmp") }

// open makes the folders and drops what a crash left unfinished.
func (b *blobs) open() error {
	b.pins = map[blobID]int{}
	if info, err := os.Stat(b.dir); err == nil && !info.IsDir() {
		if err := os.Rename(b.dir, b.dir+".damaged"); err != nil { // no blob is in there
			return fmt.Errorf("open blobs: %w", err)
		}
	}
	if err := os.RemoveAll(b.temp()); err != nil {
		return fmt.Errorf("open blobs: %w", err)
	}
	if err := os.MkdirAll(b.temp(), 0o700); err != nil {
		return fmt.Errorf("open blobs: %w", err)
	}
	return boltfile.SyncDir(filepath.Dir(b.dir))
}

func (b *blobs) pin(ids []blobID) {
	if len(ids) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		b.pins[id]++
	}
}

func (b *blobs) unpin(ids []blobID) {
	if len(ids) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		if b.pins[id]--; b.pins[id] == 0 {
			delete(b.pins, id)
		}
	}
}

// remove deletes a blob that no record names, and reports false if it is
// pinned. It holds the lock meanwhile: who pins a blob afterwards makes it anew.
func (b *blobs) remove(id blobID) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pins[id] > 0 {
		return false, nil
	}
	return true, os.RemoveAll(b.path(id))
}

// publish gives a finished, synced file its name. What lies there is replaced:
// it has the same bytes, or is damaged.
func (b *blobs) publish(from string, id blobID) error {
	err := os.Rename(from, b.path(id))
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.EISDIR) {
		if err = os.RemoveAll(b.path(id)); err == nil { // somebody put a folder there
			err = os.Rename(from, b.path(id))
		}
	}
	if err != nil {
		return err
	}
	b.renames.Add(1)
	return nil
}

// sync makes all names durable that an output counted on when it was prepared.
// Only the writer calls it.
func (b *blobs) sync(renamed uint64, hook func(string)) error {
	if renamed <= b.synced {
		return nil
	}
	upTo := b.renames.Load()
	hook("before:blobs")
	if err := boltfile.SyncDir(b.dir); err != nil {
		return err
	}
	hook("after:blobs")
	b.synced = upTo
	return nil
}
