package body

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"

	"operon/spec"
	"operon/spec/value"
)

// stdin returns the descriptor of the attempt's standard input, and the file to
// close afterwards if it is one of its own.
func (a *attempt) stdin(slot *Slot) (int, *os.File, error) {
	from, as := a.task.Stdin.From, a.task.Stdin.As
	if a.task.Stdin.None || len(from) == 0 {
		return slot.proc.Null(), nil, nil
	}
	if len(from) == 1 {
		if f := a.rawFile(from[0], as); f != nil {
			return a.openInput(from[0], f)
		}
	}
	key := a.stdinKey(from, as)
	if fd, ok := slot.proc.KeptInput(key); ok {
		return fd, nil, nil
	}
	data, err := a.stdinBytes(from, as)
	if err != nil {
		return -1, nil, err
	}
	if len(data) == 0 {
		return slot.proc.Null(), nil, nil
	}
	fd, err := slot.proc.Input(data)
	if err != nil {
		return -1, nil, machine("hand over standard input", err)
	}
	slot.proc.KeepInput(key)
	return fd, nil, nil
}

// stdinKey stands for what standard input holds, if it may be used again by the
// next job: a slice that many jobs take is written out once. Slices with files
// differ from job to job. The key keeps the slice, so that no other can have
// its address.
func (a *attempt) stdinKey(from []*spec.Input, as spec.StdinAs) any {
	if len(from) != 1 {
		return nil
	}
	s := a.job.Args[a.names[from[0].Arg].arg].Slice
	if s == nil {
		return nil
	}
	for _, v := range s.Items {
		if v.Kind == value.File {
			return nil
		}
	}
	return sliceInput{s, as}
}

type sliceInput struct {
	slice *value.Slice
	as    spec.StdinAs
}

// rawFile is the file whose bytes are the standard input, or nil.
func (a *attempt) rawFile(in *spec.Input, as spec.StdinAs) *value.FileInfo {
	arg := a.job.Args[a.names[in.Arg].arg]
	if arg.Slice != nil || arg.Value.Kind != value.File || as != spec.AsDefault && as != spec.AsText {
		return nil
	}
	return arg.Value.File
}

func (a *attempt) openInput(in *spec.Input, f *value.FileInfo) (int, *os.File, error) {
	path := f.Path
	if f.Ref {
		var err error
		if path, err = a.referenced(f); err != nil {
			return -1, nil, err
		}
	}
	file, _, err := value.OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, value.ErrNotRegular) {
		return -1, nil, &Failure{Kind: KindLost, Err: err, Message: "the file " + f.Name + " of " + in.String() + " is missing: " + err.Error()}
	}
	if err != nil {
		return -1, nil, machine("open file "+f.Name, err)
	}
	return int(file.Fd()), file, nil
}

// stdinBytes writes out the inputs.
func (a *attempt) stdinBytes(from []*spec.Input, as spec.StdinAs) ([]byte, error) {
	if len(from) > 1 {
		b, err := a.appendObject(nil, from)
		return append(b, '\n'), err
	}
	arg := a.names[from[0].Arg].arg
	w := &stdinWriter{attempt: a, arg: arg, as: as}
	if s := a.job.Args[arg].Slice; s != nil {
		return w.slice(s)
	}
	return w.single(a.job.Args[arg].Value)
}

// stdinWriter writes one input in one form.
type stdinWriter struct {
	*attempt
	arg int
	as  spec.StdinAs
	out []byte
	err error
}

// single writes a value that is no slice.
func (w *stdinWriter) single(v value.Value) ([]byte, error) {
	text, isText := v.Text()
	switch w.as {
	case spec.AsDefault:
		if isText {
			return []byte(text), nil
		}
		w.json(0, v)
		w.out = append(w.out, '\n')
	case spec.AsText:
		w.text(0, v)
	case spec.AsLines:
		w.text(0, v)
		w.out = append(w.out, '\n')
	default:
		w.item(0, v)
	}
	return w.out, w.err
}

