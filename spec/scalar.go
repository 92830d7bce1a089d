package spec

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"operon/spec/value"
)

// Shapes of scalars. Each says what it wants in the user's terms, checks the
// source text, and gives the JSON Schema of the same.

const (
	namePattern   = "^[a-z][a-z0-9_]*$"
	entityPattern = "^[A-Z][A-Za-z0-9]*$"
	refPattern    = `^[ \t]*[A-Z][A-Za-z0-9]*[ \t]*(<[ \t]*[a-z][a-z0-9_]*[ \t]*(,[ \t]*[a-z][a-z0-9_]*[ \t]*)*>[ \t]*)?$`
	outPattern    = `^[ \t]*[A-Z][A-Za-z0-9]*[ \t]*(<[ \t]*[a-z][a-z0-9_]*[ \t]*>[ \t]*)?$`
)

// textTypes are the JSON types that a text may have to another reader of YAML.
func textTypes() []any { return []any{"string", "number", "boolean", "null"} }

// textShape is any text.
func textShape(says string) *shape {
	return &shape{says: says, scalar: func(string, *node) *slip { return nil }, blank: true}
}

// filledShape is any text but the empty one.
func filledShape(says string) *shape {
	return &shape{
		says: says,
		scalar: func(text string, n *node) *slip {
			if strings.TrimSpace(text) == "" {
				return &slip{rule: "type"}
			}
			return nil
		},
		json: map[string]any{"type": textTypes(), "minLength": 1},
	}
}

// nameShape is the name of a task, dimension, param or argument.
func nameShape(says string) *shape {
	return &shape{
		says:   says,
		scalar: func(text string, n *node) *slip { return nameSlip(text, says) },
		json:   map[string]any{"type": textTypes(), "pattern": namePattern},
	}
}

func nameSlip(text, says string) *slip {
	if IsName(text) {
		return longSlip(text)
	}
	mend := "small letters, digits and _, a letter first"
	if better := asName(text); better != "" {
		mend += ": `" + better + "`"
	}
	return &slip{"name", fmt.Sprintf("`%s` is not %s", quotable(text), says), mend}
}

// longSlip refuses a name that is too long.
func longSlip(name string) *slip {
	if len(name) <= maxName {
		return nil
	}
	return &slip{"limit", fmt.Sprintf("a name has at most %d letters, and this one %d", maxName, len(name)), ""}
}

// asName is the name that text most likely stands for, or "".
func asName(text string) string {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case isLower(c), isDigit(c), c == '_':
			b.WriteByte(c)
		case isUpper(c):
			b.WriteByte(c)
		case c == '-', c == ' ', c == '.':
			b.WriteByte('_')
		default:
			return ""
		}
	}
	name := SnakeCase(b.String())
	for strings.Contains(name, "__") {
		name = strings.ReplaceAll(name, "__", "_")
	}
	if IsName(name) {
		return name
	}
	return ""
}

// wordShape is one of a few words.
func wordShape(says string, words ...string) *shape {
	return &shape{
		says: says,
		scalar: func(text string, n *node) *slip {
			if slices.Contains(words, text) {
				return nil
			}
			return &slip{rule: "value", mend: didYouMean(text, words)}
		},
		json: map[string]any{"enum": anys(words)},
	}
}

func anys(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return out
}

// wholePattern is a whole number as JSON writes it: no +, no leading zero, no
// underscores, no other base.
var wholePattern = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// numberPattern is a number as JSON writes it.
var numberPattern = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// wholeShape is a whole number from low to high.
func wholeShape(says string, low, high int64) *shape {
	return &shape{
		says: says,
		scalar: func(text string, n *node) *slip {
			if !n.plain || !wholePattern.MatchString(text) {
				return &slip{rule: "type", mend: numberMend(text, n)}
			}
			if i, err := strconv.ParseInt(text, 10, 64); err != nil || i < low || i > high {
				return &slip{rule: "value"}
			}
			return nil
		},
		json: map[string]any{"type": "integer", "minimum": low, "maximum": high},
	}
}

// numberMend says why what looks like a number is none.
func numberMend(text string, n *node) string {
	if !n.plain {
		if numberPattern.MatchString(text) {
			return "take the quotes off: quoted it is a text"
		}
		return ""
	}
	if trimmed := strings.TrimLeft(strings.ReplaceAll(strings.TrimPrefix(text, "+"), "_", ""), "0"); trimmed != text && wholePattern.MatchString(trimmed) {
		return "write `" + trimmed + "`"
	}
	return ""
}

// numberShape is a number from low to high.
func numberShape(says string, low, high float64) *shape {
	return &shape{
		says: says,
		scalar: func(text string, n *node) *slip {
			if !n.plain || !numberPattern.MatchString(text) {
				return &slip{rule: "type", mend: numberMend(text, n)}
			}
			if f, err := strconv.ParseFloat(text, 64); err != nil || f < low || f > high {
				return &slip{rule: "value"}
			}
			return nil
		},
		json: map[string]any{"type": "number", "minimum": low, "maximum": high},
	}
}

// boolShape is true or false.
func boolShape() *shape {
	return &shape{
		says: "true or false",
		scalar: func(text string, n *node) *slip {
			if n.plain && (text == "true" || text == "false") {
				return nil
			}
			mend := ""
			switch strings.ToLower(text) {
			case "yes", "on", "y", "true":
				mend = "write `true`"
			case "no", "off", "n", "false":
				mend = "write `false`"
			}
			return &slip{rule: "type", mend: mend}
		},
		json: map[string]any{"type": "boolean"},
	}
}

// durationPattern is what time.ParseDuration reads, less the sign.
const durationPattern = `^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`

