package diagfmt

import (
	"fmt"
	"io"
	"strings"

	"operon/cmd/operon/internal/term"
	"operon/spec"
)

// Severity is how bad a finding is.
type Severity string

const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Printer shows findings to a person.
type Printer struct {
	Out   io.Writer
	Facts term.Facts
	// Source is the text of a file that a finding names, nil if it can't be
	// had: then the finding is shown without its line.
	Source func(file string) []byte
}

// Print shows findings in their order.
func (p *Printer) Print(sev Severity, errs spec.Errors) error {
	for _, e := range errs {
		if _, err := io.WriteString(p.Out, p.one(sev, e)); err != nil {
			return err
		}
	}
	return nil
}

func (p *Printer) one(sev Severity, e *spec.Error) string {
	src := p.lines(e.File)
	gutter := gutterWidth(e)
	var b strings.Builder
	color := term.Red
	if sev == SeverityWarning {
		color = term.Yellow
	}
	fmt.Fprintf(&b, "%s%s %s%s\n", p.Facts.Paint(term.Bold, place(e.File, e.Range)),
		p.Facts.Paint(color, string(sev)+":"), clean(e.Message), p.Facts.Paint(term.Dim, rule(e.Rule)))
	if !p.snippet(&b, src, e.Range, gutter, color, "") && e.Found != "" {
		p.aside(&b, gutter, "found: "+clean(e.Found))
	}
	for line := range strings.Lines(e.Mend) {
		p.aside(&b, gutter, "mend: "+clean(strings.TrimSuffix(line, "\n")))
	}
	for _, n := range e.Notes {
		if !p.snippet(&b, src, n.Range, gutter, term.Cyan, "note: "+clean(n.Message)) {
			p.aside(&b, gutter, "note: "+strings.TrimSpace(place("", n.Range)+" "+clean(n.Message)))
		}
	}
	return b.String()
}

// lines are those of a file, nil if it can't be had.
func (p *Printer) lines(file string) []string {
	if p.Source == nil {
		return nil
	}
	src := p.Source(file)
	if src == nil {
		return nil
	}
	text := strings.TrimPrefix(string(src), "\ufeff")
	return strings.Split(text, "\n")
}

// snippet shows the line of a place with a caret under it, and reports false
// if there is none to show.
func (p *Printer) snippet(b *strings.Builder, src []string, r spec.Range, gutter int, color term.Style, label string) bool {
	if r.Line < 1 || r.Line > len(src) {
		return false
	}
	text, caret := excerpt(src[r.Line-1], r)
	if label != "" {
		label = " " + label
	}
	bar := p.Facts.Paint(term.Blue, "|")
	fmt.Fprintf(b, "  %s %s %s\n", p.Facts.Paint(term.Blue, fmt.Sprintf("%*d", gutter, r.Line)), bar, text)
	fmt.Fprintf(b, "  %*s %s %s\n", gutter, "", bar, caret.indent+p.Facts.Paint(color, caret.marks+label))
	return true
}

func (p *Printer) aside(b *strings.Builder, gutter int, text string) {
	fmt.Fprintf(b, "  %*s %s %s\n", gutter, "", p.Facts.Paint(term.Blue, "="), text)
}

func place(file string, r spec.Range) string {
	var b strings.Builder
	if file != "" {
		b.WriteString(clean(file) + ":")
	}
	if r.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", r.Line, r.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	return b.String()
}

func rule(name string) string {
	if name == "" {
		return ""
	}
	return " [" + name + "]"
}

func gutterWidth(e *spec.Error) int {
	most := e.Range.Line
	for _, n := range e.Notes {
		most = max(most, n.Range.Line)
	}
	return max(len(fmt.Sprint(most)), 3)
}
