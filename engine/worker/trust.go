package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"

	"operon/engine/body"
	"operon/spec"
	"operon/spec/value"
	"operon/storage"
)

// FileDamage is a stored file that is there no more, or not as it was written.
type FileDamage struct{ *storage.Damage }

func fileDamage(format string, args ...any) error {
	return &FileDamage{&storage.Damage{Detail: fmt.Sprintf(format, args...)}}
}

// Unwrap makes it the damage that it is.
func (d *FileDamage) Unwrap() error { return d.Damage }

// trust remembers the files that were found to hold what their digest says, and
// what tells that nobody has written to them since. A file is read once.
type trust struct {
	mu    sync.Mutex
	known map[trusted]value.Digest
}

// trusted is a file as it was when it was read.
type trusted struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

func newTrust() *trust { return &trust{known: map[trusted]value.Digest{}} }

// holds reports whether the file at path holds what the digest says. The time of
// change counts only where nobody but its owner makes links to the file.
func (t *trust) holds(path string, digest value.Digest, linked bool) (bool, error) {
	f, info, err := value.OpenRegular(path)
	if errors.Is(err, value.ErrNotRegular) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	st, ok := info.Sys().(*syscall.Stat_t)
	id := trusted{size: info.Size()}
	if ok {
		id.dev, id.ino, id.mtime = st.Dev, st.Ino, st.Mtim
		if !linked {
			id.ctime = st.Ctim
		}
		t.mu.Lock()
		sum, known := t.known[id]
		t.mu.Unlock()
		if known {
			return sum == digest, nil
		}
	}
	sum, err := value.ReadDigest(f)
	if err != nil {
		return false, err
	}
	if ok {
		t.mu.Lock()
		t.known[id] = sum
		t.mu.Unlock()
	}
	return sum == digest, nil
}

// stored checks a file of the store before a job gets it. One that is not what
// its record says is a *storage.Damage.
func (t *trust) stored(f *value.FileInfo) error {
	if f.Ref {
		return nil // the user's; checked where it is handed over
	}
	ok, err := t.holds(f.Path, f.SHA256, true)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fileDamage("the stored file %s (%s) is missing", f.Name, filepath.Base(f.Path))
	case err != nil:
		return fmt.Errorf("look at stored file %s: %w", f.Name, err)
	case !ok:
		return fileDamage("the stored file %s (%s) is not what was written", f.Name, filepath.Base(f.Path))
	}
	return nil
}

// changed is the failure of a job that ran while a file that it depends on, or
// takes by reference, changed: whatever it returned may be of the one content or
// of the other, and is not kept.
func (w *Worker) changed(t *spec.TaskSpec, args []body.Arg) *body.Failure {
	for _, dep := range t.Deps {
		if f := w.stillHolds(dep.Path, dep.SHA256); f != nil {
			return f
		}
	}
	for _, a := range args {
		items := []value.Value{a.Value}
		if a.Slice != nil {
			items = a.Slice.Items
		}
		for _, v := range items {
			if v.Kind != value.File || !v.File.Ref {
				continue
			}
			if f := w.stillHolds(v.File.Path, v.File.SHA256); f != nil {
				return f
			}
		}
	}
	return nil
}

func (w *Worker) stillHolds(path string, digest value.Digest) *body.Failure {
	full := path
	if !filepath.IsAbs(full) {
		full = filepath.Join(w.cfg.Dir, filepath.FromSlash(path))
	}
	ok, err := w.trust.holds(full, digest, false)
	if err == nil && ok {
		return nil
	}
	return &body.Failure{Kind: body.KindInput, Err: err, Message: path + " changed while the run was under way: what the job returned is not kept; run again"}
}
