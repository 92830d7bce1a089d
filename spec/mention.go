package spec

import (
	"slices"
	"strings"
)

// ScriptMentions are the names that a script may read as variables, sorted:
// $name and ${name…}, and inside $((…)) the bare name too. It is a scanner of
// bytes and no shell parser on purpose: `sh -c 'echo $word'` reads word although
// it stands in single quotes, and so may an awk program or a here-document. A
// mention too many costs a run at most, one too few reuses a wrong result.
func ScriptMentions(script string) []string {
	seen := map[string]bool{}
	for i := 0; i < len(script); i++ {
		if script[i] != '$' {
			continue
		}
		rest := script[i+1:]
		if strings.HasPrefix(rest, "{") {
			rest = strings.TrimLeft(rest[1:], "#!") // ${#name} is its length, ${!name} bash's indirection
		}
		addWord(seen, rest)
	}
	for _, s := range arithmetic(script) {
		collectWords(seen, script[s.start:s.end])
	}
	return sortedKeys(seen)
}

// addWord adds the variable name that text begins with, if it begins with one.
func addWord(seen map[string]bool, text string) {
	end := 0
	for end < len(text) && isWord(text[end]) {
		end++
	}
	if end > 0 && !isDigit(text[0]) {
		seen[text[:end]] = true
	}
}

// arithmetic finds what stands inside $((…)), the outermost where they nest. A
// $(( whose parentheses do not close as a pair is none: that is a subshell in a
// command substitution, and its words are commands.
func arithmetic(script string) []span {
	var open []int
	var found []span
	for i := range len(script) {
		switch script[i] {
		case '(':
			open = append(open, i)
		case ')':
			if len(open) == 0 {
				continue
			}
			at := open[len(open)-1]
			open = open[:len(open)-1]
			if at < 2 || script[at-2:at] != "$(" || i+1 == len(script) || script[i+1] != ')' {
				continue
			}
			for len(found) > 0 && found[len(found)-1].start > at {
				found = found[:len(found)-1]
			}
			found = append(found, span{at + 1, i})
		}
	}
	return found
}

func collectWords(seen map[string]bool, text string) {
	for i := 0; i < len(text); {
		if !isWord(text[i]) {
			i++
			continue
		}
		end := i
		for end < len(text) && isWord(text[end]) {
			end++
		}
		addWord(seen, text[i:end])
		i = end
	}
}

func sortedKeys(set map[string]bool) []string {
	keys := make([]string, 0, len(set))
	for k := range set {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// ParseTemplate reads text with names to fill in: {word} is a name, {{ and }}
// are literal braces, and a brace before anything but a word and its closing
// brace is itself. Every text is a template; whether the names are known is
// for the caller to say.
func ParseTemplate(text string) Template {
	t, _ := parseTemplate(text)
	return t
}

// parseTemplate is ParseTemplate, with where each piece begins.
func parseTemplate(text string) (t Template, at []int) {
	var literal strings.Builder
	start := 0
	flush := func(end int) {
		if literal.Len() > 0 {
			t, at = append(t, Piece{Text: literal.String()}), append(at, start)
			literal.Reset()
		}
		start = end
	}
	for i := 0; i < len(text); {
		c := text[i]
		if (c == '{' || c == '}') && i+1 < len(text) && text[i+1] == c {
			literal.WriteByte(c)
			i += 2
			continue
		}
		if name := templateName(text[i:]); name != "" {
			flush(i)
			t, at = append(t, Piece{Name: name}), append(at, i)
			i += len(name) + 2
			start = i
			continue
		}
		literal.WriteByte(c)
		i++
	}
	flush(len(text))
	return t, at
}

// templateName is the word in the {word} that text begins with, or "".
func templateName(text string) string {
	if text == "" || text[0] != '{' {
		return ""
	}
	end := 1
	for end < len(text) && isWord(text[end]) {
		end++
	}
	if end == 1 || end == len(text) || text[end] != '}' || isDigit(text[1]) {
		return ""
	}
	return text[1:end]
}

// String is t as it is written in a pipeline file.
func (t Template) String() string {
	var b strings.Builder
	for _, p := range t {
		if p.Name != "" {
			b.WriteString("{" + p.Name + "}")
			continue
		}
		b.WriteString(strings.NewReplacer("{", "{{", "}", "}}").Replace(p.Text))
	}
	return b.String()
}
