package engine

import (
	"fmt"
	"strings"

	"operon/spec"
)

// explainFields says how two definitions of a task differ: the first field of
// its fingerprint that does, with both values, such as "param n: 3 → 4".
func explainFields(old, now []spec.Field) string {
	before := map[string]string{}
	for _, f := range old {
		before[f.Name] = f.Value
	}
	for _, f := range now {
		was, there := before[f.Name]
		delete(before, f.Name)
		switch {
		case !there && len(old) > 0:
			return fmt.Sprintf("%s is new: %s", f.Name, short(f.Value))
		case there && was != f.Value:
			a, b := difference(was, f.Value)
			return fmt.Sprintf("%s: %s → %s", f.Name, a, b)
		}
	}
	for _, f := range old {
		if value, gone := before[f.Name]; gone {
			return fmt.Sprintf("%s is gone: %s", f.Name, short(value))
		}
	}
	return "its definition changed"
}

// difference is the first line in which two texts differ, of each.
func difference(a, b string) (string, string) {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for n := range max(len(x), len(y)) {
		switch {
		case n >= len(x):
			return "(end)", short(y[n])
		case n >= len(y):
			return short(x[n]), "(end)"
		case x[n] != y[n]:
			return short(x[n]), short(y[n])
		}
	}
	return short(a), short(b)
}

// short cuts a value to what fits on a line.
func short(text string) string {
	text = strings.TrimSpace(text)
	if first, _, more := strings.Cut(text, "\n"); more {
		text = first + " …"
	}
	const most = 60
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	if text == "" {
		return "(empty)"
	}
	return text
}
