package spec

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSnakeCase(t *testing.T) {
	for entity, want := range map[string]string{
		"Word": "word", "HttpLog": "http_log", "HTTPLog": "http_log", "A": "a", "AB": "ab", "ABc": "a_bc",
		"A1B": "a1_b", "Log2X": "log2_x", "X2y": "x2y", "ParseURL": "parse_url", "URLs": "ur_ls", "IoT": "io_t",
	} {
		if got := SnakeCase(entity); got != want {
			t.Errorf("%s became %s, want %s", entity, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		entity := rapid.StringMatching(`[A-Z][A-Za-z0-9]{0,12}`).Draw(t, "entity")
		if got := SnakeCase(entity); !IsName(got) || !strings.EqualFold(strings.ReplaceAll(got, "_", ""), entity) {
			t.Fatalf("%s became %s", entity, got)
		}
	})
}

func TestArgName(t *testing.T) {
	if got := ArgName("HttpLog", []string{"i", "j"}); got != "http_log_i_j" {
		t.Error(got)
	}
	if got := ArgName("Word", nil); got != "word" {
		t.Error(got)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"timeout", "retry", "input_no", "word", "words", "Word", "run", "in"}
	for name, want := range map[string]string{
		"timeot": "timeout", "time-out": "timeout", "Timeout": "timeout", "inputno": "input_no", "InputNo": "input_no",
		"wrod": "word", "wrods": "words", "rnu": "run", "retrys": "retry", "zebra": "", "x": "", "": "", "out": "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%q is nearest to %q, want %q", name, got, want)
		}
	}
	shuffled := slices.Clone(known)
	slices.Reverse(shuffled)
	if Nearest("wor", known) != Nearest("wor", shuffled) {
		t.Error("the order of the candidates matters")
	}
}

func TestParseRef(t *testing.T) {
	for text, want := range map[string]string{
		"Word": "Word", "Word<i>": "Word<i>", " Word < i ,j > ": "Word<i, j>", "W<a_1,b>": "W<a_1, b>", "\tX9": "X9",
	} {
		r, err := ParseRef(text)
		if err != nil || r.String() != want {
			t.Errorf("%q: %s %v", text, r, err)
		}
		for i, at := range r.DimAt {
			if !strings.HasPrefix(text[at:], r.Dims[i]) {
				t.Errorf("%q: %s is not at %d", text, r.Dims[i], at)
			}
		}
	}
	for _, text := range []string{"", "word", "Word<", "Word<i", "Word<i,>", "Word<>", "Word<,i>", "Word<I>", "Word<i>x", "Word<i>>", "<i>", "Wo rd", "Word_x", "Word<i j>", "Wörd", "1W"} {
		_, err := ParseRef(text)
		e, ok := err.(*RefError)
		if !ok || e.Message == "" || e.Start < 0 || e.Start > e.End || e.End > len(text) {
			t.Errorf("%q: %#v", text, err)
		}
	}
}

func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"Word", "Word<i, j>", "Word<", "<>", "Ä<b>", "A<b>>", " A < b , c > "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRef(text)
		if err != nil {
			if e := err.(*RefError); e.Start < 0 || e.Start > e.End || e.End > len(text) || e.Message == "" {
				t.Fatalf("%q: %+v", text, e)
			}
			return
		}
		again, err := ParseRef(r.String())
		if err != nil || again.String() != r.String() {
			t.Fatalf("%q became %s, which reads as %s, %v", text, r, again, err)
		}
	})
}

func TestScriptMentions(t *testing.T) {
	for script, want := range map[string]string{
		`echo $word`:                    "word",
		`echo "$a$b" '$c' \$d`:          "a b c d",
		`echo ${x} ${y:-z} ${#l} ${!v}`: "l v x y",
		`$words ${word_no}x$1 $$ $? $@`: "word_no words",
		`echo $((i + 2*j_1 - 0x1f))`:    "i j_1",
		`echo $(( $i + (k) ))`:          "i k",
		`x=$((a+$((b+1))+c))`:           "a b c",
		`x=$((echo word) | cat)`:        "",
		`x=$( (echo word) | cat )`:      "",
		`echo $((unclosed`:              "",
		`awk '{ print $1, $NF }'`:       "NF",
		"cat <<E\n$doc\nE\n":            "doc",
		`((i++)); let j=1`:              "",
		`f() { echo $1; }; $(f x)`:      "",
		`$é $a`:                         "a",
		`${`:                            "",
		`$`:                             "",
	} {
		if got := strings.Join(ScriptMentions(script), " "); got != want {
			t.Errorf("%s mentions %q, want %q", script, got, want)
		}
	}
}

// Nesting and repetition must not cost their square.
func TestMentionsOfHugeScripts(t *testing.T) {
	for _, part := range []string{"$((", "((", "$((a+", "${", "))", "$((1))"} {
		script := strings.Repeat(part, 1<<18)
		ScriptMentions(script)
		ScriptMentions(script + strings.Repeat("))", 1<<18))
		ParseTemplate(script)
	}
}

func TestTemplates(t *testing.T) {
	for text, want := range map[string]Template{
		"":                nil,
		"plain":           {{Text: "plain"}},
		"{a}":             {{Name: "a"}},
		"x{a}y{b_1}":      {{Text: "x"}, {Name: "a"}, {Text: "y"}, {Name: "b_1"}},
		"{{a}}":           {{Text: "{a}"}},
		"{{{a}}}":         {{Text: "{"}, {Name: "a"}, {Text: "}"}},
		"{} {1} {a,b} {a": {{Text: "{} {1} {a,b} {a"}},
		"{print $1}":      {{Text: "{print $1}"}},
		"}{":              {{Text: "}{"}},
		"{a}}":            {{Name: "a"}, {Text: "}"}},
		"{Name}":          {{Name: "Name"}},
		"{é}":             {{Text: "{é}"}},
	} {
		if diff := cmp.Diff(want, ParseTemplate(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func FuzzMentions(f *testing.F) {
	for _, s := range []string{"$a ${b} $((c)) {d} {{e}}", "$((", "{{{x}}}", "${#y:-$((z))}", "\\$a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		names := ScriptMentions(text)
		if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Fatalf("%q: %v", text, names)
		}
		for _, n := range names {
			if !isVariable(n) || !strings.Contains(text, n) {
				t.Fatalf("%q mentions %q?", text, n)
			}
		}
		template, at := parseTemplate(text)
		for i, p := range template {
			if p.Name != "" && !strings.HasPrefix(text[at[i]:], "{"+p.Name+"}") {
				t.Fatalf("%q: %s is not at %d", text, p.Name, at[i])
			}
		}
		if diff := cmp.Diff(template, ParseTemplate(template.String())); diff != "" {
			t.Fatalf("%q is not what it is written as: %s", text, diff)
		}
	})
}
