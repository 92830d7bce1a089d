package spec

import (
	"fmt"
	"strings"
	"testing"
)

// jqPipeline has the filter on line 6 on, as a block.
func jqPipeline(filter string) string {
	return "pipeline: p\nparams: {n: 3, m: {type: int, default: 1}}\ntasks:\n  w: {out: Word<i>, run: seq 3}\n  a:\n    in: Word\n    for: i\n    out: A\n    jq: |\n      " +
		strings.ReplaceAll(filter, "\n", "\n      ") + "\n"
}

func TestJQMentions(t *testing.T) {
	for filter, want := range map[string]string{
		".":                                 "",
		"$word + $n":                        "n word",
		". as $n | $n + $i":                 "i",
		"(. as $n | $n) + $n":               "n",
		"reduce .[] as $i (0; . + $i + $m)": "m",
		"foreach .[] as [$i, {a: $n}] (0; 1; $i + $n)": "",
		"def f($n): $n + $word; f(1)":                  "word",
		"def f(n): n; f($n)":                           "n",
		"{$n, a: $word}":                               "n word",
		"\"x\\($i)\"":                                  "i",
		"@base64 \"\\($m)\"":                           "m",
		"label $out | 1, break $out":                   "",
		". as [$n] ?// $n | $n":                        "",
		"if $n then $i elif $m then 1 else 2 end":      "i m n",
		"try error($n) catch $m":                       "m n",
		".[$i:$m]":                                     "i m",
		".a[$n]?":                                      "n",
		"[limit(3; repeat(1))] | getpath([\"a\"])? // ltrimstr(\"x\")": "",
		"mktime? // gmtime? // todate":                                 "",
		"# $n\n.":                                                      "",
	} {
		p, err := Load([]byte(jqPipeline(filter)), Options{})
		if err != nil {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		task := p.Task("a")
		if got := strings.Join(JQVariables(task), " "); got != want {
			t.Errorf("%s mentions %q, want %q", filter, got, want)
		}
		if len(task.Stdin.From) != 1 || task.Format != "" {
			t.Errorf("%+v", task.Stdin)
		}
	}
	if JQVariables(mustLoad(t, jqPipeline("."), Options{}).Task("w")) != nil {
		t.Error("a script has no jq variables")
	}
}

// Whatever would make the result depend on anything but the inputs is refused,
// wherever it hides.
func TestJQImpure(t *testing.T) {
	for _, filter := range []string{
		"now", "[.[] | now]", "def f: now; 1", "{a: now}", "{(now|tostring): 1}", "\"\\(now)\"", "if now then 1 else 2 end",
		"reduce now as $x (0; 1)", "foreach 1 as $x (now; 1)", "try now catch 1", "[1,2][now:]", ".[now]", "label $f | now", "-now", ". as {a: $x} | now",
		". as {(now|tostring): $x} | 1", "@text \"\\(now)\"", "$ENV", "{$ENV}", "env.PATH", "input", "[inputs]", "debug", "debug(1)", "stderr", "halt", "halt_error(1)",
		"localtime", "strflocaltime(\"%H\")", "input_line_number", "input_filename", "modulemeta", "get_search_list", "1 as $x | 2 | $ENV | .a", "def now: 1; now",
	} {
		rules := rulesOf(jqPipeline(filter))
		if len(rules) == 0 || rules[0] != "jq" {
			t.Errorf("%s is let through: %v", filter, rules)
		}
	}
}

// An error in a filter is reported where it stands, whatever the form of the
// text in the file.
func TestJQPlaces(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{"jq: .a | lenght", "4:14"},
		{"jq: '.a | lenght'", "4:15"},
		{"jq: \".a | lenght\"", "4:15"},
		{"jq: |\n      .a\n      | lenght", "6:9"},
		{"jq: |-\n        .a\n          | lenght", "6:13"},
		{"jq: |2\n        .a\n         | lenght", "6:12"},
		{"jq: |\n\n      # c\n\n      | lenght", "8:7"},
		{"jq: >\n      .a\n      | lenght", "4:9"},
		{"jq: '\"it''s\" | lenght'", "4:20"},
		{"jq: \"\\\"\\u00e9\\\" | lenght\"", "4:23"},
		{"jq: \"\\\"a\n      b\\\" | lenght\"", "4:9"},
		{"jq: .a\n      | lenght", "4:9"},
		{"jq: '\"é\" | $wrod'", "4:16"},
	} {
		_, err := Load([]byte("pipeline: p\ntasks:\n  a:\n    "+c.body+"\n    out: A\n"), Options{File: "x"})
		if err == nil || !strings.HasPrefix(err.Error(), "x:"+c.want+":") {
			t.Errorf("%s: %v, want at %s", c.body, err, c.want)
		}
	}
}

func TestJQLimit(t *testing.T) {
	for _, filter := range []string{strings.Repeat("(", maxFilter+1), strings.Repeat("[", maxFilter/2-1) + strings.Repeat("]", maxFilter/2-1)} {
		_, err := Load([]byte(fmt.Sprintf("pipeline: p\ntasks:\n  a: {out: A, jq: '%s'}\n", filter)), Options{})
		if len(filter) > maxFilter && err == nil {
			t.Error("a filter too long")
		}
	}
}
