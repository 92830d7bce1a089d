package engine

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"

	"github.com/bmatcuk/doublestar/v4"

	"operon/meta"
	"operon/spec"
	"operon/spec/value"
)

// LoadFile reads and compiles a pipeline file, with the digests of the files
// that its tasks depend on. What is wrong with the file is a spec.Errors.
func LoadFile(path string, o LoadOptions) (*spec.Pipeline, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the pipeline file: %w", err)
	}
	return LoadSource(src, path, o)
}

// LoadSource is LoadFile of a file's text as somebody read it: what lies at path
// may have changed since. Files that the pipeline names are looked for beside it.
func LoadSource(src []byte, path string, o LoadOptions) (*spec.Pipeline, error) {
	so := spec.Options{File: path, Params: o.Params, LookupEnv: o.LookupEnv, Digests: fileDigests{filepath.Dir(path)}}
	if o.ParamsFile != "" {
		text, err := os.ReadFile(o.ParamsFile)
		if err != nil {
			return nil, fmt.Errorf("read the params file: %w", err)
		}
		if so.ParamsFile, err = spec.ParseParams(text, o.ParamsFile); err != nil {
			return nil, err
		}
	}
	if o.Remember && len(o.Params) == 0 && o.ParamsFile == "" {
		so.Params = remembered(src, path, o)
	}
	return spec.Load(src, so)
}

// remembered are the params of a pipeline's last run, if it did not get to its end:
// what was asked for is part of the run.
func remembered(src []byte, path string, o LoadOptions) map[string]string {
	// Looking only: a param that must be given may be missing here.
	p, err := spec.Load(src, spec.Options{File: path})
	if err != nil {
		return nil // Load will say what is wrong
	}
	last := o.Last
	if last == nil {
		dir, err := StateDirOf(p, Options{Dir: filepath.Dir(path), State: o.State})
		if err != nil {
			return nil
		}
		last = func(name string) map[string]string { return lastParams(dir, name) }
	}
	asked := last(p.Name)
	for name := range asked {
		if p.Param(name) == nil {
			delete(asked, name) // the file has it no more
		}
	}
	return asked
}

// lastParams are the params of the run in a state directory, if it is of that
// pipeline and did not get to its end.
func lastParams(dir, pipeline string) map[string]string {
	s, err := openFiles(dir)
	if err != nil {
		return nil // nothing there, or New will say what is wrong with it
	}
	defer s.Close()
	if s.foot.Pipeline != pipeline {
		return nil
	}
	return openParams(s.foot)
}

// openParams are the params that a run was given, if it is not complete.
func openParams(foot meta.Footprint) map[string]string {
	if RunState(foot.State) == StateComplete {
		return nil
	}
	return decodeAsked(foot.Asked).Params
}

// fileDigests finds the files that a task depends on, below a folder.
type fileDigests struct{ dir string }

// Digest is spec.Digests': the files that a path or glob names, sorted by path.
// A pattern that names nothing is an error.
func (d fileDigests) Digest(pattern string) ([]spec.Dep, error) {
	matches, err := doublestar.FilepathGlob(filepath.Join(escapeGlob(d.dir), pattern), doublestar.WithFilesOnly())
	if err != nil {
		return nil, fmt.Errorf("deps %q: %w", pattern, err)
	}
	if len(matches) == 0 {
		return nil, fmt.Errorf("deps %q: %w", pattern, fs.ErrNotExist)
	}
	var out []spec.Dep
	for _, m := range matches {
		rel, err := filepath.Rel(d.dir, m)
		if err != nil {
			return nil, fmt.Errorf("deps %q: %w", pattern, err)
		}
		sum, err := fileDigest(m)
		if err != nil {
			return nil, fmt.Errorf("deps %q: %w", pattern, err)
		}
		out = append(out, spec.Dep{Path: filepath.ToSlash(rel), SHA256: sum})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out, nil
}

// ReadFile is spec.Files'.
func (d fileDigests) ReadFile(path string) ([]byte, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(d.dir, path)
	}
	return os.ReadFile(path)
}

// escapeGlob makes of a folder's name a pattern that names just it.
func escapeGlob(dir string) string {
	var out []byte
	for i := range len(dir) {
		switch dir[i] {
		case '*', '?', '[', ']', '{', '}', '\\':
			out = append(out, '\\')
		}
		out = append(out, dir[i])
	}
	return string(out)
}

func fileDigest(path string) (d value.Digest, err error) {
	f, _, err := value.OpenRegular(path)
	if err != nil {
		return d, err
	}
	defer f.Close()
	return value.ReadDigest(f)
}
