package spec

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// report collects what is wrong with one document.
type report struct {
	file     string
	text     *text
	errs     Errors
	warnings Errors
	guesses  int // how often a name was looked for among others
}

// maxGuesses bounds the search for the names that unknown ones were meant to be:
// each compares with all, and both may be many.
const maxGuesses = 100

// didYouMean is the mend that offers the nearest known name, as long as not too
// many were wrong before.
func (r *report) didYouMean(name string, known []string) string {
	r.guesses++
	if r.guesses > maxGuesses {
		return ""
	}
	return didYouMean(name, known)
}

// nearest is Nearest under the same bound.
func (r *report) nearest(name string, known []string) string {
	r.guesses++
	if r.guesses > maxGuesses {
		return ""
	}
	return Nearest(name, known)
}

// errorf reports an error at a place of the document, which is quoted.
func (r *report) errorf(at span, rule, mend, format string, args ...any) *Error {
	if len(r.errs) > 4*maxErrors {
		return &Error{} // never shown: Load keeps the first of them
	}
	e := r.say(at, rule, mend, fmt.Sprintf(format, args...))
	r.errs = append(r.errs, e)
	return e
}

// warnf reports what is legal but most likely not meant.
func (r *report) warnf(at span, rule, mend, format string, args ...any) *Error {
	e := r.say(at, rule, mend, fmt.Sprintf(format, args...))
	r.warnings = append(r.warnings, e)
	return e
}

func (r *report) say(at span, rule, mend, message string) *Error {
	return &Error{
		File:    r.file,
		Range:   r.text.rangeOf(at),
		Rule:    rule,
		Message: oneLine(message),
		Found:   quotable(strings.TrimRight(r.text.slice(at), " \t\r\n")),
		Mend:    oneLine(mend),
	}
}

// oneLine is text with what would break a line or a terminal written as in Go.
func oneLine(text string) string {
	if strings.IndexFunc(text, unicode.IsControl) < 0 {
		return text
	}
	var b strings.Builder
	for _, c := range text {
		if !unicode.IsControl(c) {
			b.WriteRune(c)
			continue
		}
		quoted := strconv.QuoteRune(c)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// note adds another place that e speaks of.
func (e *Error) note(at Range, message string) *Error {
	e.Notes = append(e.Notes, Note{Range: at, Message: message})
	return e
}

// within is the stretch of the document that bytes start to end of a scalar's
// text take, as far as that can be told.
func (r *report) within(n *node, start, end int) span {
	at := r.text.inside(n, start)
	if at == n.at.start && start > 0 {
		return n.at
	}
	return span{at, min(max(at+end-start, at), len(r.text.src))}
}
