package spec

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Each rule of well-formedness, broken and kept. Tasks are written as
// "name: inputs | for | out"; a body is added.
func TestWellFormedness(t *testing.T) {
	const base = "a: | | A<i>; b: A | i | B<j>; c: B | i j | C<k>; x: | | X<y>; "
	for _, c := range []struct {
		tasks string
		rules string
	}{
		// 1: one producer, one spawner
		{base + "d: | | A", "one-producer"},
		{base + "d: | | D<i>", "one-spawner"},
		// names are used once, whatever they name
		{base + "d: | | D<a>", "name-twice"},
		{base + "i: | | D", "name-twice"},
		// 2: no cycle
		{"a: B | | A; b: A | | B", "cycle"},
		{"a: A | | A", "cycle"},
		{"a: | i | A<i>", "cycle"},
		{"a: | j | A<i>; b: | i | B<j>", "cycle"},
		{"a: C | | A; b: A | | B; c: B | | C; d: E | | D; e: D | | E; f: C | | F", "cycle cycle"},
		// 4: the context is closed
		{base + "d: B | j | D", "context-closed"},
		{base + "d: C | k | D", "context-closed"},
		{base + "d: C | j k | D", "context-closed context-closed"},
		{base + "d: C | k j i | D", ""},
		// 5: a slice names dimensions of the entity
		{base + "d: A<j> | i | D", "slice-dimension"},
		{base + "d: A<y> | i | D", "slice-dimension"},
		{base + "d: A<nothing> | i | D", "unknown-dimension"},
		// 6: nothing hangs
		{base + "d: A | | D", "hanging-dimension"},
		{base + "d: B | i | D", "hanging-dimension"},
		{base + "d: B<j> | | D", "hanging-dimension"},
		{base + "d: C<j, k> | i y | D", ""},
		// 7: no inner one stays fixed
		{base + "d: B<i> | i j | D", "inner-dimension-fixed"},
		{base + "d: C<i, k> | i j | D", "inner-dimension-fixed"},
		{base + "d: C<j> | i j k | D", "inner-dimension-fixed"},
		{base + "d: C<i, j, k> | | D", ""},
		// 8: broadcast
		{base + "d: A, X | i y | D", ""},
		{base + "d: A | i j k y | D", ""},
		{base + "d: | i j | D", ""},
		// 9: a sliced dimension may be in the context
		{base + "d: B, B<j>, B<i, j> | i j | D", ""},
		{base + "d: A, A<i> | i | D", ""},
		// 10: once, and in order
		{base + "d: A | i i | D", "dimension-twice"},
		{base + "d: A<i, i> | | D", "dimension-twice"},
		{base + "d: B<j, i> | | D", "slice-order"},
		{base + "d: C<i, k, j> | | D", "slice-order"},
		{base + "d: X, A | y i | D; e: D<i, y>, D<y, i> | | E", ""},
		// 11: the names of arguments differ
		{base + "d: A, A | i | D", "argument-clash"},
		{base + "d: A<i>, A<i> | | D", "argument-clash"},
		{base + "out: | | Out; d: Out | | D", "argument-clash"},
	} {
		src := pipelineText(c.tasks)
		got := strings.Join(rulesOf(src), " ")
		if got != c.rules {
			_, err := Load([]byte(src), Options{})
			t.Errorf("%s: %q, want %q\n%v", c.tasks, got, c.rules, err)
		}
	}
}

// pipelineText writes the tasks of a table out.
func pipelineText(tasks string) string {
	var b strings.Builder
	b.WriteString("pipeline: p\ntasks:\n")
	for task := range strings.SplitSeq(tasks, ";") {
		name, rest, _ := strings.Cut(task, ":")
		parts := strings.Split(rest, "|")
		fmt.Fprintf(&b, "  %s:\n    out: %s\n    run: cat\n", strings.TrimSpace(name), strings.TrimSpace(parts[2]))
		if dims := strings.Fields(parts[1]); len(dims) > 0 {
			fmt.Fprintf(&b, "    for: [%s]\n", strings.Join(dims, ", "))
		}
		if in := strings.TrimSpace(parts[0]); in != "" {
			b.WriteString("    in:\n")
			for _, ref := range splitRefs(in) {
				fmt.Fprintf(&b, "      - %s\n", ref)
			}
		}
	}
	return b.String()
}

// splitRefs splits at the commas outside of brackets.
func splitRefs(text string) []string {
	depth := 0
	return strings.FieldsFunc(text, func(r rune) bool {
		switch r {
		case '<':
			depth++
		case '>':
			depth--
		}
		return depth == 0 && (r == ',' || r == ' ')
	})
}

