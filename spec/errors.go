package spec

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Range is a stretch of the pipeline file: from (Line, Column) up to, not
// including, (EndLine, EndColumn). Lines and columns count from 1, columns in
// code points; a line ends at LF, and a byte order mark at the start of the
// file is not counted. The zero Range is no place in the file.
type Range struct{ Line, Column, EndLine, EndColumn int }

// Error is one thing wrong with a pipeline file.
type Error struct {
	File    string
	Range   Range
	Rule    string // stable short name of the rule broken, such as "unknown-key"
	Message string // the rule in the user's terms, lower case, without a full stop
	Found   string // the offending text, "" if none
	Mend    string // what to do about it, "" if nothing short can be said
	Notes   []Note // other places that belong to it
}

// Note points at another place that an error speaks of.
type Note struct {
	Range   Range
	Message string
}

// Errors are all that is wrong with a pipeline file, in the order of the file.
// It is an error; an empty one means that nothing is wrong.
type Errors []*Error

// Error is e on one line: file:line:column: message (found "…"); mend.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		b.WriteByte(':')
	}
	if e.Range.Line > 0 {
		b.WriteString(strconv.Itoa(e.Range.Line))
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(e.Range.Column))
		b.WriteByte(':')
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	b.WriteString(e.Message)
	if e.Found != "" {
		b.WriteString(" (found ")
		b.WriteString(strconv.Quote(e.Found))
		b.WriteByte(')')
	}
	if e.Mend != "" {
		b.WriteString("; ")
		b.WriteString(e.Mend)
	}
	return b.String()
}

// Error is all of them, a line each.
func (es Errors) Error() string {
	var b strings.Builder
	for _, e := range es {
		b.WriteString(e.Error())
		b.WriteByte('\n')
	}
	return b.String()
}

// maxErrors is how many errors of one file are reported: past that the rest
// says nothing new, and a file of a million wrong keys stays readable.
const maxErrors = 1000

// maxFound is how much of an offending text is quoted, in runes.
const maxFound = 60

// inOrder sorts es by place, takes out what is said twice of one place (an
// anchored mistake is met once for each alias), and bounds its number. What
// has no place in the file comes first.
func (es Errors) inOrder() Errors {
	slices.SortStableFunc(es, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Range.Line, b.Range.Line), cmp.Compare(a.Range.Column, b.Range.Column))
	})
	es = slices.CompactFunc(es, func(a, b *Error) bool {
		return a.Range == b.Range && a.Rule == b.Rule && a.Message == b.Message
	})
	if len(es) > maxErrors {
		last := es[maxErrors]
		es = append(es[:maxErrors:maxErrors], &Error{
			File: last.File, Range: last.Range, Rule: "limit",
			Message: "there are more errors from here on",
		})
	}
	return es
}

// quotable is text cut to what an error quotes: its first line, at most
// maxFound runes of it.
func quotable(text string) string {
	text, more, _ := strings.Cut(text, "\n")
	text = strings.TrimRight(text, "\r")
	runes := 0
	for i := range text {
		if runes == maxFound {
			return text[:i] + "…"
		}
		runes++
	}
	if strings.TrimSpace(more) != "" {
		text += "…"
	}
	return text
}
