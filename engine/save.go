package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// SaveError is two values that a task's `save` puts at one path.
type SaveError struct {
	Path  string
	Tasks [2]string
	At    [2]string // coordinates of the values
}

// Error says which values, and where they would go.
func (e *SaveError) Error() string {
	return fmt.Sprintf("save: %s at %q and %s at %q would both go to %s; name a dimension more in the path", e.Tasks[0], e.At[0], e.Tasks[1], e.At[1], e.Path)
}

// UnsavedError is a value that is to be saved, but was released before.
type UnsavedError struct{ Task, Path string }

// Error says what is missing and how to get it back.
func (e *UnsavedError) Error() string {
	return fmt.Sprintf("save: %s is not there, and the value that belongs there was released: task %s says keep: false; --redo %s makes it again", e.Path, e.Task, e.Task)
}

// saver copies the values of finished tasks to where their `save` says, on a
// goroutine of its own: it may take long, and the run goes on meanwhile.
//
// Values are copied, never linked: who edits a result must not change what the
// state holds.
type saver struct {
	ctx    context.Context
	p      *spec.Pipeline
	dir    string // the pipeline file's folder
	token  string
	store  *storage.Store
	flows  []uint64 // of each task
	labels *labels
	taken  map[string]savedAt // what lies at a path, of all tasks

	tasks chan *spec.TaskSpec // room for all
	done  sync.WaitGroup
	over  context.CancelFunc // of ctx: what is not saved yet is left
	mu    sync.Mutex
	saved map[*spec.TaskSpec]bool
	err   error
}

type savedAt struct {
	task *spec.TaskSpec
	at   coord.Coord
}

// newSaver makes a saver, nil if no task has anything to save. Once started, it
// ends with finish.
func (e *Engine) newSaver(ctx context.Context, flows []uint64) (*saver, error) {
	some := false
	for _, t := range e.p.Tasks {
		some = some || t.Save != nil
	}
	if !some {
		return nil, nil
	}
	names, err := newLabels(ctx, e.p, flows)
	if err != nil {
		return nil, err
	}
	ctx, over := context.WithCancel(ctx)
	s := &saver{
		ctx: ctx, over: over, p: e.p, dir: e.o.Dir, token: e.token, store: e.stores.data, flows: flows, labels: names,
		taken: map[string]savedAt{}, tasks: make(chan *spec.TaskSpec, len(e.p.Tasks)), saved: map[*spec.TaskSpec]bool{},
	}
	return s, nil
}

// start begins to save what is handed over, once an earlier saver has ended.
func (s *saver) start(after *saver) {
	s.done.Go(func() {
		if after != nil {
			after.done.Wait()
			after = nil
		}
		for t := range s.tasks {
			if s.ctx.Err() != nil {
				continue
			}
			err := s.task(t)
			s.mu.Lock()
			s.saved[t], s.err = err == nil, errors.Join(s.err, err)
			s.mu.Unlock()
		}
	})
}

// succeed lets another saver go on where the last one is. What that has not saved
// yet is the next one's, if it is still wanted: two of them would write to one path.
func (l *loop) succeed(next *saver) {
	last := l.saver
	l.saver = next
	if last != nil {
		last.over()
		close(last.tasks)
	} else {
		last = l.earlier
	}
	l.earlier = nil
	if next == nil {
		l.earlier = last
		return
	}
	next.start(last)
}

// save hands the tasks over that are done and durable.
func (l *loop) save() {
	if l.saver == nil {
		return
	}
	_, durable, _ := l.commits.state()
	for n, f := range l.flows {
		if f.task.Save == nil || f.saving || !f.wanted || !l.table.Counts(n).Complete() {
			continue
		}
		if !f.ended {
			f.ended, f.endedIn = true, l.commits.submitted
		}
		if durable >= f.endedIn {
			f.saving = true
			l.saver.tasks <- f.task
		}
	}
}

// holds reports whether the task's values are still to be saved, by this run or,
// where that failed, by a later one.
func (s *saver) holds(t *spec.TaskSpec) bool {
	if s == nil || t.Save == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.saved[t]
}

// finish waits until all that was handed over is saved.
func (s *saver) finish() error {
	if s == nil {
		return nil
	}
	close(s.tasks)
	s.done.Wait()
	s.over()
	return s.err
}

// finishSaves saves what is done when the loop has ended.
func (e *Engine) finishSaves(ctx context.Context, l *loop) error {
	if l.saver == nil {
		if l.earlier != nil {
			l.earlier.done.Wait()
		}
		return nil
	}
	l.commit(true)
	if err := l.commits.flush(context.WithoutCancel(ctx)); err == nil {
		l.save()
	}
	return l.saver.finish()
}

