package body

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"operon/spec"
	"operon/spec/value"
)

// makeOut makes what $out stands for: a folder for files, or the path of a file
// in a folder of its own.
func (p *process) makeOut(a *attempt) error {
	if !p.toFile {
		return nil
	}
	dir, f := a.dir.sub("out")
	if f != nil {
		return f
	}
	a.out = dir
	if p.task.Format == spec.FormatFiles {
		return nil
	}
	name, err := a.fileName()
	if err != nil {
		return err
	}
	a.out = filepath.Join(dir, name)
	return nil
}

// fileName is the name of the file of format file.
func (a *attempt) fileName() (string, error) {
	if len(a.task.File) == 0 {
		return spec.SnakeCase(a.task.Out.Name), nil
	}
	name, err := a.task.File.Expand(a.nameText)
	if err != nil {
		return "", err
	}
	return safeName(name), nil
}

// nameText is what a name stands for in a file's name: as elsewhere, but of a
// file its own name. Its path differs from run to run, and the name is part of
// what is made.
func (a *attempt) nameText(name string) (string, error) {
	n, ok := a.names[name]
	if !ok || n.arg < 0 {
		return a.text(name)
	}
	arg := a.job.Args[n.arg]
	items := []value.Value{arg.Value}
	if arg.Slice != nil {
		items = arg.Slice.Items
	}
	var texts []string
	for i, v := range items {
		if v.Kind == value.File {
			texts = append(texts, v.File.Name)
			continue
		}
		text, err := a.itemText(n.arg, i, v)
		if err != nil {
			return "", err
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "_"), nil
}

// readFile describes the file that the body wrote at $out.
func (a *attempt) readFile() ([]value.Value, error) {
	info, err := os.Lstat(a.out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, failf(KindOutput, "the body wrote no file at $out (%s)", filepath.Base(a.out))
	case err != nil:
		return nil, machine("look at the job's file", err)
	case info.IsDir():
		return nil, failf(KindOutput, "what the body wrote at $out is a folder; for a list of files: format: files")
	}
	path := a.out
	if info.Mode()&fs.ModeSymlink != 0 {
		if path, err = inside(filepath.Dir(a.out), a.out); err != nil {
			return nil, err
		}
	}
	v, err := describeOutput(path, filepath.Base(a.out))
	if err != nil {
		return nil, err
	}
	return []value.Value{v}, nil
}

// saveStdout makes a file of what the body printed.
func (a *attempt) saveStdout(slot *Slot) ([]value.Value, error) {
	name, err := a.fileName()
	if err != nil {
		return nil, err
	}
	dir, f := a.dir.sub("out")
	if f != nil {
		return nil, f
	}
	path := filepath.Join(dir, name)
	if err := slot.proc.SaveStdout(path); err != nil {
		return nil, machine("keep the job's output", err)
	}
	v, err := describeOutput(path, name)
	if err != nil {
		return nil, err
	}
	return []value.Value{v}, nil
}

// describeOutput describes a file that a body wrote.
func describeOutput(path, name string) (value.Value, error) {
	if err := checkName(name); err != nil {
		return value.Value{}, err
	}
	f, info, err := value.OpenRegular(path)
	if err != nil {
		return value.Value{}, &Failure{Kind: KindOutput, Err: err, Message: fmt.Sprintf("the file %s that the body wrote can't be read: %v", name, err)}
	}
	defer f.Close()
	sum, err := digestOf(f)
	if err != nil {
		return value.Value{}, machine("read the job's file "+name, err)
	}
	return value.FromFile(value.FileInfo{
		Name: name, Size: info.Size(), Exec: info.Mode()&0o111 != 0, SHA256: sum, Path: path,
	}), nil
}

// checkName refuses file names that could not be shown or handed on safely.
func checkName(name string) error {
	if !utf8.ValidString(name) {
		return failf(KindOutput, "the name of the file %s is not valid UTF-8", quote([]byte(name)))
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return failf(KindOutput, "the name of the file %s holds a control character", quote([]byte(name)))
	}
	return nil
}

// readFolder describes the files in the folder that the body wrote.
func (a *attempt) readFolder() ([]value.Value, error) {
	glob := a.task.Glob
	if glob == "" {
		glob = "**"
	}
	paths, err := a.filesIn(a.out, glob)
	if err != nil {
		return nil, err
	}
	if len(paths) > a.maxList {
		return nil, failf(KindOutput, "%v", tooMany(a.maxList))
	}
	sort.Strings(paths)
	items := make([]value.Value, len(paths))
	for i, rel := range paths {
		if items[i], err = describeOutput(filepath.Join(a.out, rel), filepath.Base(rel)); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// filesIn lists the regular files in dir that match glob, by their paths in it.
// A link is no regular file, and one that leads out of the folder is refused.
func (a *attempt) filesIn(dir, glob string) ([]string, error) {
	var paths []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return &Failure{Kind: KindOutput, Err: err, Message: fmt.Sprintf("the folder $out can't be read: %v", err)}
		}
		if d.Type()&fs.ModeSymlink != 0 {
			_, err := inside(dir, path)
			return err
		}
		if !d.Type().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		match, err := doublestar.Match(glob, rel)
		if match {
			paths = append(paths, rel)
		}
		return err
	})
	return paths, err
}

// inside is what a link in dir leads to, if that lies in dir.
func inside(dir, link string) (string, error) {
	name, _ := filepath.Rel(dir, link)
	target, err := filepath.EvalSymlinks(link)
	if err != nil {
		return "", &Failure{Kind: KindOutput, Err: err, Message: fmt.Sprintf("the link %s that the body made leads nowhere: %v", quote([]byte(name)), err)}
	}
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", machine("look at the job's folder", err)
	}
	if !strings.HasPrefix(target, root+string(filepath.Separator)) {
		return "", failf(KindOutput, "the link %s that the body made leads out of its folder, to %s; copy the file instead", quote([]byte(name)), quote([]byte(target)))
	}
	return target, nil
}
