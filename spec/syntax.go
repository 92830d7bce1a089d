package spec

import (
	"regexp"
	"strconv"
	"strings"

	"operon/spec/internal/yamlmark"
)

// syntaxError reports what the YAML parser would not read, in the user's terms
// as far as they are known.
func (r *report) syntaxError(err error) {
	p, found := yamlmark.Find(r.text.src)
	if !found && strings.Contains(err.Error(), "<document start>") {
		r.secondDocument(r.roughly(err))
		return
	}
	if !found {
		r.errorf(r.roughly(err), "yaml", "", "this is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return
	}
	at := r.text.offset(p.At.Line, p.At.Column)
	opened := at
	if p.Opened.Line > 0 {
		opened = r.text.offset(p.Opened.Line, p.Opened.Column)
	}
	s := explain(p, r.text, at)
	if s.atOpening {
		at = opened
	}
	e := r.errorf(span{at, r.text.lineEnd(at)}, "yaml", s.mend, "%s", s.message)
	if opened != at {
		e.note(r.text.rangeOf(span{opened, r.text.lineEnd(opened)}), strings.TrimPrefix(p.Context, "while ")+" that begins here")
	}
}

var lineInMessage = regexp.MustCompile(`line (\d+)`)

// roughly is the line that the parser's own message names.
func (r *report) roughly(err error) span {
	m := lineInMessage.FindStringSubmatch(err.Error())
	if m == nil {
		return span{}
	}
	line, _ := strconv.Atoi(m[1])
	at := r.text.offset(line, 1)
	return span{at, r.text.lineEnd(at)}
}

// explanation is a syntax error in the user's terms.
type explanation struct {
	message, mend string
	atOpening     bool // the place to show is where the construct began
}

func explain(p yamlmark.Problem, t *text, at int) explanation {
	has := func(s string) bool { return strings.Contains(p.Message, s) }
	switch {
	case t.tabAt(at):
		return explanation{"a tab can't indent", "use spaces", false}
	case has("cannot start any token"):
		return explanation{"a text can't begin with this character", "put it in quotes", false}
	case has("unexpected end of stream") && strings.Contains(p.Context, "quoted"):
		return explanation{"the quote is not closed", "close it, or write a long text as a block: `key: |`", true}
	case has("did not find expected node content"):
		return explanation{"a value is missing here", "write null or \"\" for none, and close what is opened", false}
	case has("',' or ']'") || strings.Contains(p.Context, "flow sequence"):
		return explanation{"a `,` or a `]` is missing", "close the list, or put quotes around a text that holds commas or brackets", false}
	case has("',' or '}'") || strings.Contains(p.Context, "flow mapping"):
		return explanation{"a `,` or a `}` is missing", "close the mapping, or put quotes around a text that holds commas or braces", false}
	case has("could not find expected ':'"):
		return explanation{"a key without a `:` after it", "write `key: value`; a text of several lines needs `|` and indentation", true}
	case has("mapping values are not allowed"):
		return explanation{"a `: ` can't stand in a text without quotes", "put the text in quotes, or write it as a block: `key: |`", false}
	case has("block sequence entries are not allowed"):
		return explanation{"a list can't begin on the line of its key", "put each `- item` on a line of its own", false}
	case has("unknown anchor"):
		return explanation{p.Message, "an anchor, `&name`, must stand before its alias", false}
	case has("did not find expected key"):
		return explanation{"a key is expected here", "check the indentation, and that nothing follows a closed quote or bracket", false}
	case has("'-' indicator"):
		return explanation{"the next `- item` of the list is expected here", "check the indentation", false}
	}
	message := p.Message
	if p.Context != "" {
		message = p.Context + ": " + message
	}
	return explanation{"this is not YAML: " + message, "", false}
}

// tabAt reports whether a tab stands at offset, or in the indentation before it.
func (t *text) tabAt(offset int) bool {
	if offset < len(t.src) && t.src[offset] == '\t' {
		return true
	}
	for i := offset - 1; i >= 0 && (t.src[i] == ' ' || t.src[i] == '\t'); i-- {
		if t.src[i] == '\t' {
			return true
		}
	}
	return false
}
