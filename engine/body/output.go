package body

import (
	"bytes"
	"errors"
	"fmt"

	"operon/spec"
	"operon/spec/value"
)

// maxItems is the largest length of a list: indices are 32 bits wide.
const maxItems = 1<<32 - 1

// read makes the attempt's values of what its process left.
func (p *process) read(slot *Slot, a *attempt) ([]value.Value, error) {
	switch {
	case p.task.Format == spec.FormatFiles:
		return a.readFolder()
	case p.task.Format == spec.FormatFile && p.toFile:
		return a.readFile()
	case p.task.Format == spec.FormatFile:
		return a.saveStdout(slot)
	}
	out, err := slot.proc.Stdout().Bytes()
	if err != nil {
		return nil, machine("read the job's output", err)
	}
	return p.parse(out, "standard output")
}

// parse reads the values of a text, which it takes over. from says in messages
// where the text came from.
func (c *common) parse(out []byte, from string) (items []value.Value, err error) {
	switch format := c.format(); format {
	case spec.FormatText:
		items, err = readText(out)
	case spec.FormatLines:
		items, err = readLines(out, c.maxList)
	case spec.FormatNul:
		items, err = readNul(out, c.maxList)
	case spec.FormatJSONL:
		items, err = readJSONL(out, c.maxList)
	case spec.FormatJSON:
		if c.task.Spawn == nil {
			items, err = readJSON(out)
		} else {
			items, err = readArray(out, c.spawned(), c.maxList)
		}
	default:
		return nil, failf(KindInternal, "no format %q (this is a bug)", format)
	}
	if err != nil {
		return nil, c.unreadable(out, from, err)
	}
	return items, nil
}

// format is the task's format, or what stands where none is said.
func (c *common) format() spec.Format {
	switch {
	case c.task.Format != "":
		return c.task.Format
	case c.task.Spawn != nil:
		return spec.FormatLines
	}
	return spec.FormatText
}

// unreadable says where an output can't be read, and why.
func (c *common) unreadable(out []byte, from string, err error) *Failure {
	at, ok := errors.AsType[*jsonError](err)
	if !ok {
		return &Failure{Kind: KindOutput, Err: err, Message: fmt.Sprintf("%s can't be read as %s: %v", from, c.format(), err)}
	}
	line, column := place(out, at.at)
	return &Failure{Kind: KindOutput, Err: err,
		Message: fmt.Sprintf("%s can't be read as %s: line %d, byte %d: %s", from, c.format(), line, column, at.what)}
}

// checkUTF8 refuses text that is not UTF-8.
func checkUTF8(out []byte) error {
	at := firstInvalid(out)
	if at < 0 {
		return nil
	}
	return &jsonError{at, fmt.Sprintf("not valid UTF-8: %s (bytes that are no text need format: file)", quote(out[at:min(len(out), at+8)]))}
}

func readText(out []byte) ([]value.Value, error) {
	if err := checkUTF8(out); err != nil {
		return nil, err
	}
	text := bytes.TrimSuffix(out, []byte("\n"))
	return []value.Value{value.FromJSON(appendQuoted(make([]byte, 0, len(text)+2), text))}, nil
}

func readLines(out []byte, limit int) ([]value.Value, error) {
	if len(out) == 0 {
		return nil, nil
	}
	if err := checkUTF8(out); err != nil {
		return nil, err
	}
	return split(bytes.TrimSuffix(out, []byte("\n")), '\n', limit)
}

func readNul(out []byte, limit int) ([]value.Value, error) {
	if len(out) == 0 {
		return nil, nil
	}
	if err := checkUTF8(out); err != nil {
		return nil, err
	}
	if last := out[bytes.LastIndexByte(out, 0)+1:]; len(last) > 0 {
		return nil, &jsonError{len(out) - len(last), fmt.Sprintf("the last string is not ended by NUL: %s", quote(last))}
	}
	return split(out[:len(out)-1], 0, limit)
}

