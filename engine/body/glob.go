package body

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"operon/spec/value"
)

// glob takes files by reference, or copies of them.
func (s *source) glob(ctx context.Context, a *attempt) ([]value.Value, error) {
	files, err := s.files(ctx)
	if err != nil {
		return nil, err
	}
	items := make([]value.Value, len(files))
	for i, f := range files {
		f.Ref = !s.src.Copy
		if s.src.Copy {
			if f.Path, err = s.copyFile(a, i, f); err != nil {
				return nil, err
			}
		}
		items[i] = value.FromFile(f)
	}
	return items, nil
}

// copyFile puts a copy of the user's file into the job's folder.
func (s *source) copyFile(a *attempt, item int, f value.FileInfo) (string, error) {
	dir, fail := a.dir.sub("out", strconv.Itoa(item))
	if fail != nil {
		return "", fail
	}
	dst := filepath.Join(dir, f.Name)
	in, _, err := value.OpenRegular(resolve(s.cfg.Dir, f.Path))
	if err != nil {
		return "", s.noFile(f.Path, err)
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", machine("copy "+f.Path, err)
	}
	if err = cloneFile(out, in); err != nil {
		_, err = io.Copy(out, in)
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return "", machine("copy "+f.Path, err)
	}
	copied, _, err := value.OpenRegular(dst)
	if err != nil {
		return "", machine("copy "+f.Path, err)
	}
	defer copied.Close()
	sum, err := digestOf(copied)
	if err != nil {
		return "", machine("copy "+f.Path, err)
	}
	if sum != f.SHA256 {
		return "", &Failure{Kind: KindInput, Err: ErrChanged, Message: fmt.Sprintf("the file %s changed while it was copied; run again", f.Path)}
	}
	return dst, nil
}

// files describes what the patterns match, each file once, sorted by path.
func (s *source) files(ctx context.Context) ([]value.FileInfo, error) {
	paths, err := s.matches()
	if err != nil {
		return nil, err
	}
	files := make([]value.FileInfo, len(paths))
	for i, p := range paths {
		if f := cancelled(ctx); f != nil {
			return nil, f
		}
		if err := checkName(filepath.Base(p)); err != nil {
			return nil, err
		}
		info, err := s.cfg.files.describe(resolve(s.cfg.Dir, p))
		if err != nil {
			return nil, s.noFile(p, err)
		}
		info.Path = p
		files[i] = info
	}
	return files, nil
}

// matches lists the files that the patterns match, relative to the pipeline
// file's folder (an absolute pattern gives absolute paths). Hidden files and
// folders, the state directory among them, are matched only by a pattern that
// names the dot. ** does not step through links to folders: they may form a
// ring.
func (s *source) matches() ([]string, error) {
	var paths []string
	for _, pattern := range s.src.Globs {
		base, rest := doublestar.SplitPattern(path.Clean(pattern))
		options := []doublestar.GlobOption{doublestar.WithFilesOnly(), doublestar.WithNoHidden(), doublestar.WithFailOnIOErrors()}
		if strings.Contains(rest, "**") {
			options = append(options, doublestar.WithNoFollow())
		}
		dir := resolve(s.cfg.Dir, base)
		found, err := doublestar.Glob(os.DirFS(dir), rest, options...)
		if err != nil {
			return nil, &Failure{Kind: KindInput, Err: err, Message: fmt.Sprintf("glob %s: %v", pattern, err)}
		}
		// Without following, links to folders pass for files.
		found = slices.DeleteFunc(found, func(f string) bool {
			info, err := os.Stat(filepath.Join(dir, f))
			return err == nil && info.IsDir()
		})
		if len(found) == 0 && !strings.ContainsAny(pattern, `*?[{\`) {
			return nil, s.noFile(pattern, fs.ErrNotExist)
		}
		for _, f := range found {
			paths = append(paths, path.Join(base, f))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}
