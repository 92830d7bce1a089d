package body

import (
	"os"
	"path/filepath"

	"operon/engine/body/internal/proc"
)

// folder is a job's own folder, made when something is to lie in it.
type folder struct {
	path string
	made bool
}

// sub makes a folder in it and returns its path.
func (f *folder) sub(elem ...string) (string, *Failure) {
	if f.path == "" {
		return "", failf(KindInternal, "the job has no folder for its files (this is a bug)")
	}
	f.made = true
	path := filepath.Join(append([]string{f.path}, elem...)...)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", machine("make the job's folder", err)
	}
	return path, nil
}

// remove removes it with all that lies in it.
func (f *folder) remove() error {
	if !f.made {
		return nil
	}
	f.made = false
	return proc.RemoveTree(f.path)
}
