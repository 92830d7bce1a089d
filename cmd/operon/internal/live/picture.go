package live

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"operon/cmd/operon/internal/term"
)

const (
	nameWidth = 24 // of a task's name, at most
	barWidth  = 10
	restWidth = 56 // of a line with a bar, beside name and bar
)

// picture is the model as lines for a terminal of that size, one a task; none
// is wider, and there are never more than fit.
func (m *model) picture(now time.Time, facts term.Facts, columns, rows int) []string {
	shown := m.choose(max(rows-2, 1))
	wide := 0
	for _, t := range shown {
		wide = max(wide, ansi.StringWidth(t.Task))
	}
	wide = min(wide, nameWidth)
	var lines []string
	for _, t := range shown {
		lines = append(lines, ansi.Truncate(t.line(now, facts, wide, columns), columns, "…"))
	}
	if hidden := len(m.tasks) - len(shown); hidden > 0 {
		text := fmt.Sprintf("… and %d more tasks: %s", hidden, m.others(shown))
		lines = append(lines, ansi.Truncate(facts.Paint(term.Dim, text), columns, "…"))
	}
	return lines
}

func (t *task) line(now time.Time, facts term.Facts, wide, columns int) string {
	name := ansi.Truncate(t.Task, wide, "…")
	name += strings.Repeat(" ", max(wide-ansi.StringWidth(name), 0))
	word := t.word()
	line := name + "  " + facts.Paint(styles[word], fmt.Sprintf("%-7s", word))
	if columns >= wide+barWidth+restWidth {
		line += "  " + facts.Paint(term.Dim, bar(t.Done+t.Holes, t.all()))
	}
	return strings.TrimRight(line+"  "+t.counts(now), " ")
}

// styles are not to be changed.
var styles = map[string]term.Style{
	"done": term.Green, "failed": term.Red, "running": term.Cyan, "paused": term.Yellow,
	"queued": term.Blue, "waiting": term.Dim, "blocked": term.Yellow, "dropped": term.Yellow,
}

func bar(done, all int64) string {
	full := 0
	if all > 0 {
		full = int(float64(done) / float64(all) * barWidth)
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", barWidth-full) + "]"
}

// urgency orders the words by how much somebody wants to see such a task.
var urgency = []string{"running", "failed", "dropped", "paused", "queued", "blocked", "waiting", "done"}

// choose picks the tasks that are shown where not all fit, in their order.
func (m *model) choose(n int) []*task {
	if len(m.tasks) <= n {
		return m.tasks
	}
	chosen := map[*task]bool{}
	for _, word := range urgency {
		for _, t := range m.tasks {
			if len(chosen) < n && t.word() == word {
				chosen[t] = true
			}
		}
	}
	var out []*task
	for _, t := range m.tasks {
		if chosen[t] {
			out = append(out, t)
		}
	}
	return out
}

// others counts the tasks that are not shown, by word.
func (m *model) others(shown []*task) string {
	seen := map[*task]bool{}
	for _, t := range shown {
		seen[t] = true
	}
	count := map[string]int{}
	for _, t := range m.tasks {
		if !seen[t] {
			count[t.word()]++
		}
	}
	var parts []string
	for _, word := range urgency {
		if count[word] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[word], word))
		}
	}
	return strings.Join(parts, ", ")
}
