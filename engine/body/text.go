package body

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// quoteLimit is how much of what came a message shows.
const quoteLimit = 80

// quote is the head of raw as a message may show it: on one line, without
// anything that a terminal would obey.
func quote(raw []byte) string { return quoteUpTo(raw, quoteLimit) }

// messageLimit is how much of another program's message is passed on.
const messageLimit = 500

// quoteUpTo is quote with another limit, in bytes.
func quoteUpTo(raw []byte, limit int) string {
	var b strings.Builder
	cut := len(raw) > limit
	if cut {
		raw = raw[:limit]
		for len(raw) > limit-utf8.UTFMax && !utf8.FullRune(lastRune(raw)) {
			raw = raw[:len(raw)-1]
		}
	}
	for len(raw) > 0 {
		r, n := utf8.DecodeRune(raw)
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteString(`\x`)
			b.WriteString(strconv.FormatUint(uint64(raw[0])|0x100, 16)[1:])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
		raw = raw[n:]
	}
	if cut {
		b.WriteString("…")
	}
	return b.String()
}

// lastRune is what raw ends with, from the last byte that begins a rune.
func lastRune(raw []byte) []byte {
	for i := len(raw) - 1; i >= 0 && i >= len(raw)-utf8.UTFMax; i-- {
		if utf8.RuneStart(raw[i]) {
			return raw[i:]
		}
	}
	return raw
}

// place tells where byte at of text is, from 1: its line, and the byte in it.
func place(text []byte, at int) (line, column int) {
	head := text[:min(at, len(text))]
	return bytes.Count(head, []byte{'\n'}) + 1, len(head) - bytes.LastIndexByte(head, '\n')
}

// firstInvalid is the offset of the first byte that is no valid UTF-8, or -1.
func firstInvalid(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	for i := 0; ; {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
}

// safeName makes one file name of text: no separators, no control characters,
// not . or .., and short enough for every file system.
func safeName(text string) string {
	const limit = 255 // bytes
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || unicode.IsControl(r) || r == utf8.RuneError {
			return '_'
		}
		return r
	}, text)
	if strings.Trim(name, ".") == "" {
		name = strings.ReplaceAll(name, ".", "_")
	}
	if name == "" {
		return "_"
	}
	return shorten(name, limit)
}

// shorten cuts name to limit bytes and keeps a short extension.
func shorten(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	ext := ""
	if i := strings.LastIndexByte(name, '.'); i > 0 && len(name)-i <= 32 {
		ext = name[i:]
	}
	keep := limit - len(ext)
	for keep > 0 && !utf8.RuneStart(name[keep]) {
		keep--
	}
	return name[:keep] + ext
}
