package spec

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// mustLoad loads src, which nothing may be wrong with.
func mustLoad(t testing.TB, src string, o Options) *Pipeline {
	t.Helper()
	o.File = "test.yaml"
	p, err := Load([]byte(src), o)
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	return p
}

// rulesOf are the rules that src breaks, in order.
func rulesOf(src string) []string {
	_, err := Load([]byte(src), Options{File: "test.yaml", LookupEnv: noEnv})
	var rules []string
	if err != nil {
		for _, e := range err.(Errors) {
			rules = append(rules, e.Rule)
		}
	}
	return rules
}

const everything = `
pipeline: everything
description: all that a file may say
params:
  text: 1.10
  n: {type: int, default: 12345678901234567890, description: a number}
  ratio: {type: float, default: 1.0}
  flag: {type: bool, default: true}
  data: {type: json, default: {b: [1, 1.0, no, "1", null], a: 010}}
  mode: {choices: [fast, slow], default: fast, env: MODE}
env: {LANG: C, TEXT: "{text}"}
defaults:
  retry: 2
  timeout: 1h30m
  env: {BOTH: default, OWN: default}
  shell: bash
  cache: true
tasks:
  docs:
    out: Doc<doc>
    source: {glob: ["data/*.txt", "more/**"], copy: true}
  split:
    description: into parts
    in: {part_doc: Doc}
    for: doc
    out: Part<part>
    run: split -l "$n" "$doc" "$out/"
    format: files
    file: "*.part"
    pool: 3
    order: -doc
    retry: {times: 5, backoff: 2s, factor: 1.5, max_backoff: 10s, jitter: 0, on: [75, 3, signal, 75]}
    timeout: 0
    grace: 1s
    shell: [zsh, -e, -c]
    workdir: scripts
    deps: [tools/*.py, a.sh]
    cache: false
    env: {BOTH: task, ARG: "{part_doc}x{{y}}"}
    stdin: none
  count:
    in: {p: Part}
    for: [part, doc]
    out: Count
    exec: [wc, -l, "{p}", "{doc}:{part}", "{{}}", "{}"]
    format: text
    pool: {env: POOL}
    stdin: none
  sums:
    in: ["Count<doc, part>", Doc<doc>]
    out: Sum
    jq: '.count_doc_part | flatten | map(tonumber) | add + $n'
  table:
    in: {all: "Part<doc, part>", sum: Sum}
    out: Table
    run: cat; echo "${sum}"
    format: file
    file: table-{sum}.txt
    stdin: {from: all, as: lines}
`

