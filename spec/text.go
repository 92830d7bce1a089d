package spec

import (
	"sort"
	"unicode/utf8"
)

// text is the document, and turns the places in it into one another: the lines
// and columns of the YAML parser, offsets in bytes, and the lines and columns
// that an editor shows. The first and the last differ: YAML also ends a line at
// a lone CR, NEL, LS and PS.
type text struct {
	src    []byte // without a byte order mark
	yaml   []int  // where each line begins, as the YAML parser counts
	editor []int  // where each line begins, as editors count
	runes  []int  // how many code points begin before each block of the document
}

// block is how many bytes apart code points are counted: it bounds what finding
// a column costs in a document that is one long line.
const block = 1024

// span is a stretch of the document, in bytes.
type span struct{ start, end int }

func newText(src []byte) *text {
	t := &text{src: src, yaml: []int{0}, editor: []int{0}}
	runes := 0
	for i := 0; i < len(src); i++ {
		if i%block == 0 {
			t.runes = append(t.runes, runes)
		}
		if utf8.RuneStart(src[i]) {
			runes++
		}
		switch c := src[i]; {
		case c == '\n':
			t.yaml, t.editor = append(t.yaml, i+1), append(t.editor, i+1)
		case c == '\r' && (i+1 == len(src) || src[i+1] != '\n'):
			t.yaml = append(t.yaml, i+1)
		case c == 0xC2 && i+1 < len(src) && src[i+1] == 0x85:
			t.yaml = append(t.yaml, i+2)
		case c == 0xE2 && i+2 < len(src) && src[i+1] == 0x80 && (src[i+2] == 0xA8 || src[i+2] == 0xA9):
			t.yaml = append(t.yaml, i+3)
		}
	}
	return t
}

// runesBefore is how many code points begin before offset.
func (t *text) runesBefore(offset int) int {
	if len(t.runes) == 0 {
		return 0
	}
	k := min(offset/block, len(t.runes)-1)
	n := t.runes[k]
	for _, c := range t.src[k*block : offset] {
		if utf8.RuneStart(c) {
			n++
		}
	}
	return n
}

// offset is the byte at a line and column of the YAML parser, both from 1. A
// place outside the document becomes the nearest one inside.
func (t *text) offset(line, column int) int {
	line = min(max(line, 1), len(t.yaml))
	at, end := t.yaml[line-1], len(t.src)
	if line < len(t.yaml) {
		end = t.yaml[line]
	}
	want := t.runesBefore(at) + column - 1
	if k := sort.SearchInts(t.runes, want+1) - 1; k*block > at {
		at = min(k*block, end)
	}
	for n := t.runesBefore(at); at < end; at++ {
		if utf8.RuneStart(t.src[at]) {
			if n == want {
				break
			}
			n++
		}
	}
	return at
}

// line is the editor's line that holds a byte, from 1.
func (t *text) line(offset int) int {
	return sort.SearchInts(t.editor, offset+1)
}

// position is the editor's line and column of a byte, both from 1.
func (t *text) position(offset int) (line, column int) {
	offset = min(max(offset, 0), len(t.src))
	line = t.line(offset)
	return line, 1 + t.runesBefore(offset) - t.runesBefore(t.editor[line-1])
}

// rangeOf is s as an editor counts.
func (t *text) rangeOf(s span) Range {
	var r Range
	r.Line, r.Column = t.position(s.start)
	r.EndLine, r.EndColumn = t.position(max(s.start, s.end))
	return r
}

// slice is the text of s.
func (t *text) slice(s span) string {
	start := min(max(s.start, 0), len(t.src))
	return string(t.src[start:min(max(s.end, start), len(t.src))])
}

// lineEnd is where the editor's line that holds offset ends, white space at its
// end left out.
func (t *text) lineEnd(offset int) int {
	end := offset
	for end < len(t.src) && t.src[end] != '\n' {
		end++
	}
	for end > offset && (t.src[end-1] == ' ' || t.src[end-1] == '\t' || t.src[end-1] == '\r') {
		end--
	}
	return end
}