// slice writes a slice of any depth, value by value, or nested as JSON.
func (w *stdinWriter) slice(s *value.Slice) ([]byte, error) {
	if w.as == spec.AsJSON {
		item := 0
		w.out = s.AppendJSON(nil, func(b []byte, v value.Value) []byte {
			w.out = b
			w.json(item, v)
			item++
			return w.out
		})
		return append(w.out, '\n'), w.err
	}
	for i, v := range s.Items {
		if w.as == spec.AsText && i > 0 {
			w.out = append(w.out, '\n')
		}
		if w.item(i, v); w.err != nil {
			return nil, w.err
		}
	}
	return w.out, nil
}

// item writes one value with what ends it.
func (w *stdinWriter) item(i int, v value.Value) {
	start := len(w.out)
	switch w.as {
	case spec.AsText:
		w.text(i, v)
	case spec.AsNul:
		w.text(i, v)
		if bytes.IndexByte(w.out[start:], 0) >= 0 {
			w.fail(i, "NUL byte", "")
		}
		w.out = append(w.out, 0)
	case spec.AsJSON, spec.AsJSONL:
		w.json(i, v)
		w.out = append(w.out, '\n')
	default:
		w.text(i, v)
		if bytes.IndexByte(w.out[start:], '\n') >= 0 {
			w.fail(i, "line end", " (or nul)")
		}
		w.out = append(w.out, '\n')
	}
}

func (w *stdinWriter) fail(i int, what, or string) {
	if w.err == nil {
		arg := w.task.In[w.arg].Arg
		w.err = failf(KindInput, "value %d of %s holds a %s, so values can't be told apart on standard input; say stdin: {from: %s, as: jsonl}%s", i, arg, what, arg, or)
	}
}

// text writes a value as text.
func (w *stdinWriter) text(i int, v value.Value) {
	text, err := w.itemText(w.arg, i, v)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.out = append(w.out, text...)
}

// json writes a value as JSON.
func (w *stdinWriter) json(i int, v value.Value) {
	var err error
	w.out, err = w.appendItem(w.out, w.arg, i, v)
	if err != nil && w.err == nil {
		w.err = err
	}
}

// appendObject appends inputs as one JSON object keyed by argument name.
func (a *attempt) appendObject(b []byte, from []*spec.Input) ([]byte, error) {
	b = append(b, '{')
	for i, in := range from {
		if i > 0 {
			b = append(b, ',')
		}
		b = value.AppendString(b, in.Arg)
		b = append(b, ':')
		var err error
		if b, err = a.appendArg(b, a.names[in.Arg].arg); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendArg appends an argument as JSON, slices nested.
func (a *attempt) appendArg(b []byte, arg int) ([]byte, error) {
	s := a.job.Args[arg].Slice
	if s == nil {
		return a.appendItem(b, arg, 0, a.job.Args[arg].Value)
	}
	item := 0
	var first error
	b = s.AppendJSON(b, func(b []byte, v value.Value) []byte {
		b, err := a.appendItem(b, arg, item, v)
		if err != nil && first == nil {
			first = err
		}
		item++
		return b
	})
	return b, first
}

// appendItem appends one value as JSON, a file with its path.
func (a *attempt) appendItem(b []byte, arg, item int, v value.Value) ([]byte, error) {
	if v.Kind != value.File {
		return v.AppendJSON(b), nil
	}
	path, err := a.filePath(arg, item, v.File)
	if err != nil {
		return b, err
	}
	if a.bare {
		return value.AppendString(b, path), nil
	}
	b = append(b, `{"path":`...)
	b = value.AppendString(b, path)
	b = append(b, `,"file":`...)
	b = value.AppendString(b, v.File.Name)
	b = append(b, `,"size":`...)
	b = strconv.AppendInt(b, v.File.Size, 10)
	b = append(b, `,"sha256":"`...)
	b = append(b, v.File.SHA256.String()...)
	return append(b, `"}`...), nil
}