// durationShape is a length of time that is not negative.
func durationShape() *shape {
	return &shape{
		says: "a duration such as 90s, 5m or 1h30m",
		scalar: func(text string, n *node) *slip {
			d, err := time.ParseDuration(text)
			switch {
			case err == nil && d >= 0:
				return nil
			case numberPattern.MatchString(text) && text[0] != '-':
				return &slip{rule: "type", mend: "say the unit: `" + text + "s` for seconds"}
			}
			return &slip{rule: "type"}
		},
		json: map[string]any{"type": []any{"string", "integer"}, "pattern": durationPattern, "minimum": 0, "maximum": 0},
	}
}

// refShape is a reference, or what a task returns.
func refShape(says, pattern string) *shape {
	return &shape{
		says: says,
		// The form is checked where it is read: there the error can point into it.
		scalar: func(string, *node) *slip { return nil },
		json:   map[string]any{"type": "string", "pattern": pattern},
	}
}

// Reading what a shape has passed.

func (n *node) whole() int {
	i, err := strconv.ParseInt(n.text, 10, 64)
	if err != nil {
		return 0
	}
	return int(i)
}

func (n *node) number() float64 {
	f, err := strconv.ParseFloat(n.text, 64)
	if err != nil || math.IsNaN(f) {
		return 0
	}
	return f
}

func (n *node) duration() time.Duration {
	d, err := time.ParseDuration(n.text)
	if err != nil {
		return 0
	}
	return d
}

func (n *node) yes() bool { return n.text == "true" }

// scalars are the texts of a scalar or of a list of them.
func (n *node) scalars() []*node {
	switch {
	case n.kind == listNode:
		return n.items
	case n.empty():
		return nil
	}
	return []*node{n}
}

// isJSONWord reports whether a plain scalar is a JSON number, true, false or
// null; every other scalar is a string where any JSON value is meant.
func isJSONWord(text string) bool {
	return text == "true" || text == "false" || text == "null" || numberPattern.MatchString(text)
}

// appendJSON appends n as compact JSON, its numbers digit for digit.
func (n *node) appendJSON(b []byte) []byte {
	switch n.kind {
	case listNode:
		b = append(b, '[')
		for i, item := range n.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendJSON(b)
		}
		return append(b, ']')
	case mapNode:
		b = append(b, '{')
		for i, e := range n.entries {
			if i > 0 {
				b = append(b, ',')
			}
			b = value.AppendString(b, e.key.text)
			b = append(b, ':')
			b = e.value.appendJSON(b)
		}
		return append(b, '}')
	}
	if n.plain && isJSONWord(n.text) {
		return append(b, n.text...)
	}
	return value.AppendString(b, n.text)
}

// sizePattern is a number of bytes with its unit, in powers of 1024.
var sizePattern = regexp.MustCompile(sizeForm)

const sizeForm = `^(0|[1-9][0-9]*)(\.[0-9]+)?[KMGT](i?B)?$`

// maxSize is the largest size, in bytes.
const maxSize = 1 << 50

// sizeShape is a number of bytes.
func sizeShape() *shape {
	return &shape{
		says: "a size such as 512M or 2G",
		scalar: func(text string, n *node) *slip {
			if !sizePattern.MatchString(text) {
				return &slip{rule: "type", mend: sizeMend(text)}
			}
			if size := parseSize(text); size < 1 || size > maxSize {
				return &slip{rule: "value"}
			}
			return nil
		},
		json: map[string]any{"type": "string", "pattern": sizeForm},
	}
}

func sizeMend(text string) string {
	upper := strings.ToUpper(strings.ReplaceAll(text, " ", ""))
	switch {
	case numberPattern.MatchString(text):
		return "say the unit: `" + text + "G`"
	case sizePattern.MatchString(upper):
		return "write `" + upper + "`"
	}
	return ""
}

// parseSize is the number of bytes of what sizePattern matches.
func parseSize(text string) int64 {
	digits := strings.TrimRight(text, "KMGTiB")
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0
	}
	shift := map[byte]uint{'K': 10, 'M': 20, 'G': 30, 'T': 40}[text[len(digits)]]
	if f *= float64(int64(1) << shift); f > maxSize {
		return maxSize + 1
	}
	return int64(f)
}

func (n *node) size() int64 { return parseSize(n.text) }

const rateForm = `^(0|[1-9][0-9]*)(\.[0-9]+)?/[smh]$`

var ratePattern = regexp.MustCompile(rateForm)

// rateShape is a number of starts in a length of time.
func rateShape() *shape {
	return &shape{
		says: "a rate such as 5/s, 100/m or 1000/h",
		scalar: func(text string, n *node) *slip {
			r, ok := parseRate(text)
			switch {
			case !ok && numberPattern.MatchString(text):
				return &slip{rule: "type", mend: "say in which time: `" + text + "/s`"}
			case !ok:
				return &slip{rule: "type"}
			case r.N <= 0 || r.N > 1e9:
				return &slip{rule: "value"}
			}
			return nil
		},
		json: map[string]any{"type": "string", "pattern": rateForm},
	}
}

// parseRate reads N/s, N/m or N/h.
func parseRate(text string) (r Rate, ok bool) {
	if !ratePattern.MatchString(text) {
		return r, false
	}
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return r, false
	}
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	return Rate{N: n, Per: per}, true
}

// nullShape is null.
func nullShape() *shape {
	return &shape{
		says: "null",
		scalar: func(text string, n *node) *slip {
			if n.plain && text == "null" {
				return nil
			}
			return &slip{rule: "value"}
		},
		json: map[string]any{"type": "null"},
	}
}
