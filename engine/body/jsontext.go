package body

import (
	"bytes"
	"fmt"
)

// maxNesting is how deep JSON may nest.
const maxNesting = 1000

// jsonError says what is wrong with a JSON text, and at which byte of it.
type jsonError struct {
	at   int
	what string
}

func (e *jsonError) Error() string { return e.what }

// jsonText reads the JSON values of a text one after another. It is stricter
// than encoding/json: no duplicate keys, no byte order mark, no invalid UTF-8.
// A value is a part of the text itself, made compact in place: reading costs no
// memory, and numbers and strings stay as they were written.
type jsonText struct {
	src   []byte
	pos   int
	end   int      // values end here at the latest
	depth int      // of the value being read
	loose bool     // it has white space outside of strings
	keys  [][]byte // of the objects being read, innermost last
}

// newJSONText prepares a text for reading, which must be valid UTF-8.
func newJSONText(src []byte) (*jsonText, error) {
	t := &jsonText{src: src, end: len(src)}
	if bytes.HasPrefix(src, []byte("\xEF\xBB\xBF")) {
		return nil, &jsonError{0, "a byte order mark is not allowed here"}
	}
	if at := firstInvalid(src); at >= 0 {
		return nil, &jsonError{at, fmt.Sprintf("not valid UTF-8: byte 0x%02x", src[at])}
	}
	return t, nil
}

// oneJSON reads a text that is exactly one value.
func oneJSON(src []byte) ([]byte, error) {
	t, err := newJSONText(src)
	if err != nil {
		return nil, err
	}
	if t.atEnd() {
		return nil, &jsonError{len(src), "expected a JSON value, got nothing"}
	}
	v, err := t.next()
	if err != nil {
		return nil, err
	}
	if !t.atEnd() {
		return nil, t.errorf("expected nothing after the value, got %s", t.here())
	}
	return v, nil
}

// atEnd reports whether only white space is left.
func (t *jsonText) atEnd() bool {
	t.space()
	return t.pos >= t.end
}

// next reads the next value and returns it compact.
func (t *jsonText) next() ([]byte, error) {
	t.space()
	start := t.pos
	t.loose = false
	if err := t.value(); err != nil {
		return nil, err
	}
	v := t.src[start:t.pos:t.pos]
	if t.loose {
		v = compact(v)
	}
	return v, nil
}

// compact takes the white space outside of strings out of valid JSON, in place.
func compact(v []byte) []byte {
	out := v[:0]
	for i := 0; i < len(v); i++ {
		switch v[i] {
		case ' ', '\t', '\n', '\r':
			continue
		case '"':
			end := stringEnd(v, i)
			out = append(out, v[i:end]...)
			i = end - 1
		default:
			out = append(out, v[i])
		}
	}
	return out[:len(out):len(out)]
}

func (t *jsonText) space() {
	for t.pos < t.end {
		switch t.src[t.pos] {
		case ' ', '\t', '\n', '\r':
			t.pos++
			t.loose = true
		default:
			return
		}
	}
}

func (t *jsonText) errorf(format string, args ...any) error {
	return &jsonError{t.pos, fmt.Sprintf(format, args...)}
}

// here is what stands at the current position, for a message.
func (t *jsonText) here() string {
	if t.pos >= t.end {
		return "the end"
	}
	return quote(t.src[t.pos:min(t.end, t.pos+quoteLimit+1)])
}

func (t *jsonText) value() error {
	if t.pos >= t.end {
		return t.errorf("expected a value, got the end")
	}
	switch c := t.src[t.pos]; {
	case c == '"':
		_, err := t.str()
		return err
	case c == '-' || c >= '0' && c <= '9':
		return t.number()
	case c == '{':
		return t.nested(t.object)
	case c == '[':
		return t.nested(t.array)
	case c == 't':
		return t.word("true")
	case c == 'f':
		return t.word("false")
	case c == 'n':
		return t.word("null")
	}
	return t.errorf("expected a value, got %s", t.here())
}

func (t *jsonText) word(word string) error {
	if !bytes.HasPrefix(t.src[t.pos:t.end], []byte(word)) {
		return t.errorf("expected a value, got %s", t.here())
	}
	t.pos += len(word)
	return nil
}

func (t *jsonText) nested(read func() error) error {
	if t.depth++; t.depth > maxNesting {
		return t.errorf("nested deeper than %d", maxNesting)
	}
	err := read()
	t.depth--
	return err
}

func (t *jsonText) array() error {
	t.pos++
	if t.space(); t.at(']') {
		return nil
	}
	for {
		t.space()
		if err := t.value(); err != nil {
			return err
		}
		if t.space(); t.at(']') {
			return nil
		}
		if !t.at(',') {
			return t.errorf("expected , or ] in a list, got %s", t.here())
		}
	}
}

func (t *jsonText) object() error {
	t.pos++
	if t.space(); t.at('}') {
		return nil
	}
	base := len(t.keys)
	var many map[string]bool
	for {
		t.space()
		if err := t.key(base, &many); err != nil {
			return err
		}
		t.space()
		if !t.at(':') {
			return t.errorf("expected : after a key, got %s", t.here())
		}
		t.space()
		if err := t.value(); err != nil {
			return err
		}
		if t.space(); t.at('}') {
			t.keys = t.keys[:base]
			return nil
		}
		if !t.at(',') {
			return t.errorf("expected , or } in an object, got %s", t.here())
		}
	}
}

// at steps over c, if that is what comes.
func (t *jsonText) at(c byte) bool {
	if t.pos < t.end && t.src[t.pos] == c {
		t.pos++
		return true
	}
	return false
}

// key reads a key and refuses one that the object has already. Few keys are
// compared one by one, more through a map.
func (t *jsonText) key(base int, many *map[string]bool) error {
	const few = 16
	start := t.pos
	if start >= t.end || t.src[start] != '"' {
		return t.errorf("expected a key in double quotes, got %s", t.here())
	}
	escaped, err := t.str()
	if err != nil {
		return err
	}
	key := t.src[start+1 : t.pos-1]
	if escaped {
		key = unescape(t.src[start:t.pos])
	}
	twice := false
	if *many == nil && len(t.keys)-base < few {
		for _, k := range t.keys[base:] {
			twice = twice || bytes.Equal(k, key)
		}
		t.keys = append(t.keys, key)
	} else {
		if *many == nil {
			*many = map[string]bool{}
			for _, k := range t.keys[base:] {
				(*many)[string(k)] = true
			}
		}
		twice = (*many)[string(key)]
		(*many)[string(key)] = true
	}
	if twice {
		t.pos = start
		return t.errorf("the key %s is there twice", quote(t.src[start:stringEnd(t.src, start)]))
	}
	return nil
}

// kindOf names what a JSON value is.
func kindOf(v []byte) string {
	if len(v) == 0 {
		return "nothing"
	}
	switch v[0] {
	case '{':
		return "object"
	case '[':
		return "list"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}
