package spec

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Where nodes stand in the document. The parser says where each begins; where it
// ends, and where a part of a scalar's text lies, is found in the source.

// content is where a node's own text begins, behind its anchor and tag.
func (t *text) content(at int) int {
	for at < len(t.src) && (t.src[at] == '&' || t.src[at] == '!') {
		end := at
		for end < len(t.src) && t.src[end] > ' ' && !strings.ContainsRune(",[]{}", rune(t.src[end])) {
			end++
		}
		next := t.skipSpace(end)
		if next == end {
			return at
		}
		at = next
	}
	return at
}

// bracketEnd is where a list or mapping in brackets ends, the last thing in it
// having ended at.
func (t *text) bracketEnd(at int) int {
	for {
		at = t.skipSpace(at)
		switch {
		case at >= len(t.src):
			return len(t.src)
		case t.src[at] == ']' || t.src[at] == '}':
			return at + 1
		}
		at++
	}
}

// skipSpace is the first byte from at on that is neither white space nor in a
// comment.
func (t *text) skipSpace(at int) int {
	for at < len(t.src) {
		switch c := t.src[at]; {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			at++
		case c == '#':
			for at < len(t.src) && t.src[at] != '\n' {
				at++
			}
		default:
			return at
		}
	}
	return at
}

// scalarEnd is where the text of a scalar ends: behind a closing quote, a plain
// scalar's last character on its first line, or a block scalar's indicator.
func (t *text) scalarEnd(n *node) int {
	at := n.at.start
	switch {
	case n.style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		return t.quoteEnd(at)
	case n.style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return min(at+1, len(t.src))
	case n.text == "":
		return at
	case bytes.HasPrefix(t.src[at:], []byte(n.text)):
		return at + len(n.text)
	}
	return t.lineEnd(at)
}

func (t *text) quoteEnd(at int) int {
	if at >= len(t.src) {
		return at
	}
	quote := t.src[at]
	for i := at + 1; i < len(t.src); i++ {
		switch {
		case t.src[i] == '\\' && quote == '"':
			i++
		case t.src[i] == quote && quote == '\'' && i+1 < len(t.src) && t.src[i+1] == quote:
			i++
		case t.src[i] == quote:
			return i + 1
		}
	}
	return len(t.src)
}

// inside is the place in the document of the i-th byte of a scalar's text, or
// the scalar's own place where folding hides it.
func (t *text) inside(n *node, i int) int {
	i = min(i, len(n.text))
	switch {
	case n.style&yaml.LiteralStyle != 0:
		return t.insideBlock(n, i)
	case n.style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		return t.insideQuotes(n, i)
	case n.style&yaml.FoldedStyle == 0 && t.has(n.at.start, n.text[:i]):
		return n.at.start + i
	}
	return n.at.start
}

// has reports whether text stands at offset.
func (t *text) has(offset int, text string) bool {
	return offset+len(text) <= len(t.src) && string(t.src[offset:offset+len(text)]) == text
}

// insideQuotes goes through a quoted scalar, an escape at a time.
func (t *text) insideQuotes(n *node, i int) int {
	at := n.at.start
	if at >= len(t.src) {
		return at
	}
	quote := t.src[at]
	at++
	for done := 0; done < i; {
		written, stands := 1, 1
		switch {
		case at+1 >= n.at.end || t.src[at] == '\n' || t.src[at] == '\r':
			return n.at.start // folded, or not what it seems
		case t.src[at] == '\\' && quote == '"':
			written, stands = escape(t.src[at:n.at.end])
		case t.src[at] == quote:
			written = 2
		}
		if written == 0 {
			return n.at.start
		}
		at, done = at+written, done+stands
	}
	return at
}

// escape is how many bytes the escape at the start of src takes as written, and
// how many it stands for; zero if that is not known.
func escape(src []byte) (written, stands int) {
	if len(src) < 2 {
		return 0, 0
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[src[1]]
	if digits == 0 {
		if bytes.IndexByte([]byte("0abtnvfre \"/\\\t"), src[1]) < 0 {
			return 0, 0
		}
		return 2, 1
	}
	if len(src) < 2+digits {
		return 0, 0
	}
	code, err := strconv.ParseUint(string(src[2:2+digits]), 16, 32)
	if err != nil {
		return 0, 0
	}
	return 2 + digits, utf8.RuneLen(rune(code))
}

// insideBlock finds a byte of a literal block scalar: its lines are the
// document's, less their indentation.
func (t *text) insideBlock(n *node, i int) int {
	lines := strings.Split(n.text[:i], "\n")
	header := t.line(n.at.start)
	column := len(lines[len(lines)-1])
	line := header + len(lines) - 1
	indent := t.blockIndent(n, header)
	if line >= len(t.editor) || indent < 0 {
		return n.at.start
	}
	at := t.editor[line] + indent
	if !t.has(at, lines[len(lines)-1]) {
		return n.at.start
	}
	return at + column
}

// blockIndent is the indentation of a block scalar whose indicator stands on
// the line header: what the document has more than the text on the first line
// that is not blank.
func (t *text) blockIndent(n *node, header int) int {
	for k, line := range strings.SplitN(n.text, "\n", len(t.editor)) {
		if strings.TrimSpace(line) == "" || header+k >= len(t.editor) {
			continue
		}
		start := t.editor[header+k]
		return bytes.Index(t.src[start:t.lineEnd(start)], []byte(strings.TrimRight(line, " \t")))
	}
	return -1
}
