package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
)

// Snapshots copies a state directory at commit points.
type Snapshots struct {
	dir, into string
	durable   func() uint64

	mu  sync.Mutex
	all []Snapshot
	err error
}

// Snapshot is what a crash at a commit point would leave.
type Snapshot struct {
	Point   string
	Dir     string // a copy of the state directory
	Durable uint64 // what had been said to be durable by then
}

// NewSnapshots copies dir into folders of into. durable is asked at each point.
func NewSnapshots(dir, into string, durable func() uint64) *Snapshots {
	return &Snapshots{dir: dir, into: into, durable: durable}
}

// Hook is to be given to the stores.
func (s *Snapshots) Hook(point string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := filepath.Join(s.into, fmt.Sprint(len(s.all)))
	if err := CopyDir(s.dir, to); err != nil {
		s.err = errors.Join(s.err, err)
		return
	}
	s.all = append(s.all, Snapshot{Point: point, Dir: to, Durable: s.durable()})
}

// All are the snapshots so far.
func (s *Snapshots) All() ([]Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all, s.err
}

// CopyDir copies the files of a state directory. Files that go while it looks
// are left out.
func CopyDir(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), content, 0o600)
	})
}

// Torn makes what a lost machine may leave of a database file that was being
// written: of the pages in which before and after differ, any that are not the
// first two are taken from one or the other, and the first two from before.
func Torn(before, after []byte, random *rand.Rand) []byte {
	page := os.Getpagesize()
	torn := bytes.Clone(after)
	copy(torn, before[:2*page])
	for at := 2 * page; at+page <= len(before); at += page {
		if random.IntN(2) == 0 {
			copy(torn[at:at+page], before[at:])
		}
	}
	if random.IntN(2) == 0 && len(after) > len(before) {
		torn = torn[:len(before)] // the new length was lost too
	}
	return torn
}
