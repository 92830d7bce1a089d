package term

import (
	"os"

	xterm "golang.org/x/term"
)

// The size of what is no terminal.
const (
	DefaultColumns = 80
	DefaultRows    = 24
)

// Facts are what a stream is good for.
type Facts struct {
	Terminal bool // somebody looks at it
	Color    bool // it takes colour
	Live     bool // what was written may be overwritten
}

// Of finds the facts of a stream. getenv is os.Getenv, or a test's.
func Of(f *os.File, getenv func(string) string) Facts {
	return decide(xterm.IsTerminal(int(f.Fd())), getenv)
}

func decide(terminal bool, getenv func(string) string) Facts {
	able := terminal && getenv("TERM") != "dumb"
	facts := Facts{Terminal: terminal, Color: able, Live: able && getenv("CI") == ""}
	if force := getenv("CLICOLOR_FORCE"); force != "" && force != "0" {
		facts.Color = true
	}
	if getenv("NO_COLOR") != "" {
		facts.Color = false
	}
	return facts
}

// Size is how many columns and rows f has at the moment.
func Size(f *os.File) (columns, rows int) {
	columns, rows, err := xterm.GetSize(int(f.Fd()))
	if err != nil || columns <= 0 || rows <= 0 {
		return DefaultColumns, DefaultRows
	}
	return columns, rows
}

// Style is a way to write a word.
type Style string

const (
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Blue   Style = "34"
	Cyan   Style = "36"
)

// Paint is text in a style, or text as it is where there is no colour.
func (f Facts) Paint(s Style, text string) string {
	if !f.Color || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}
