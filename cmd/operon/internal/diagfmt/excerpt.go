package diagfmt

import (
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"operon/spec"
)

const (
	maxColumns = 110 // of a line that is shown; the rest is cut
	before     = 40  // what is kept before the place where the front is cut
	tabWidth   = 4
)

// caret is what stands under a line.
type caret struct{ indent, marks string }

// excerpt is what is shown of a line, and the marks under the range. A range
// that goes on below is marked to the end of the line.
func excerpt(line string, r spec.Range) (string, caret) {
	runes := []rune(strings.TrimRight(line, "\r"))
	start := min(max(r.Column-1, 0), len(runes))
	end := len(runes)
	if r.EndLine == r.Line {
		end = min(max(r.EndColumn-1, start), len(runes))
	}
	front := ""
	from := 0
	if width(runes[:end]) > maxColumns && start > before {
		from, front = start-before, "…"
	}
	upTo, back := fitting(runes, from)
	if upTo < len(runes) {
		back = "…"
	}
	end = min(end, upTo)
	start = min(start, end)
	text := front + show(runes[from:upTo]) + back
	indent := ansi.StringWidth(front) + width(runes[from:start])
	marks := max(width(runes[start:end]), 1)
	return text, caret{strings.Repeat(" ", indent), strings.Repeat("^", marks)}
}

// fitting is how far runes fit into a line when they start at from.
func fitting(runes []rune, from int) (upTo int, back string) {
	cells := 0
	for i := from; i < len(runes); i++ {
		cells += width(runes[i : i+1])
		if cells > maxColumns {
			return i, "…"
		}
	}
	return len(runes), ""
}

func width(runes []rune) int { return ansi.StringWidth(show(runes)) }

// show is text as it may go to a terminal: tabs as blanks, every other control
// character as a mark.
func show(runes []rune) string {
	var b strings.Builder
	for _, r := range runes {
		switch {
		case r == '\t':
			b.WriteString(strings.Repeat(" ", tabWidth))
		case unicode.IsControl(r), r == '\u202e', r == '\u2066', r == '\u2067', r == '\u2068', r == '\u2069', r == '\u202a', r == '\u202b', r == '\u202d':
			b.WriteRune('\ufffd')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func clean(text string) string { return show([]rune(text)) }
