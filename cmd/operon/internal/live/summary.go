package live

import (
	"fmt"
	"io"
	"strings"
	"time"

	"operon/cmd/operon/internal/term"
	"operon/engine"
)

const (
	maxGroups = 10  // causes of failure that are shown
	maxStderr = 20  // lines of standard error that are shown of each
	maxLine   = 400 // columns that are shown of such a line
)

// Ending is what WriteSummary tells of.
type Ending struct {
	Summary *engine.Summary
	Facts   term.Facts
	Quiet   bool     // failures alone
	Columns int      // of the terminal; 0: it is none
	Get     []string // commands that print the run's final values
	Again   string   // the command that goes on with the run
	Retry   string   // the command that tries holes again
	// Exec is the command that runs one job by hand; nil: there is none.
	Exec func(*engine.Failed) string
}

// WriteSummary tells how a run ended: what ran, what failed and why, and where
// the values are.
func WriteSummary(w io.Writer, e Ending) error {
	var b strings.Builder
	e.failures(&b)
	if !e.Quiet {
		e.blocked(&b)
		e.total(&b)
		e.next(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (e Ending) failures(b *strings.Builder) {
	groups := e.Summary.Failures
	for n, g := range groups {
		if n == maxGroups {
			more := int64(0)
			for _, g := range groups[n:] {
				more += g.Jobs
			}
			fmt.Fprintf(b, "and %d more causes of failure, of %s\n", len(groups)-maxGroups, jobs(more))
			return
		}
		e.failure(b, g)
	}
}

func (e Ending) failure(b *strings.Builder, g engine.FailureGroup) {
	s := g.Sample
	at := printable(s.At())
	head := Job(g.Task, at)
	if g.Jobs > 1 {
		head = fmt.Sprintf("%s: %s", g.Task, jobs(g.Jobs))
	}
	width := e.width()
	word := e.Facts.Paint(term.Red, "failed")
	if g.Hole {
		word = e.Facts.Paint(term.Yellow, "hole")
	}
	fmt.Fprintf(b, "%s %s: %s\n", word, e.Facts.Paint(term.Bold, head), cut(firstLine(s.Message), maxLine))
	for line := range strings.Lines(rest(s.Message)) {
		fmt.Fprintf(b, "  %s\n", cut(strings.TrimRight(line, "\r\n"), width-2))
	}
	if g.Jobs > 1 && at != "" {
		fmt.Fprintf(b, "  such as at %s\n", at)
	}
	if s.Attempts > 1 {
		fmt.Fprintf(b, "  after %d attempts\n", s.Attempts)
	}
	for _, line := range lastLines(string(s.Stderr), maxStderr) {
		fmt.Fprintf(b, "  %s %s\n", e.Facts.Paint(term.Dim, "|"), cut(line, width-4))
	}
	if s.Log != "" {
		fmt.Fprintf(b, "  log: %s\n", s.Log)
	}
	if e.Exec != nil {
		fmt.Fprintf(b, "  to run it by hand: %s\n", e.Exec(&s))
	}
}

// width is how wide what a job said is shown. What is to be copied is never cut.
func (e Ending) width() int {
	if e.Columns > 0 {
		return max(e.Columns, 40)
	}
	return maxLine
}

func (e Ending) blocked(b *strings.Builder) {
	var names []string
	for _, t := range e.Summary.Tasks {
		if t.Blocked > 0 {
			names = append(names, fmt.Sprintf("%s (%s)", t.Task, jobs(t.Blocked)))
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(b, "blocked by what failed: %s\n", strings.Join(atMost(names, 20), ", "))
	}
	names = nil
	for _, t := range e.Summary.Tasks {
		if t.Holes > 0 {
			names = append(names, fmt.Sprintf("%s (%d)", t.Task, t.Holes))
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(b, "holes: %s\n", strings.Join(atMost(names, 20), ", "))
	}
	names = nil
	for _, t := range e.Summary.Tasks {
		if t.Undone > 0 {
			names = append(names, fmt.Sprintf("%s (%s)", t.Task, jobs(t.Undone)))
		}
	}
	if n := e.Summary.MaxFailures; n > 0 {
		fmt.Fprintf(b, "--max-failures %d ended the run: %s\n", n, failedJobs(e.Summary.Failures))
	}
	if len(names) > 0 {
		fmt.Fprintf(b, "left undone: %s\n", strings.Join(atMost(names, 20), ", "))
	}
	if out := e.Summary.LeftOut; len(out) > 0 {
		fmt.Fprintf(b, "left out, since they take more than was asked for: %s\n", strings.Join(atMost(out, 20), ", "))
	}
}

func (e Ending) total(b *strings.Builder) {
	s := e.Summary
	took := Duration(time.Duration(s.Elapsed * float64(time.Second)))
	if s.State == engine.StateComplete && s.Executed == 0 && s.Failed == 0 {
		fmt.Fprintf(b, "%s: %s: nothing to do, %s done already (%s)\n", s.Pipeline, e.word(), jobs(s.Reused), took)
		return
	}
	parts := []string{fmt.Sprintf("%d executed", s.Executed)}
	for _, p := range []struct {
		n    int64
		word string
	}{{s.Reused, "reused"}, {s.Failed, "failed"}, {s.Blocked, "blocked"}, {s.Holes, "holes"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	fmt.Fprintf(b, "%s: %s in %s: %s\n", s.Pipeline, e.word(), took, strings.Join(parts, ", "))
}

func (e Ending) word() string {
	style := term.Yellow
	switch e.Summary.State {
	case engine.StateComplete:
		style = term.Green
	case engine.StateFailed:
		style = term.Red
	}
	return e.Facts.Paint(style, string(e.Summary.State))
}

func (e Ending) next(b *strings.Builder) {
	switch e.Summary.State {
	case engine.StateComplete:
		if e.Summary.Holes > 0 && e.Retry != "" {
			fmt.Fprintf(b, "to try the holes again: %s\n", e.Retry)
		}
		for _, get := range atMost(e.Get, 5) {
			fmt.Fprintf(b, "values: %s\n", get)
		}
	case engine.StateFailed:
		fmt.Fprintf(b, "to try what failed again: %s\n", e.Again)
	default:
		if e.Summary.Asked {
			b.WriteString("all that was asked for is done\n")
			return
		}
		fmt.Fprintf(b, "to go on: %s\n", e.Again)
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func rest(text string) string {
	_, more, _ := strings.Cut(text, "\n")
	return more
}

func lastLines(text string, n int) []string {
	text = strings.TrimRight(text, "\r\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		lines[i] = line[strings.LastIndexByte(line, '\r')+1:] // what a terminal would show of it
	}
	return lines[max(len(lines)-n, 0):]
}

// failedJobs counts the jobs that failed, those that are holes apart.
func failedJobs(groups []engine.FailureGroup) string {
	var failed, holes int64
	for _, g := range groups {
		if g.Hole {
			holes += g.Jobs
		} else {
			failed += g.Jobs
		}
	}
	switch {
	case holes == 0:
		return jobs(failed) + " failed"
	case failed == 0:
		return jobs(holes) + " became holes"
	}
	return fmt.Sprintf("%s failed, %d became holes", jobs(failed), holes)
}

func atMost(list []string, n int) []string {
	if len(list) <= n {
		return list
	}
	return append(list[:n:n], "…")
}
