package spec

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// maxName is the longest name, in bytes: names become parts of file names.
const maxName = 200

// IsName reports whether s is the name of a pipeline, task, dimension, param or
// argument: [a-z][a-z0-9_]*.
func IsName(s string) bool {
	if s == "" || !isLower(s[0]) {
		return false
	}
	for i := 1; i < len(s); i++ {
		if c := s[i]; !isLower(c) && !isDigit(c) && c != '_' {
			return false
		}
	}
	return true
}

// IsEntityName reports whether s is the name of an entity: [A-Z][A-Za-z0-9]*.
func IsEntityName(s string) bool {
	if s == "" || !isUpper(s[0]) {
		return false
	}
	for i := 1; i < len(s); i++ {
		if c := s[i]; !isLower(c) && !isUpper(c) && !isDigit(c) {
			return false
		}
	}
	return true
}

// isVariable reports whether s can be an environment variable that a shell reads.
func isVariable(s string) bool {
	if s == "" || isDigit(s[0]) {
		return false
	}
	for i := range len(s) {
		if !isWord(s[i]) {
			return false
		}
	}
	return true
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isWord(c byte) bool  { return isLower(c) || isUpper(c) || isDigit(c) || c == '_' }

// SnakeCase turns an entity's name into words joined by underscores. A word
// starts at an upper-case letter that follows a lower-case letter or digit, or
// precedes a lower-case letter: HTTPLog2X is http_log2_x.
func SnakeCase(entity string) string {
	var b strings.Builder
	for i := range len(entity) {
		c := entity[i]
		if isUpper(c) {
			follows := i > 0 && (isLower(entity[i-1]) || isDigit(entity[i-1]))
			precedes := i > 0 && i+1 < len(entity) && isLower(entity[i+1])
			if follows || precedes {
				b.WriteByte('_')
			}
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}

// ArgName is the name of the argument that a reference gives: the entity in
// snake_case, then the sliced dimensions in the order they are written.
func ArgName(entity string, slice []string) string {
	name := SnakeCase(entity)
	for _, d := range slice {
		name += "_" + d
	}
	return name
}

// Nearest is the candidate that name was most likely meant to be, or "" if none
// is near: one that differs in upper and lower case or punctuation alone, or in
// a few letters put in, left out, changed or swapped. The order of the
// candidates does not matter.
func Nearest(name string, candidates []string) string {
	if len(name) > 64 || name == "" {
		return ""
	}
	lower, bare := []rune(strings.ToLower(name)), foldName(name)
	best, bestDistance := "", 1+allowed(name)
	for _, c := range candidates {
		if c == name || len(c) > 64 {
			continue
		}
		d := bestDistance + 1
		if foldName(c) == bare && bare != "" {
			d = 0
		} else if n := utf8.RuneCountInString(c) - len(lower); n <= bestDistance && -n <= bestDistance {
			d = editDistance(lower, []rune(strings.ToLower(c)))
			if d >= max(len(lower), len(lower)+n) {
				continue // not a letter is left of it
			}
		}
		if d < bestDistance || d == bestDistance && best != "" && nearer(name, c, best) {
			best, bestDistance = c, d
		}
	}
	return best
}

// nearer decides between two candidates equally far from name: one that begins
// like it, small or capital, goes before one that does not, then the first in
// byte order.
func nearer(name, a, b string) bool {
	if capital := isUpper(name[0]); a != "" && isUpper(a[0]) != isUpper(b[0]) {
		return isUpper(a[0]) == capital
	}
	return a < b
}

// foldName is name without what is most easily mistaken: case and punctuation.
func foldName(name string) string {
	b := make([]byte, 0, len(name))
	for i := range len(name) {
		switch c := name[i]; {
		case isUpper(c):
			b = append(b, c+'a'-'A')
		case c != '_' && c != '-' && c != ' ':
			b = append(b, c)
		}
	}
	return string(b)
}

// allowed is how many letters a name may be off by: more would turn any short
// name into any other.
func allowed(name string) int {
	switch n := utf8.RuneCountInString(name); {
	case n <= 4:
		return 1
	case n <= 7:
		return 2
	default:
		return min(n/3, 4)
	}
}

// editDistance counts the letters to put in, leave out, change, or swap with
// their neighbour, to make a into b.
func editDistance(ra, rb []rune) int {
	before, row := make([]int, len(rb)+1), make([]int, len(rb)+1)
	next := make([]int, len(rb)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(ra); i++ {
		next[0] = i
		for j := 1; j <= len(rb); j++ {
			cost := 1
			if ra[i-1] == rb[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && ra[i-1] == rb[j-2] && ra[i-2] == rb[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(rb)]
}

// didYouMean is the mend that offers the nearest known name, or else says what
// there is, if that is a short list.
func didYouMean(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return "did you mean `" + near + "`?"
	}
	if len(known) == 0 || len(known) > 12 {
		return ""
	}
	sorted := slices.Clone(known)
	slices.Sort(sorted)
	return "there is " + list(sorted)
}

// list is names as a sentence has them: `a`, `b` and `c`.
func list(names []string) string {
	const most = 40
	var b strings.Builder
	for i, n := range names {
		if i == most {
			b.WriteString(", …")
			break
		}
		switch {
		case i == 0:
		case i == len(names)-1:
			b.WriteString(" and ")
		default:
			b.WriteString(", ")
		}
		b.WriteString("`" + n + "`")
	}
	return b.String()
}
