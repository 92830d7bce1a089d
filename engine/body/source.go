package body

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"operon/spec"
	"operon/spec/value"
)

// source takes a root's values from the surroundings, in process.
type source struct {
	*common
	src *spec.Source
}

func newSource(c *common) (*source, error) {
	if c.task.Body.Source == nil {
		return nil, errors.New("the source says nothing")
	}
	return &source{common: c, src: c.task.Body.Source}, nil
}

// Run implements Runner. It uses no slot.
func (s *source) Run(ctx context.Context, _ *Slot, job *Job) (res *Result, err error) {
	usage := Usage{Start: time.Now()}
	a := s.attempt(job)
	defer func() {
		if panicked := recover(); panicked != nil {
			res, err = nil, recovered(panicked)
		}
		if err != nil {
			fail := a.giveUp(err)
			fail.Usage = usage.ended()
			res, err = nil, fail
		}
	}()
	if fail := cancelled(ctx); fail != nil {
		return nil, fail
	}
	if fail := s.checkArgs(job); fail != nil {
		return nil, fail
	}
	items, err := s.read(ctx, a)
	if err != nil {
		return nil, err
	}
	if s.task.Spawn == nil && len(items) != 1 {
		return nil, failf(KindOutput, "the source has %d values; expected exactly one", len(items))
	}
	if fail := s.verify(items); fail != nil {
		return nil, fail
	}
	return &Result{Items: items, Usage: usage.ended(), close: a.dir.remove}, nil
}

func (s *source) read(ctx context.Context, a *attempt) ([]value.Value, error) {
	switch s.src.Kind {
	case spec.SourceValues:
		items := make([]value.Value, len(s.src.Values))
		for i, v := range s.src.Values {
			items[i] = value.FromJSON(v)
		}
		return items, nil
	case spec.SourceCount:
		return s.count()
	case spec.SourceGlob:
		return s.glob(ctx, a)
	}
	text, err := s.text()
	if err != nil {
		return nil, err
	}
	items, err := s.parseFile(text)
	if err != nil {
		return nil, s.unreadableFile(text, err)
	}
	return items, nil
}

func (s *source) parseFile(text []byte) ([]value.Value, error) {
	switch s.src.Kind {
	case spec.SourceLines:
		return readLines(text, s.maxList)
	case spec.SourceJSONL:
		return readJSONL(text, s.maxList)
	case spec.SourceJSON:
		return readArray(text, s.spawned(), s.maxList)
	case spec.SourceCSV:
		return readCSV(text, s.maxList)
	case spec.SourceTSV:
		return readTSV(text, s.maxList)
	}
	return nil, failf(KindInternal, "no source of kind %q (this is a bug)", s.src.Kind)
}

func (s *source) unreadableFile(text []byte, err error) error {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	where := s.src.Path
	what := err.Error()
	if at, ok := errors.AsType[*jsonError](err); ok {
		line, column := place(text, at.at)
		where = fmt.Sprintf("%s: line %d, byte %d", s.src.Path, line, column)
		what = at.what
	}
	return &Failure{Kind: KindOutput, Err: err, Message: fmt.Sprintf("%s: not %s: %s", where, s.src.Kind, what)}
}

// count makes the integers below n. Their texts lie in one buffer.
func (s *source) count() ([]value.Value, error) {
	n := int(s.src.Count)
	if n > s.maxList {
		return nil, failf(KindOutput, "%v", tooMany(s.maxList))
	}
	buf := make([]byte, 0, n*len(strconv.Itoa(n)))
	items := make([]value.Value, n)
	for i := range items {
		start := len(buf)
		buf = strconv.AppendInt(buf, int64(i), 10)
		items[i] = value.FromJSON(buf[start:len(buf):len(buf)])
	}
	return items, nil
}

// text reads the source's file.
func (s *source) text() ([]byte, error) {
	f, info, err := value.OpenRegular(s.path())
	if err != nil {
		return nil, s.noFile(s.src.Path, err)
	}
	defer f.Close()
	if info.Size() > s.maxOutput {
		return nil, failf(KindOutput, "%s has %d bytes; the limit is %d (--max-output)", s.src.Path, info.Size(), s.maxOutput)
	}
	text, err := io.ReadAll(io.LimitReader(f, s.maxOutput+1))
	if err != nil {
		return nil, s.noFile(s.src.Path, err)
	}
	return text, nil
}

func (s *source) path() string { return resolve(s.cfg.Dir, s.src.Path) }

func resolve(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// noFile is the failure for a file that can't be read.
func (s *source) noFile(name string, err error) *Failure {
	if errors.Is(err, fs.ErrNotExist) {
		return &Failure{Kind: KindInput, Err: err, Message: fmt.Sprintf("there is no file %s (looked for in %s)", name, s.cfg.Dir)}
	}
	if p, ok := errors.AsType[*os.PathError](err); ok {
		err = p.Err
	}
	return &Failure{Kind: KindInput, Err: err, Message: fmt.Sprintf("the file %s can't be read: %v", name, err)}
}
