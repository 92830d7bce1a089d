package spec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"operon/spec/coord"
	"operon/spec/value"
)

const fingerprinted = `
pipeline: p
params: {n: 3, unused: x}
env: {LANG: C}
tasks:
  a:
    out: A<i>
    run: seq 3
  b:
    in: [A, A<i>]
    for: i
    out: B
    run: |
      echo $n $a
    timeout: 5s
  c:
    in: {x: B}
    for: i
    out: C<j>
    exec: [cut, -c, "{i}", "{x}"]
    format: files
    file: "*.x"
    env: {E: "{n}"}
  d:
    in: C
    for: [i, j]
    out: D
    jq: '. + $n'
  e:
    out: E<k>
    source: {values: [1, "1"]}
`

// edited is fingerprinted with one text replaced.
func edited(t *testing.T, old, new string) string {
	t.Helper()
	if !strings.Contains(fingerprinted, old) {
		t.Fatalf("%q is not there", old)
	}
	return strings.Replace(fingerprinted, old, new, 1)
}

// What a task's body can't feel does not move its fingerprint; what it can does,
// and the field that differs says so.
func TestFingerprint(t *testing.T) {
	base := mustLoad(t, fingerprinted, Options{})
	for _, c := range []struct{ task, old, new, field string }{
		{"b", "timeout: 5s", "timeout: 6s", ""},
		{"b", "timeout: 5s", "retry: 3\n    grace: 1s\n    pool: 2\n    order: -i\n    description: x\n    cache: false", ""},
		{"b", "unused: x", "unused: y", ""},
		{"b", "params: {n: 3, unused: x}", "params: {unused: x, n: 3}", ""},
		{"b", "in: [A, A<i>]", "in: [A<i>, A]", ""},
		{"b", "in: [A, A<i>]", "in: {a_i: A<i>, a: A}", ""},
		{"b", "for: i\n    out: B", "out: B\n    for: [i] # each", ""},
		{"b", "env: {LANG: C}", "env: {\"LANG\": 'C'}", ""},
		{"b", "  b:\n", "  renamed:\n", ""},
		{"d", "for: [i, j]", "for: [j, i]", ""},
		{"b", "timeout: 5s", "stdin: a_i", ""},
		{"b", "timeout: 5s", "shell: sh", ""},
		{"b", "timeout: 5s", "format: text", ""},
		{"b", "timeout: 5s", "workdir: .", ""},
		{"c", "[cut, -c,", "[cut, '-c',", ""},

		{"b", "echo $n $a", "echo $n $a ", "body"},
		{"b", "n: 3", "n: 4", "param n"},
		{"b", "n: 3", "n: {type: int, default: 3}", "param n"},
		{"b", "env: {LANG: C}", "env: {LANG: de}", "env LANG"},
		{"b", "env: {LANG: C}", "env: {LANG: C, MORE: x}", "env MORE"},
		{"b", "timeout: 5s", "shell: bash", "shell"},
		{"b", "timeout: 5s", "format: json", "format"},
		{"b", "timeout: 5s", "workdir: x", "workdir"},
		{"b", "timeout: 5s", "stdin: none", "stdin"},
		{"b", "timeout: 5s", "stdin: {from: a_i, as: json}", "stdin"},
		{"b", "in: [A, A<i>]", "in: {a: A, all: A<i>}", "input a_i"},
		{"b", "in: [A, A<i>]", "in: {a: A, a_i: A}", "input a_i"},
		{"c", "\"*.x\"", "\"*.y\"", "file"},
		{"c", "E: \"{n}\"", "E: \"{i}\"", "env E"},
		{"c", "[cut, -c, \"{i}\"", "['cut, -c', \"{i}\"", "body"},
		{"c", "for: i\n    out: C<j>", "for: i\n    out: CC<j>", "out"},
		{"d", "for: [i, j]\n    out: D", "for: [i, j, k]\n    out: D", "for"},
		{"d", "jq: '. + $n'", "run: '. + $n'", "kind"},
		{"e", "[1, \"1\"]", "[1, 1]", "body"},
		{"e", "{values: [1, \"1\"]}", "{count: 2}", "body"},
	} {
		src := edited(t, c.old, c.new)
		if c.task == "c" && strings.Contains(c.new, "CC") {
			src = strings.Replace(src, "in: C\n", "in: {c: CC}\n", 1)
		}
		p := mustLoad(t, src, Options{})
		was := base.Task(c.task)
		now := p.Task(c.task)
		if now == nil {
			now = p.Tasks[was.Index]
		}
		moved := now.Fingerprint != was.Fingerprint
		if moved != (c.field != "") {
			t.Errorf("%s, %q → %q: moved %v", c.task, c.old, c.new, moved)
		}
		if diff := cmp.Diff(was.Fields, now.Fields); moved && !strings.Contains(diff, c.field) {
			t.Errorf("%q → %q: the fields do not say %s: %s", c.old, c.new, c.field, diff)
		} else if !moved && diff != "" {
			t.Errorf("%q → %q: the fields moved: %s", c.old, c.new, diff)
		}
	}
}

