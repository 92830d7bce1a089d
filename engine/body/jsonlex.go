package body

import "encoding/json"

// plain are the bytes that a string may hold as they are; UTF-8 was checked.
var plain = func() (t [256]bool) {
	for c := 0x20; c < 256; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// str steps over a string and reports whether it has escapes.
func (t *jsonText) str() (escaped bool, err error) {
	start := t.pos
	src := t.src[:t.end]
	i := start + 1
	for {
		for i < len(src) && plain[src[i]] {
			i++
		}
		if i >= len(src) {
			t.pos = start
			return escaped, t.errorf("a string is not closed: %s", t.here())
		}
		switch src[i] {
		case '"':
			t.pos = i + 1
			return escaped, nil
		case '\\':
			escaped = true
			n := escapeLen(src[i:])
			if n == 0 {
				t.pos = i
				return escaped, t.errorf("not an escape that JSON knows: %s", t.here())
			}
			i += n
		default:
			t.pos = i
			return escaped, t.errorf("a control character in a string must be escaped: %s", t.here())
		}
	}
}

// escapeLen is the length of the escape at the front of b, 0 if it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, c := range b[2:6] {
			if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
				return 0
			}
		}
		return 6
	}
	return 0
}

func (t *jsonText) number() error {
	n := numberLen(t.src[t.pos:t.end])
	if n == 0 {
		return t.errorf("not a JSON number: %s", t.here())
	}
	t.pos += n
	return nil
}

// numberLen is the length of the JSON number at the front of b, 0 if there is
// none.
func numberLen(b []byte) int {
	i := 0
	if i < len(b) && b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	case digits(b[i:]) > 0:
		i += digits(b[i:])
	default:
		return 0
	}
	if i < len(b) && b[i] >= '0' && b[i] <= '9' {
		return 0 // a leading zero
	}
	if i < len(b) && b[i] == '.' {
		n := digits(b[i+1:])
		if n == 0 {
			return 0
		}
		i += 1 + n
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		n := digits(b[i:])
		if n == 0 {
			return 0
		}
		i += n
	}
	return i
}

func digits(b []byte) int {
	n := 0
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return n
}

// stringEnd is the offset behind the string that begins at v[i].
func stringEnd(v []byte, i int) int {
	for i++; i < len(v) && v[i] != '"'; i++ {
		if v[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(v))
}

func unescape(literal []byte) []byte {
	var s string
	if json.Unmarshal(literal, &s) != nil {
		return literal // not reached: it has been read as a string
	}
	return []byte(s)
}
