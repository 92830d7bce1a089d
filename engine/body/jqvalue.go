package body

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/itchyny/gojq"

	"operon/spec/value"
)

// decode makes a gojq value of compact JSON text that has been checked before.
// A whole number that an int prints alike is one; any other number keeps its
// text, so that what a filter does not touch survives digit for digit.
func decode(text []byte) (any, error) {
	d := decoder{text: text}
	v, err := d.value()
	if err == nil && d.pos != len(text) {
		err = d.bad()
	}
	return v, err
}

type decoder struct {
	text []byte
	pos  int
}

// bad is for text that nobody checked.
func (d *decoder) bad() error {
	return failf(KindInternal, "not compact JSON at byte %d: %s (this is a bug)", d.pos, quote(d.text))
}

func (d *decoder) peek() byte {
	if d.pos < len(d.text) {
		return d.text[d.pos]
	}
	return 0
}

func (d *decoder) value() (any, error) {
	switch c := d.peek(); c {
	case '"':
		return d.str()
	case '[':
		return d.array()
	case '{':
		return d.object()
	case 't':
		return true, d.skip("true")
	case 'f':
		return false, d.skip("false")
	case 'n':
		return nil, d.skip("null")
	}
	return d.number()
}

func (d *decoder) skip(word string) error {
	if !bytes.HasPrefix(d.text[d.pos:], []byte(word)) {
		return d.bad()
	}
	d.pos += len(word)
	return nil
}

func (d *decoder) number() (any, error) {
	n := numberLen(d.text[d.pos:])
	if n == 0 {
		return nil, d.bad()
	}
	text := d.text[d.pos : d.pos+n]
	d.pos += n
	if i, ok := smallInt(text); ok {
		return i, nil
	}
	return json.Number(text), nil
}

// smallInt reads a whole number that fits and has one text only: not -0.
func smallInt(text []byte) (int, bool) {
	const maxDigits = 18
	ds := text
	if ds[0] == '-' {
		ds = ds[1:]
	}
	if len(ds) > maxDigits || len(ds) == 1 && ds[0] == '0' && len(text) > 1 {
		return 0, false
	}
	i := 0
	for _, c := range ds {
		if c < '0' || c > '9' {
			return 0, false
		}
		i = 10*i + int(c-'0')
	}
	if len(text) > len(ds) {
		i = -i
	}
	return i, true
}

func (d *decoder) str() (string, error) {
	end := stringEnd(d.text, d.pos)
	literal := d.text[d.pos:end]
	if len(literal) < 2 || literal[len(literal)-1] != '"' {
		return "", d.bad()
	}
	d.pos = end
	if bytes.IndexByte(literal, '\\') < 0 {
		return string(literal[1 : len(literal)-1]), nil
	}
	return string(unescape(literal)), nil
}

func (d *decoder) array() (any, error) {
	d.pos++
	list := []any{}
	if d.peek() == ']' {
		d.pos++
		return list, nil
	}
	for {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		switch d.peek() {
		case ',':
			d.pos++
		case ']':
			d.pos++
			return list, nil
		default:
			return nil, d.bad()
		}
	}
}

func (d *decoder) object() (any, error) {
	d.pos++
	object := map[string]any{}
	if d.peek() == '}' {
		d.pos++
		return object, nil
	}
	for {
		if d.peek() != '"' {
			return nil, d.bad()
		}
		key, err := d.str()
		if err != nil {
			return nil, err
		}
		if err := d.skip(":"); err != nil {
			return nil, err
		}
		if object[key], err = d.value(); err != nil {
			return nil, err
		}
		switch d.peek() {
		case ',':
			d.pos++
		case '}':
			d.pos++
			return object, nil
		default:
			return nil, d.bad()
		}
	}
}

// jqWriter writes what a filter returned as compact JSON, up to a limit: a
// small value in memory may be a huge one in text, as parts of it can be one.
type jqWriter struct {
	out   []byte
	limit int64
	depth int
}

// append appends one value; keys are sorted.
func (w *jqWriter) append(v any) error {
	if int64(len(w.out)) > w.limit {
		return w.tooLarge()
	}
	switch v := v.(type) {
	case nil:
		w.out = append(w.out, "null"...)
	case bool:
		w.out = strconv.AppendBool(w.out, v)
	case int:
		w.out = strconv.AppendInt(w.out, int64(v), 10)
	case string:
		if int64(len(w.out)+len(v)) > w.limit {
			return w.tooLarge()
		}
		w.out = value.AppendString(w.out, v)
	case json.Number:
		w.out = append(w.out, v...)
	case *big.Int:
		w.out = v.Append(w.out, 10)
	case float64:
		return w.float(v)
	case []any:
		return w.nested(func() error { return w.array(v) })
	case map[string]any:
		return w.nested(func() error { return w.object(v) })
	default:
		return failf(KindInternal, "jq returned a %T (this is a bug)", v)
	}
	return nil
}

func (w *jqWriter) tooLarge() error {
	return failf(KindOutput, "the filter's result is larger than %d bytes", w.limit)
}

// float writes a number as jq does; there is no JSON for what is none.
func (w *jqWriter) float(f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return failf(KindOutput, "the filter's result holds %v, for which JSON has no number", f)
	}
	text, err := gojq.Marshal(f)
	if err != nil {
		return fmt.Errorf("write a number: %w", err)
	}
	w.out = append(w.out, text...)
	return nil
}

func (w *jqWriter) nested(write func() error) error {
	if w.depth++; w.depth > maxNesting {
		return failf(KindOutput, "the filter's result is nested deeper than %d", maxNesting)
	}
	err := write()
	w.depth--
	return err
}

func (w *jqWriter) array(list []any) error {
	w.out = append(w.out, '[')
	for i, v := range list {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.append(v); err != nil {
			return err
		}
	}
	w.out = append(w.out, ']')
	return nil
}

func (w *jqWriter) object(object map[string]any) error {
	keys := make([]string, 0, len(object))
	for key := range object {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	w.out = append(w.out, '{')
	for i, key := range keys {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.out = value.AppendString(w.out, key)
		w.out = append(w.out, ':')
		if err := w.append(object[key]); err != nil {
			return err
		}
	}
	w.out = append(w.out, '}')
	return nil
}