// saveAll saves the values of every task of a run that had nothing to do.
func (e *Engine) saveAll(ctx context.Context, flows []uint64) error {
	s, err := e.newSaver(ctx, flows)
	if s == nil || err != nil {
		return err
	}
	s.start(nil)
	for _, t := range e.p.Tasks {
		if t.Save != nil {
			s.tasks <- t
		}
	}
	return s.finish()
}

// place is a value's path.
type savePlace struct {
	at   coord.Coord // of the entity's dimensions
	path string
}

// savesATime is how many values are held while they are copied.
const savesATime = 64

// task saves one task's values. Nothing is written where two would go to one
// path.
func (s *saver) task(t *spec.TaskSpec) error {
	places, err := s.places(t)
	if errors.Is(err, storage.ErrReleased) {
		return s.savedBefore(t) // by the run that let them go
	}
	if err != nil {
		return err
	}
	for len(places) > 0 {
		n := min(savesATime, len(places))
		if err := s.some(t, places[:n]); err != nil {
			return err
		}
		places = places[n:]
	}
	return nil
}

// places are where the values of a task go.
func (s *saver) places(t *spec.TaskSpec) (out []savePlace, err error) {
	err = s.store.ViewDurable(func(r *storage.Reader) error {
		_, err := eachValue(s.ctx, r, storage.Header{ID: s.flows[t.Index]}, t.Out, nil, func(it Item) error {
			if it.Value.Kind == value.Hole {
				return nil
			}
			path, err := s.path(r, t, it)
			if err != nil || path == "" {
				return err
			}
			if other, taken := s.taken[path]; taken {
				return &SaveError{
					Path:  path,
					Tasks: [2]string{other.task.Name, t.Name},
					At:    [2]string{other.at.Format(other.task.Out.DimNames()), it.Coord.Format(t.Out.DimNames())},
				}
			}
			s.taken[path] = savedAt{t, it.Coord}
			out = append(out, savePlace{it.Coord, path})
			return nil
		})
		return err
	})
	return out, err
}

