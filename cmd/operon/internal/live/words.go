package live

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Job names a job: its task and, where there is one, its coordinate.
func Job(task, at string) string {
	if at == "" {
		return task
	}
	return task + " at " + at
}

// oneLine is text on one line, without control characters.
func oneLine(text string) string {
	return printable(strings.Join(strings.Fields(text), " "))
}

// cut is what fits of a line that a job printed, without its colours.
func cut(line string, columns int) string {
	return ansi.Truncate(printable(ansi.Strip(line)), columns, "…")
}

// printable is a line without control characters: what a job prints must not
// move the cursor of who reads about it.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r < 0x20, r >= 0x7f && r < 0xa0:
			return '\ufffd'
		}
		return r
	}, line)
}