// The canonical order follows from the dimensions alone.
func TestCanonicalOrder(t *testing.T) {
	p := mustLoad(t, pipelineText("x: | | X<b>; y: X | b | Y<a>; z: | | Z<c>; w: Y, Z | c a b | W<d>; v: W<d> | a b c | V"), Options{})
	var dims []string
	for _, d := range p.Dims {
		dims = append(dims, d.Name+":"+strings.Join(dimNames(d.Prec), ","))
	}
	if diff := cmp.Diff([]string{"b:", "c:", "a:b", "d:b,c,a"}, dims); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"b", "c", "a"}, p.Task("v").ContextNames()); diff != "" {
		t.Error(diff)
	}
	in := p.Task("v").In[0]
	if got := dimNames(in.Free); !slices.Equal(got, []string{"b", "c", "a"}) || len(in.Slice) != 1 {
		t.Errorf("free %v", got)
	}
	if got := p.Entity("W").DimNames(); !slices.Equal(got, []string{"b", "c", "a", "d"}) {
		t.Errorf("%v", got)
	}
	if !p.Dim("d").DependsOn(p.Dim("a")) || p.Dim("a").DependsOn(p.Dim("c")) {
		t.Error("what depends on what")
	}
}

// Whatever the order of the file: every task comes after those it needs, all
// that is upstream comes before, and what does not depend on the order of the
// file does not change.
func TestOrderOfTheFile(t *testing.T) {
	tasks := []string{
		"a: | | A<i>", "b: A | i | B<j>", "c: B | i j | C<k>", "d: A | i | D<l>",
		"e: B, D | i j l | E", "f: E<i, j, l>, C<i, j, k> | | F", "g: F, A | i | G",
	}
	want := mustLoad(t, pipelineText(strings.Join(tasks, ";")), Options{})
	rapid.Check(t, func(t *rapid.T) {
		shuffled := rapid.Permutation(tasks).Draw(t, "tasks")
		p, err := Load([]byte(pipelineText(strings.Join(shuffled, ";"))), Options{})
		if err != nil {
			t.Fatal(err)
		}
		at := map[*TaskSpec]int{}
		for i, task := range p.Topo {
			at[task] = i
		}
		for i, task := range p.Topo {
			for _, up := range task.AllUpstreamTasks() {
				if at[up] >= i {
					t.Fatalf("%s comes after %s", up.Name, task.Name)
				}
			}
			if task.Fingerprint != want.Task(task.Name).Fingerprint {
				t.Fatalf("the fingerprint of %s moved", task.Name)
			}
		}
		for i, d := range p.Dims {
			if d.Name != want.Dims[i].Name || d.Index != i {
				t.Fatalf("dimension %d is %s", i, d.Name)
			}
		}
	})
}

// Ties go by the order of the file.
func TestTopoTies(t *testing.T) {
	p := mustLoad(t, pipelineText("e: D | | E; c: A | | C; a: | | A; d: A | | D; b: | | B"), Options{})
	var names []string
	for _, task := range p.Topo {
		names = append(names, task.Name)
	}
	if got := strings.Join(names, " "); got != "a c d e b" {
		t.Error(got)
	}
	ups := p.Task("e").AllUpstreamTasks()
	if len(ups) != 2 || ups[0].Name != "a" || ups[1].Name != "d" {
		t.Errorf("%v", ups)
	}
}

// What is wrong with one task's names is not said again of those that use them.
func TestNoFollowUps(t *testing.T) {
	for src, want := range map[string]string{
		"pipeline: p\ntasks:\n  a: {out: 'A<i', run: x}\n  b: {in: A, for: i, out: B, run: x}\n":                                    "reference",
		"pipeline: p\ntasks:\n  a: {out: A<i>, for: q, run: x}\n  b: {in: A, for: i, out: B, run: x}\n":                             "unknown-dimension",
		"pipeline: p\ntasks:\n  a: {out: A<i>, runn: x}\n  b: {in: A, for: i, out: B, run: x}\n":                                    "unknown-key",
		"pipeline: p\nenv: 3\ntasks:\n  a: {out: A<i>, run: x, pool: x y}\n  b: {in: A, for: i, out: B, run: x}\n":                  "type type",
		"pipeline: p\nparams: {n: {type: int, default: x}}\ntasks:\n  a: {out: A, jq: '$n'}\n":                                      "param",
		"pipeline: p\ntasks:\n  a: {out: A, run: x, retry: &r {times: x}}\n  b: {out: B, run: x, retry: *r}\n":                      "type",
		"pipeline: p\ndefaults: {timeout: 5, nothing: 1}\ntasks:\n  a: {out: A, run: x}\n  b: {out: B, run: x}\n":                   "type unknown-key",
		"pipeline: p\ntasks:\n  a: {out: A, run: x}\n  a: {out: B, run: x}\n  b: {in: B, out: C, run: x}\n":                         "duplicate-key unknown-entity",
		"pipeline: p\ntasks:\n  a: {in: [B, C], out: A, run: x}\n":                                                                  "unknown-entity unknown-entity",
		"pipeline: p\ntasks:\n  a: {in: {x: A, y: B<i>}, for: [j], out: Q, jq: '$x + $y + $z'}\n":                                   "unknown-entity unknown-entity unknown-dimension unknown-name",
		"pipeline: p\ntasks:\n  a: {out: A<i>, run: x}\n  b: {in: A, for: [i], order: [i, q], out: B, exec: [cat, '{a}', '{b}']}\n": "order unknown-name",
	} {
		if got := strings.Join(rulesOf(src), " "); got != want {
			_, err := Load([]byte(src), Options{})
			t.Errorf("%q, want %q:\n%v", got, want, err)
		}
	}
}
