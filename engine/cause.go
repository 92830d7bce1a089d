package engine

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// normalise is the cause of a failure: its message, and the last line of standard
// error, which tells most about an exit status, with what differs from job to job
// of one cause made alike. The status itself stays, and whether memory ran out.
func normalise(f *Failed) string {
	message, _, _ := strings.Cut(strings.TrimSpace(f.Message), "\n")
	cause, _, noMemory := strings.Cut(message, " (out of memory: ")
	if strings.HasPrefix(cause, "exit status ") {
		cause, _, _ = strings.Cut(cause, " (") // what was measured of this one
	}
	cause = alike(cause, f.Labels)
	if noMemory {
		cause += " (out of memory)"
	}
	if last := lastSaid(f.Stderr); last != "" {
		cause += ": " + alike(last, f.Labels)
	}
	return cause
}

// lastSaid is the last line of what a program printed that says something, as a
// terminal shows it: without colours, and of a line that was written over what
// stood there last.
func lastSaid(text []byte) string {
	said := strings.TrimSpace(escapes.ReplaceAllString(string(text), ""))
	return strings.TrimSpace(said[strings.LastIndexAny(said, "\r\n")+1:])
}

// escapes move a terminal's cursor or set its colours.
var escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))`)

// alike puts a sign in the place of what tells one job from another: the labels of
// its indices, text in quotes, paths, digests, addresses and numbers.
func alike(text string, labels []string) string {
	for _, label := range labels {
		text = withoutWord(text, label)
	}
	text = quoted.ReplaceAllString(text, "$1…")
	text = paths.ReplaceAllString(text, "$1…")
	text = figures.ReplaceAllStringFunc(text, func(figure string) string {
		if unicode.IsLetter(rune(figure[0])) && strings.Contains(figure, " ") {
			return figure // a status
		}
		return "#"
	})
	return several.ReplaceAllString(text, "$1")
}

var (
	// quoted does not begin inside a word: an apostrophe opens nothing.
	quoted = regexp.MustCompile("(^|[^\\pL\\pN_])(?:\"[^\"]*\"|'(?:[\\pL\\pN]'[\\pL\\pN]|[^'])*'|`[^`']*'|‘[^’]*’|“[^”]*”|«[^»]*»)")
	// paths have a separator; what stands around them does not belong to them.
	paths = regexp.MustCompile(`(^|[\s:=,;({\[<>"'|])[\w.~@%+…-]*(?:/+[^\s/:;,(){}\[\]<>"'|]+)+/?`)
	// figures are statuses, which stay, then what is written with digits.
	figures = regexp.MustCompile(`(?i:\b(?:exit (?:status|code)|status(?: code)?|http(?:/[\d.]+)?|errno|signal) \d+)` +
		`|\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b` +
		`|0[xX][0-9a-fA-F]+` +
		`|[-+]?(?:\b[0-9a-fA-F]{7,}\b|\d+)(?:[.,:]\d+)*(?:[eE][-+]?\d+)?`)
	// several are a list, which may be of any length.
	several = regexp.MustCompile(`([#…])(?:, ?[#…])+`)
)

// withoutWord puts a sign in the place of a word. A single letter is none: it may
// be anything.
func withoutWord(text, word string) string {
	if utf8.RuneCountInString(word) < 2 {
		return text
	}
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }
	var out strings.Builder
	for {
		at := strings.Index(text, word)
		if at < 0 {
			out.WriteString(text)
			return out.String()
		}
		end := at + len(word)
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[end:])
		out.WriteString(text[:at])
		if at > 0 && inWord(before) || end < len(text) && inWord(after) {
			out.WriteString(word)
		} else {
			out.WriteString("…")
		}
		text = text[end:]
	}
}
