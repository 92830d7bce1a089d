package main

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"operon/cmd/operon/internal/term"
	"operon/engine"
	"operon/spec"
	"operon/spec/value"
)

// textWriter writes values as text, and a file's bytes where it is the only
// value that was asked for.
type textWriter struct {
	out    *bufio.Writer
	entity string
	dims   []string
	base   string // folder of files taken by reference
	alone  bool   // all dimensions are given: there is one value
	facts  term.Facts
	left   int64
}

func (w *textWriter) holes() int64 { return w.left }

func (w *textWriter) write(it engine.Item) error {
	v := it.Value
	if v.Kind == value.Hole {
		w.left++
		return nil
	}
	if v.Kind == value.File && w.alone {
		return copyFile(w.out, it, w.entity, w.dims, w.base)
	}
	if w.facts.Terminal && !w.alone {
		w.out.WriteString(w.facts.Paint(term.Dim, it.Coord.Format(w.dims)) + " ")
	}
	w.out.WriteString(asText(v))
	return w.out.WriteByte('\n')
}

// asText is a value as text: a string as it is, a file as its name, size and
// digest, all else as compact JSON.
func asText(v value.Value) string {
	if v.Kind == value.File {
		return fmt.Sprintf("%s\t%d\t%s", v.File.Name, v.File.Size, v.File.SHA256)
	}
	if text, ok := v.Text(); ok {
		return text
	}
	return string(v.JSON)
}

// jsonWriter writes one object a value.
type jsonWriter struct {
	out    *bufio.Writer
	entity string
	dims   []string
	line   []byte
}

func (w *jsonWriter) holes() int64 { return 0 }

func (w *jsonWriter) write(it engine.Item) error {
	b := append(w.line[:0], `{"entity":`...)
	b = value.AppendString(b, w.entity)
	b = append(b, `,"coord":{`...)
	for n, d := range w.dims {
		if n > 0 {
			b = append(b, ',')
		}
		b = value.AppendString(b, d)
		if n == it.Coord.Len() {
			b = append(b, ":null"...) // a list that is a hole has no indices
			continue
		}
		b = fmt.Appendf(b, ":%d", it.Coord.At(n))
	}
	b = append(b, `},"value":`...)
	b = it.Value.AppendJSON(b)
	if it.Value.Kind == value.Hole {
		b = append(b, `,"hole":`...)
		b = value.AppendString(b, it.Value.Reason())
	}
	w.line = append(b, "}\n"...)
	_, err := w.out.Write(w.line)
	return err
}

// folderWriter writes a file a value: DIR/i=0/j=2/NAME.
type folderWriter struct {
	dir, entity string
	dims        []string
	base        string
	left        int64
}

func (w *folderWriter) holes() int64 { return w.left }

func (w *folderWriter) write(it engine.Item) error {
	if it.Value.Kind == value.Hole {
		w.left++
		return nil
	}
	dir := w.dir
	for n, d := range w.dims {
		dir = filepath.Join(dir, fmt.Sprintf("%s=%d", d, it.Coord.At(n)))
	}
	name, mode := w.name(it.Value)
	if !filepath.IsLocal(name) || filepath.Base(name) != name {
		return inconsistent(w.entity, it, w.dims, "a file is named %q", name)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("write the value%s: %w", at(it, w.dims), err)
	}
	err := replace(filepath.Join(dir, name), mode, func(f io.Writer) error {
		if it.Value.Kind == value.File {
			return copyFile(f, it, w.entity, w.dims, w.base)
		}
		_, err := io.WriteString(f, asText(it.Value)+"\n")
		return err
	})
	if err != nil {
		return fmt.Errorf("write the value%s: %w", at(it, w.dims), err)
	}
	return nil
}

// name is the base name and mode of a value's file.
func (w *folderWriter) name(v value.Value) (string, os.FileMode) {
	if v.Kind == value.File {
		if v.File.Exec {
			return v.File.Name, 0o777
		}
		return v.File.Name, 0o666
	}
	if _, ok := v.Text(); ok {
		return spec.SnakeCase(w.entity) + ".txt", 0o666
	}
	return spec.SnakeCase(w.entity) + ".json", 0o666
}

// replace writes a file under a temporary name and renames it, so that nobody
// reads half of it.
func replace(path string, mode os.FileMode, write func(io.Writer) error) error {
	tmp := filepath.Join(filepath.Dir(path), ".operon-"+filepath.Base(path))
	if len(filepath.Base(tmp)) > 255 {
		tmp = filepath.Join(filepath.Dir(path), ".operon-tmp")
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	buf := bufio.NewWriterSize(f, 64<<10)
	err = errors.Join(write(buf), buf.Flush(), f.Close())
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}

// copyFile writes a file value's bytes, and finds out whether they are still
// those that the value names.
func copyFile(w io.Writer, it engine.Item, entity string, dims []string, base string) error {
	info := it.Value.File
	path := info.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	f, _, err := value.OpenRegular(path)
	if errors.Is(err, os.ErrNotExist) {
		return inconsistent(entity, it, dims, "the file %s is gone", path)
	}
	if errors.Is(err, value.ErrNotRegular) {
		return inconsistent(entity, it, dims, "%s is no regular file", path)
	}
	if err != nil {
		return fmt.Errorf("read a file of %s%s: %w", entity, at(it, dims), err)
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, h), f)
	if err != nil {
		return fmt.Errorf("copy a file of %s%s: %w", entity, at(it, dims), err)
	}
	if n != info.Size || value.Digest(h.Sum(nil)) != info.SHA256 {
		return inconsistent(entity, it, dims, "the file %s has changed since it became a value", path)
	}
	return nil
}