// split makes strings of what lies between separators. They share one buffer.
func split(out []byte, sep byte, limit int) ([]value.Value, error) {
	n := bytes.Count(out, []byte{sep}) + 1
	if n > limit {
		return nil, tooMany(limit)
	}
	buf := make([]byte, 0, len(out)+len(out)/64+2*n)
	ends := make([]int, 0, n)
	for piece := range bytes.SplitSeq(out, []byte{sep}) {
		buf = appendQuoted(buf, piece)
		ends = append(ends, len(buf))
	}
	return cutUp(buf, ends), nil
}

// appendQuoted appends a JSON string; most need no escapes.
func appendQuoted(buf, text []byte) []byte {
	for _, c := range text {
		if c < 0x20 || c == '"' || c == '\\' {
			return value.AppendString(buf, string(text))
		}
	}
	buf = append(buf, '"')
	buf = append(buf, text...)
	return append(buf, '"')
}

// cutUp makes values of the parts of buf that end at ends.
func cutUp(buf []byte, ends []int) []value.Value {
	items := make([]value.Value, len(ends))
	start := 0
	for i, end := range ends {
		items[i] = value.FromJSON(buf[start:end:end])
		start = end
	}
	return items
}

func tooMany(limit int) error {
	return fmt.Errorf("more than %d items are too many for a list (the limit grows with --max-output)", limit)
}

func readJSON(out []byte) ([]value.Value, error) {
	v, err := oneJSON(out)
	if err != nil {
		return nil, err
	}
	return []value.Value{value.FromJSON(v)}, nil
}

// readJSONL reads a value a line. A value can't go on in the next line: what
// looks like it is two broken ones.
func readJSONL(out []byte, limit int) ([]value.Value, error) {
	t, err := newJSONText(out)
	if err != nil {
		return nil, err
	}
	items := make([]value.Value, 0, min(limit, bytes.Count(out, []byte{'\n'})+1))
	for t.pos < len(out) {
		t.end = len(out)
		if i := bytes.IndexByte(out[t.pos:], '\n'); i >= 0 {
			t.end = t.pos + i
		}
		if !t.atEnd() {
			v, err := t.next()
			if err != nil {
				return nil, err
			}
			if !t.atEnd() {
				return nil, t.errorf("expected one value a line, got %s after the first", t.here())
			}
			if len(items) == limit {
				return nil, tooMany(limit)
			}
			items = append(items, value.FromJSON(v))
		}
		t.pos = t.end + 1
	}
	return items, nil
}

// readArray reads the items of one array.
func readArray(out []byte, dim string, limit int) ([]value.Value, error) {
	t, err := newJSONText(out)
	if err != nil {
		return nil, err
	}
	if t.atEnd() {
		return nil, &jsonError{len(out), fmt.Sprintf("expected a JSON list for dimension %s, got nothing", dim)}
	}
	if start := t.pos; !t.at('[') {
		v, err := t.next()
		if err != nil {
			return nil, err
		}
		return nil, &jsonError{start, fmt.Sprintf("expected a JSON list for dimension %s, got %s %s", dim, kindOf(v), quote(v))}
	}
	items, err := t.items(limit)
	if err != nil {
		return nil, err
	}
	if !t.atEnd() {
		return nil, t.errorf("expected nothing after the list, got %s", t.here())
	}
	return items, nil
}

// items reads the items of a list behind its opening bracket.
func (t *jsonText) items(limit int) ([]value.Value, error) {
	var items []value.Value
	if t.space(); t.at(']') {
		return nil, nil
	}
	t.depth++
	defer func() { t.depth-- }()
	for {
		v, err := t.next()
		if err != nil {
			return nil, err
		}
		if len(items) == limit {
			return nil, tooMany(limit)
		}
		items = append(items, value.FromJSON(v))
		if t.space(); t.at(']') {
			return items, nil
		}
		if !t.at(',') {
			return nil, t.errorf("expected , or ] in a list, got %s", t.here())
		}
	}
}