func TestEverything(t *testing.T) {
	env := func(name string) (string, bool) {
		v, ok := map[string]string{"POOL": "7", "MODE": "slow"}[name]
		return v, ok
	}
	p := mustLoad(t, everything, Options{LookupEnv: env})
	t.Run("params", func(t *testing.T) {
		var got []string
		for _, param := range p.Params {
			got = append(got, fmt.Sprintf("%s %s %s", param.Name, param.Type, param.Value.JSON))
		}
		want := []string{
			`text string "1.10"`, `n int 12345678901234567890`, `ratio float 1.0`, `flag bool true`,
			`data json {"b":[1,1.0,"no","1",null],"a":"010"}`, `mode string "slow"`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("split", func(t *testing.T) {
		s := p.Task("split")
		if diff := cmp.Diff(Retry{Times: 5, Backoff: 2 * time.Second, Factor: 1.5, MaxBackoff: 10 * time.Second, Exits: []int{3, 75}, OnSignal: true}, s.Retry); diff != "" {
			t.Error(diff)
		}
		if s.Timeout != 0 || s.Grace != time.Second || s.Workdir != "scripts" || s.Cache || s.Pool.Size != 3 || s.Glob != "*.part" || s.Format != FormatFiles {
			t.Errorf("%+v", s)
		}
		if diff := cmp.Diff([]string{"zsh", "-e", "-c"}, s.Shell); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"doc", "n", "out", "part_doc", "text"}, s.Mentions); diff != "" {
			t.Error(diff)
		}
		var env []string
		for _, v := range s.Env {
			env = append(env, v.Name+"="+v.Value.String())
		}
		if diff := cmp.Diff([]string{"BOTH=task", "OWN=default", "ARG={part_doc}x{{y}}"}, env); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]OrderKey{{Position: 0, Descending: true}}, s.Order); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("count", func(t *testing.T) {
		c := p.Task("count")
		if c.Pool != (Pool{Size: 7, Env: "POOL"}) || c.Retry.Times != 2 || !c.Retry.OnOutput || c.Timeout != 90*time.Minute || c.Grace != 10*time.Second {
			t.Errorf("%+v", c)
		}
		if diff := cmp.Diff([]string{"doc", "part"}, c.ContextNames()); diff != "" {
			t.Error(diff)
		}
		text, err := c.Body.Argv[3].Expand(func(name string) (string, error) { return "<" + name + ">", nil })
		if text != "<doc>:<part>" || err != nil {
			t.Errorf("%q %v", text, err)
		}
		if got := c.Body.Argv[4].String() + c.Body.Argv[5].String(); got != "{{}}{{}}" {
			t.Errorf("braces %q", got)
		}
		if len(c.Stdin.From) != 0 || !c.Stdin.None {
			t.Errorf("%+v", c.Stdin)
		}
	})
	t.Run("rest", func(t *testing.T) {
		if diff := cmp.Diff([]string{"n"}, JQVariables(p.Task("sums"))); diff != "" {
			t.Error(diff)
		}
		if got := p.Task("sums").Stdin.From; len(got) != 2 || got[0].Arg != "count_doc_part" {
			t.Errorf("%v", got)
		}
		table := p.Task("table")
		if got := table.Stdin; len(got.From) != 1 || got.From[0].Arg != "all" || got.As != AsLines {
			t.Errorf("%+v", got)
		}
		if got := table.File.String(); got != "table-{sum}.txt" {
			t.Error(got)
		}
		if diff := cmp.Diff([]string{"sum", "text"}, table.Mentions); diff != "" {
			t.Error(diff)
		}
		docs := p.Task("docs").Body.Source
		if diff := cmp.Diff(&Source{Kind: SourceGlob, Globs: []string{"data/*.txt", "more/**"}, Copy: true}, docs); diff != "" {
			t.Error(diff)
		}
		if len(p.Env) != 2 || p.Description == "" {
			t.Errorf("%+v", p.Env)
		}
	})
}

func TestDefaultsOfTheLanguage(t *testing.T) {
	p := mustLoad(t, "pipeline: p\ntasks:\n  a: {out: A, run: echo}\n  b: {out: B<i>, run: echo, retry: 3}\n", Options{})
	a, b := p.Task("a"), p.Task("b")
	if a.Format != FormatText || b.Format != FormatLines || a.Grace != 10*time.Second || a.Timeout != 0 || !a.Cache || a.PoolSize() != 0 {
		t.Errorf("%+v", a)
	}
	want := Retry{Times: 3, Backoff: time.Second, Factor: 2, MaxBackoff: time.Minute, Jitter: 0.1, OnExit: true, OnSignal: true, OnTimeout: true, OnOutput: true}
	if diff := cmp.Diff(want, b.Retry); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"sh", "-e", "-c"}, a.Shell); diff != "" {
		t.Error(diff)
	}
	if a.Line != 3 || a.Body.Line != 3 || a.Body.Column != 20 {
		t.Errorf("line %d, body %d:%d", a.Line, a.Body.Line, a.Body.Column)
	}
}

// Where a text is meant, a scalar keeps its source text.
func TestSourceTextIsKept(t *testing.T) {
	for _, text := range []string{"1.10", "010", "no", "2024-01-02", "~", "null", "0x1F", "1_000", ".inf", "12:30:45", "1e3", "on", "y", "123456789123456789123"} {
		p := mustLoad(t, fmt.Sprintf("pipeline: p\nparams: {x: %s}\nenv: {A: %s}\ntasks:\n  a:\n    out: A\n    exec: [echo, %s]\n", text, text, text), Options{})
		got := []string{p.Params[0].Text(), p.Env[0].Value.String(), p.Task("a").Body.Argv[1].String()}
		for _, g := range got {
			if g != text {
				t.Errorf("%s became %s", text, g)
			}
		}
	}
}

