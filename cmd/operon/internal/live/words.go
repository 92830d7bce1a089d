package live

import "strings"

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