// savedBefore is an *UnsavedError if a file is missing of a task whose values
// were released.
func (s *saver) savedBefore(t *spec.TaskSpec) error {
	return s.store.ViewDurable(func(r *storage.Reader) error {
		return r.Records(s.flows[t.Index], "", func(rec storage.Record) error {
			if s.ctx.Err() != nil {
				return context.Cause(s.ctx)
			}
			if rec.Hole {
				return nil
			}
			if t.Spawn == nil {
				return s.isThere(r, t, rec.Coord)
			}
			for i := range rec.Extent {
				if err := s.isThere(r, t, rec.Coord.Append(i)); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// isThere looks for the file of a value that was released. What only the value
// could tell is not asked for: its name in a folder, and labels that went with
// the values of a list.
func (s *saver) isThere(r *storage.Reader, t *spec.TaskSpec, at coord.Coord) error {
	path, unnamed, err := s.expand(r, t, at)
	if err != nil || unnamed != nil {
		return err
	}
	inFolder := strings.HasSuffix(path, "/")
	path = s.absolute(path)
	info, err := os.Stat(path)
	if err == nil && inFolder {
		var entries []os.DirEntry
		if entries, err = os.ReadDir(path); err == nil && len(entries) > 0 {
			return nil
		}
	} else if err == nil && info.Mode().IsRegular() {
		return nil
	}
	return &UnsavedError{Task: t.Name, Path: path}
}

// path is where a value goes, "" if it is there and nobody can tell where.
func (s *saver) path(r *storage.Reader, t *spec.TaskSpec, it Item) (string, error) {
	path, unnamed, err := s.expand(r, t, it.Coord)
	if err != nil {
		return "", err
	}
	if unnamed != nil {
		return "", s.unnamed(r, t, it.Coord, unnamed)
	}
	if strings.HasSuffix(path, "/") {
		path += valueFileName(t, it.Value)
	}
	return s.absolute(path), nil
}

func (s *saver) absolute(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.dir, path)
	}
	return filepath.Clean(path)
}

// expand is the path of a task's `save` for a coordinate. What a label or a
// param says is one piece of a file name, whatever is in it. unnamed is a dimension
// whose label could not be told, or nil.
func (s *saver) expand(r *storage.Reader, t *spec.TaskSpec, at coord.Coord) (path string, unnamed *spec.Dim, err error) {
	names := s.labels.of(r, t.Out.Dims, at)
	path, err = t.Save.Expand(func(name string) (string, error) {
		for n, d := range t.Out.Dims {
			if d.Name == name && n < len(names) && names[n] != "" {
				return fileNamePiece(names[n]), nil
			}
			if d.Name == name {
				if s.labels.by[d.Index] != nil {
					unnamed = d
				}
				return strconv.FormatUint(uint64(at.At(n)), 10), nil
			}
		}
		if p := s.p.Param(name); p != nil {
			return fileNamePiece(p.Text()), nil
		}
		return "", fmt.Errorf("save of task %s: %q stands for nothing (this is a bug)", t.Name, name)
	})
	return path, unnamed, err
}

// fileNamePiece is text as a part of a file name: no separator, and never all
// dots, which would be another folder.
func fileNamePiece(text string) string {
	out := strings.Map(func(c rune) rune {
		if c == '/' || c < 0x20 || c == 0x7f {
			return '_'
		}
		return c
	}, text)
	if strings.Trim(out, ".") == "" {
		return strings.Repeat("_", max(1, len(out)))
	}
	return out
}

// valueFileName is the name of a value in a folder.
func valueFileName(t *spec.TaskSpec, v value.Value) string {
	name := spec.SnakeCase(t.Out.Name)
	switch _, isText := v.Text(); {
	case v.Kind == value.File:
		return fileNamePiece(v.File.Name)
	case isText:
		return name + ".txt"
	}
	return name + ".json"
}

// some saves a few values. They are read first: a view is not to stay open while
// large files are copied.
func (s *saver) some(t *spec.TaskSpec, places []savePlace) error {
	values := make([]value.Value, len(places))
	err := s.store.ViewDurable(func(r *storage.Reader) error {
		for n, p := range places {
			job, item := p.at, uint32(0)
			if t.Spawn != nil {
				job, item = p.at.Prefix(p.at.Len()-1), p.at.At(p.at.Len()-1)
			}
			err := r.Values(s.flows[t.Index], job, item, item+1, func(_ uint32, v value.Value) error {
				values[n] = v
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for n, p := range places {
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		if err := s.value(values[n], p.path); err != nil {
			return &MachineError{Doing: "save " + p.path, Err: err}
		}
	}
	return nil
}

// value puts a value at a path, unless it is there.
func (s *saver) value(v value.Value, path string) error {
	if v.Kind == value.File {
		return s.file(v.File, path)
	}
	text, isText := v.Text()
	want := append([]byte(text), '\n')
	if !isText {
		want = append(bytes.Clone(v.JSON), '\n')
	}
	if f, info, err := value.OpenRegular(path); err == nil {
		have := make([]byte, len(want))
		_, err = io.ReadFull(f, have)
		f.Close()
		if err == nil && info.Size() == int64(len(want)) && bytes.Equal(have, want) {
			return nil
		}
	}
	return s.replace(path, 0o666, time.Time{}, func(w io.Writer) error {
		_, err := w.Write(want)
		return err
	})
}

// file copies a file. The copy has the time of what it was made from: a file of
// the same size and time is the copy of an earlier run.
func (s *saver) file(f *value.FileInfo, path string) error {
	from := f.Path
	if !filepath.IsAbs(from) {
		from = filepath.Join(s.dir, from)
	}
	in, info, err := value.OpenRegular(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if have, err := os.Lstat(path); err == nil && have.Mode().IsRegular() && have.Size() == info.Size() && have.ModTime().Equal(info.ModTime()) {
		return nil
	}
	mode := os.FileMode(0o666)
	if f.Exec {
		mode = 0o777
	}
	return s.replace(path, mode, info.ModTime(), func(w io.Writer) error {
		h := sha256.New()
		n, err := io.Copy(io.MultiWriter(w, h), in)
		if err == nil && (n != f.Size || value.Digest(h.Sum(nil)) != f.SHA256) {
			err = fmt.Errorf("the file %s has changed since it became a value", from)
		}
		return err
	})
}

// replace writes a file under a temporary name and renames it: nobody reads half
// of it.
func (s *saver) replace(path string, mode os.FileMode, modified time.Time, write func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	tmp := filepath.Join(dir, ".operon-"+s.token)
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp))
		}
	}()
	if err := errors.Join(write(f), f.Close()); err != nil {
		return err
	}
	if !modified.IsZero() {
		if err := os.Chtimes(tmp, modified, modified); err != nil {
			return err
		}
	}
	return os.Rename(tmp, path)
}