// Where any JSON value is meant, a plain number, true, false or null is that,
// digit for digit, and everything else is a string.
func TestJSONScalars(t *testing.T) {
	for text, want := range map[string]string{
		"1.10": "1.10", "-0": "-0", "1e3": "1e3", "12345678901234567890": "12345678901234567890",
		"true": "true", "null": "null", "false": "false",
		"True": `"True"`, "010": `"010"`, "~": `"~"`, ".5": `".5"`, "+1": `"+1"`, "0x1F": `"0x1F"`, "no": `"no"`, "2024-01-02": `"2024-01-02"`,
		`"1"`: `"1"`, "'true'": `"true"`, `""`: `""`, "{a: 1, b: [x, 2]}": `{"a":1,"b":["x",2]}`, "[]": "[]", "{}": "{}",
		`"\u00e9\n"`: `"é\n"`, "!!str 5": `"5"`,
	} {
		p := mustLoad(t, "pipeline: p\ntasks:\n  a:\n    out: A<i>\n    source:\n      values:\n        - "+text+"\n", Options{})
		if got := string(p.Task("a").Body.Source.Values[0]); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
}

func TestSources(t *testing.T) {
	for text, want := range map[string]Source{
		"{glob: '*.txt'}":            {Kind: SourceGlob, Globs: []string{"*.txt"}},
		"{copy: true, glob: [a, b]}": {Kind: SourceGlob, Globs: []string{"a", "b"}, Copy: true},
		"{lines: a.txt}":             {Kind: SourceLines, Path: "a.txt"},
		"{jsonl: a}":                 {Kind: SourceJSONL, Path: "a"},
		"{json: a}":                  {Kind: SourceJSON, Path: "a"},
		"{csv: a}":                   {Kind: SourceCSV, Path: "a"},
		"{tsv: a}":                   {Kind: SourceTSV, Path: "a"},
		"{values: []}":               {Kind: SourceValues},
		"{count: 0}":                 {Kind: SourceCount},
		"{count: 4294967295}":        {Kind: SourceCount, Count: 4294967295},
	} {
		p := mustLoad(t, "pipeline: p\ntasks:\n  a:\n    out: A<i>\n    source: "+text+"\n", Options{})
		if diff := cmp.Diff(&want, p.Task("a").Body.Source); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	if got := rulesOf("pipeline: p\ntasks:\n  a:\n    out: A<i>\n    source: {count: 4294967296}\n"); !slices.Equal(got, []string{"value"}) {
		t.Errorf("a list too long: %v", got)
	}
}

// A byte order mark, CRLF, anchors, aliases and merge keys change nothing.
func TestSamePipeline(t *testing.T) {
	plain := "pipeline: p\ntasks:\n  a:\n    out: A<i>\n    run: |\n      seq 3\n      echo done\n    timeout: 5s\n  b:\n    in: A\n    for: i\n    out: B\n    run: cat\n    timeout: 5s\n"
	want := mustLoad(t, plain, Options{})
	for name, src := range map[string]string{
		"bom":       "\ufeff" + plain,
		"crlf":      strings.ReplaceAll(plain, "\n", "\r\n"),
		"comments":  "# a\n" + strings.ReplaceAll(plain, "timeout: 5s", "timeout: 5s # short"),
		"anchors":   strings.Replace(strings.Replace(plain, "timeout: 5s", "timeout: &t 5s", 1), "cat\n    timeout: 5s", "cat\n    timeout: *t", 1),
		"merge":     strings.Replace(strings.Replace(plain, "  a:\n", "  a:\n    <<: &d {timeout: 5s, grace: 10s}\n", 1), "cat\n    timeout: 5s", "cat\n    <<: [*d]", 1),
		"key order": "tasks:\n  b: {timeout: 5s, run: cat, out: B, for: [i], in: [A]}\n  a:\n    run: |\n      seq 3\n      echo done\n    out: A<i>\npipeline: p\n",
		"flow":      "{pipeline: p, tasks: {a: {out: A<i>, run: \"seq 3\\necho done\\n\"}, b: {in: A, for: i, out: B, run: cat}}}",
	} {
		got := mustLoad(t, src, Options{})
		for _, task := range want.Tasks {
			if other := got.Task(task.Name); other == nil || other.Fingerprint != task.Fingerprint {
				t.Errorf("%s: the fingerprint of %s moved: %v", name, task.Name, cmp.Diff(task.Fields, other.Fields))
			}
		}
	}
}

func TestMergeKeys(t *testing.T) {
	p := mustLoad(t, `
pipeline: p
defaults: {env: &base {A: base, B: base}}
tasks:
  a:
    out: A
    run: echo
    env:
      B: own
      <<: [{C: first, A: first}, *base, {C: second, D: second}]
      E: own
`, Options{})
	var got []string
	for _, v := range p.Task("a").Env {
		got = append(got, v.Name+"="+v.Value.String())
	}
	if diff := cmp.Diff([]string{"A=first", "B=own", "C=first", "D=second", "E=own"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestWarnings(t *testing.T) {
	p := mustLoad(t, `
pipeline: p
tasks:
  a: {out: A<i>, run: seq 3}
  b: {in: A<i>, for: i, out: B, run: wc -l}
  c: {in: A<i>, for: i, out: C, run: 'echo $i'}
  d: {in: A<i>, for: i, out: D, run: wc -l, cache: false}
  e: {in: A, for: i, out: E, run: echo, stdin: none}
  f: {in: [A, B], for: i, out: F, run: cat, stdin: a}
  g: {in: A, for: i, out: G, exec: [echo, '{"a":{"b":1}}', "{a}"]}
  h: {in: A, for: i, out: H<j>, run: cat, format: files}
`, Options{})
	var got []string
	for _, w := range p.Warnings {
		got = append(got, fmt.Sprintf("%d %s", w.Range.Line, w.Rule))
	}
	want := []string{"5 equal-jobs", "8 input-left-out", "9 input-left-out", "10 braces", "11 no-out"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPoolFromEnvironment(t *testing.T) {
	src := []byte("pipeline: p\ntasks:\n  a: {out: A, run: echo, pool: {env: WORKERS}}\n")
	for text, want := range map[string]int{"4": 4, " 12 ": 12, "0": -1, "x": -1, "-1": -1, "": -1, "1.5": -1} {
		p, err := Load(src, Options{LookupEnv: func(string) (string, bool) { return text, true }})
		switch {
		case want < 0 && (err == nil || err.(Errors)[0].Rule != "pool"):
			t.Errorf("%q is no size: %v", text, err)
		case want > 0 && (err != nil || p.Task("a").PoolSize() != want):
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Load(src, Options{LookupEnv: noEnv}); err == nil {
		t.Error("the variable is not set")
	}
	if _, err := Load(src, Options{}); err != nil {
		t.Errorf("looked at only: %v", err)
	}
}

type fakeDigests map[string][]Dep

func (f fakeDigests) Digest(pattern string) ([]Dep, error) {
	deps, ok := f[pattern]
	if !ok {
		return nil, fmt.Errorf("open %s: no such file", pattern)
	}
	return deps, nil
}

func TestDeps(t *testing.T) {
	src := "pipeline: p\ntasks:\n  a: {out: A, run: echo, deps: [lib/*, b.py]}\n"
	f := fakeDigests{"lib/*": {{Path: "lib/z"}, {Path: "lib/a", SHA256: [32]byte{1}}}, "b.py": {{Path: "b.py"}, {Path: "lib/z"}}}
	p := mustLoad(t, src, Options{Digests: f})
	want := []Dep{{Path: "b.py"}, {Path: "lib/a", SHA256: [32]byte{1}}, {Path: "lib/z"}}
	if diff := cmp.Diff(want, p.Task("a").Deps); diff != "" {
		t.Error(diff)
	}
	if p.Task("a").Fingerprint == mustLoad(t, src, Options{}).Task("a").Fingerprint {
		t.Error("the fingerprint does not cover the content of deps")
	}
	delete(f, "b.py")
	f["lib/*"] = nil
	_, err := Load([]byte(src), Options{Digests: f})
	if errs, _ := err.(Errors); len(errs) != 2 || errs[0].Rule != "deps" || errs[1].Rule != "deps" {
		t.Errorf("missing files: %v", err)
	}
}

// What is said of the size of a file is said at once, whatever its size.
func TestLimits(t *testing.T) {
	if got := rulesOf(strings.Repeat("#", maxSource+1)); !slices.Equal(got, []string{"limit"}) {
		t.Errorf("a large file: %v", got)
	}
	var b strings.Builder
	b.WriteString("pipeline: p\ntasks:\n")
	for i := range maxTasks + 1 {
		fmt.Fprintf(&b, "  t%d: {out: T%d, run: x}\n", i, i)
	}
	if got := rulesOf(b.String()); !slices.Equal(got, []string{"limit"}) {
		t.Errorf("many tasks: %v", got)
	}
	b.Reset()
	b.WriteString("pipeline: p\ntasks:\n")
	var dims []string
	for i := range maxDims + 1 {
		dims = append(dims, fmt.Sprintf("d%d", i))
		fmt.Fprintf(&b, "  t%d: {out: 'T%d<d%d>', run: x}\n", i, i, i)
	}
	all := strings.Join(dims, ", ")
	src := b.String() + "  u: {for: [" + all + "], out: U, run: 'x'}\n"
	if got := rulesOf(src); !slices.Equal(got, []string{"limit"}) {
		t.Errorf("many dimensions: %v", got)
	}
	sixteen := strings.Join(dims[:maxDims], ", ")
	src = b.String() + "  u: {for: [" + sixteen + "], out: 'U<v>', run: 'x'}\n  w: {in: 'U<" + sixteen + "'>, out: W, run: x}\n"
	src = strings.Replace(src, "'>, out: W", ", v>', out: W", 1)
	if got := rulesOf(src); !slices.Equal(got, []string{"limit"}) {
		t.Errorf("a slice of many dimensions: %v", got)
	}
}

// A million errors are not a million lines.
func TestManyErrors(t *testing.T) {
	src := "pipeline: p\ntasks: {a: {" + strings.Repeat("x: 1, ", 50000) + "}}\n"
	rules := rulesOf(src)
	if len(rules) != maxErrors+1 || rules[maxErrors] != "limit" {
		t.Errorf("%d errors", len(rules))
	}
}

// A chain as long as tasks may be many, and diamonds with a million paths: work
// that grows with the paths, or recursion along them, would not end here.
func TestDeepAndWide(t *testing.T) {
	var b strings.Builder
	b.WriteString("pipeline: p\ntasks:\n  t0: {out: T0, run: echo}\n")
	for i := 1; i < maxTasks; i++ {
		fmt.Fprintf(&b, "  t%d: {in: T%d, out: T%d, run: cat}\n", i, i-1, i)
	}
	p := mustLoad(t, b.String(), Options{})
	last := p.Tasks[maxTasks-1]
	if ups := last.AllUpstreamTasks(); len(ups) != maxTasks-1 || ups[0].Name != "t0" || p.Topo[maxTasks-1] != last {
		t.Errorf("%d tasks upstream", len(ups))
	}
	b.Reset()
	b.WriteString("pipeline: p\ntasks:\n  a0: {out: A0, run: echo}\n")
	for i := range 20 {
		fmt.Fprintf(&b, "  b%d: {in: A%d, out: B%d, run: cat}\n  c%d: {in: A%d, out: C%d, run: cat}\n", i, i, i, i, i, i)
		fmt.Fprintf(&b, "  a%d: {in: [B%d, C%d], out: A%d, run: cat}\n", i+1, i, i, i+1)
	}
	p = mustLoad(t, b.String(), Options{})
	if ups := p.Task("a20").AllUpstreamTasks(); len(ups) != 60 {
		t.Errorf("%d tasks upstream", len(ups))
	}
}

// Every dimension may depend on the one before alone: the file is wrong, and
// saying so costs no more than reading it.
func TestUnclosedChain(t *testing.T) {
	var b strings.Builder
	b.WriteString("pipeline: p\ntasks:\n  t0: {out: T0<d0>, run: echo}\n")
	for i := 1; i < 2000; i++ {
		fmt.Fprintf(&b, "  t%d: {in: T%d, for: d%d, out: T%d<d%d>, run: cat}\n", i, i-1, i-1, i, i)
	}
	if rules := rulesOf(b.String()); len(rules) == 0 || rules[0] != "context-closed" {
		t.Errorf("%v", rules[:min(len(rules), 5)])
	}
}

// As many names may be unknown as there are tasks, and near each of as many.
func TestManyUnknownNames(t *testing.T) {
	var b strings.Builder
	b.WriteString("pipeline: p\ntasks:\n")
	for i := range 1500 {
		fmt.Fprintf(&b, "  task_of_a_long_name_%d: {in: EntityOfALongNameX%dX, for: dimension_of_a_long_name_%d, out: EntityOfALongName%d, run: cat}\n", i, i, i, i)
	}
	rules := rulesOf(b.String())
	if len(rules) != maxErrors+1 || !slices.Contains(rules, "unknown-entity") || !slices.Contains(rules, "unknown-dimension") {
		t.Errorf("%d errors: %v", len(rules), rules[:5])
	}
}