// The digest is stored: that of one task is written down, so that none changes
// unnoticed. Whoever means it to change raises the version too.
func TestFingerprintIsStable(t *testing.T) {
	p := mustLoad(t, fingerprinted, Options{})
	want := []Field{
		{"kind", "run"}, {"body", "echo $n $a\n"}, {"out", "B"}, {"for", "i"}, {"input a", "A"}, {"input a_i", "A<i>"},
		{"stdin", "a_i"}, {"format", "text"}, {"shell", `["sh", "-e", "-c"]`}, {"workdir", "."}, {"env LANG", "C"}, {"param n", `"3"`},
	}
	if diff := cmp.Diff(want, p.Task("b").Fields); diff != "" {
		t.Error(diff)
	}
	if got := p.Task("b").Fingerprint.String(); got != "997acb85aa64d5aa49898f1733ee55724586befdfcbe31577c2e92414b2f2f46" {
		t.Errorf("the fingerprint is %s", got)
	}
	key := JobKey(p.Task("c"), []value.Digest{{1}}, coord.Of(2), value.Digest{})
	if got := key.String(); got != "49cc64ebba51376245ce74da08771c96b4c73c96a01c361338d886ec49374b2a" {
		t.Errorf("the job key is %s", got)
	}
}

// Two lists of fields have one digest if they are one list.
func TestFieldsAreFramed(t *testing.T) {
	seen := map[value.Digest]int{}
	for i, fields := range [][]Field{
		nil, {{"", ""}}, {{"a", "b"}}, {{"ab", ""}}, {{"", "ab"}}, {{"a", ""}, {"b", ""}}, {{"a", "b"}, {"", ""}}, {{"b", "a"}},
	} {
		d := digestFields(fields)
		if other, twice := seen[d]; twice {
			t.Errorf("%d and %d are one", i, other)
		}
		seen[d] = i
	}
}

func TestJobKey(t *testing.T) {
	p := mustLoad(t, fingerprinted, Options{})
	b, c := p.Task("b"), p.Task("c")
	one, two := value.Digest{1}, value.Digest{2}
	key := JobKey(b, []value.Digest{one, two}, coord.Of(0), value.Digest{})
	if key != JobKey(b, []value.Digest{one, two}, coord.Of(7), value.Digest{}) {
		t.Error("an index that the body does not mention changes the key")
	}
	for name, other := range map[string]value.Digest{
		"inputs swapped": JobKey(b, []value.Digest{two, one}, coord.Of(0), value.Digest{}),
		"another input":  JobKey(b, []value.Digest{one, one}, coord.Of(0), value.Digest{}),
		"extra":          JobKey(b, []value.Digest{one, two}, coord.Of(0), one),
		"another task":   JobKey(c, []value.Digest{one}, coord.Of(0), value.Digest{}),
	} {
		if other == key {
			t.Errorf("%s: the key is the same", name)
		}
	}
	if JobKey(c, []value.Digest{one}, coord.Of(0), value.Digest{}) == JobKey(c, []value.Digest{one}, coord.Of(1), value.Digest{}) {
		t.Error("an index that the body mentions does not change the key")
	}
	// The order of `in` changes nothing, if each digest stays with its input.
	turned := mustLoad(t, edited(t, "in: [A, A<i>]", "in: [A<i>, A]"), Options{}).Task("b")
	if JobKey(turned, []value.Digest{two, one}, coord.Of(0), value.Digest{}) != key {
		t.Error("the order of inputs changes the key")
	}
}
