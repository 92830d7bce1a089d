package spec

import (
	"fmt"
	"strings"
	"testing"
)

// Documents of the kinds that break YAML readers: each is refused at once and in
// its place, or read as what it says.
func TestHostileYAML(t *testing.T) {
	const head = "pipeline: p\ntasks:\n  a:\n    out: A<i>\n"
	for _, c := range []struct{ name, src, want string }{
		{"nesting", head + "    source: {values: " + strings.Repeat("[", 200000), "yaml"},
		{"block nesting", head + "    source:\n      values:\n        " + strings.Repeat("- ", 50000) + "x\n", ""},
		{"closed nesting", head + "    source: {values: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}\n", "limit"},
		{"nesting by aliases", head + "    source: {values: [" + aliasChain(120) + "]}\n", "limit"},
		{"bomb of text", head + "    source: {values: [&x " + strings.Repeat("x", 1<<20) + strings.Repeat(", *x", 1<<10) + "]}\n", "alias"},
		{"bomb of merges", head + "    env:\n" + mergeBomb(), "alias"},
		{"chain of merges", head + "    run: x\n    env: {A: x}\n    description: x\n" + mergeChain(), ""},
		{"anchor in itself", head + "    source: {values: &v [1, *v]}\n", "alias"},
		{"merge of itself", head + "    env: &e {<<: *e}\n", "alias"},
		{"key is a list", head + "    ? [a]\n    : b\n", "key"},
		{"key is a merge of a map", head + "    ? {a: b}\n    : <<: {c: d}\n", "key"},
		{"no value", head + "    run:\n", "no-value"},
		{"directive", "%YAML 1.1\n---\n" + head + "    run: x\n", ""},
		{"end mark", head + "    run: x\n...\n", ""},
		{"after the end mark", head + "    run: x\n...\nmore: 1\n", "second-document"},
		{"second document is broken", head + "    run: x\n---\na: [\n", "yaml"},
		{"empty second document", head + "    run: x\n---\n", "second-document"},
		{"utf-16", "\xff\xfep\x00i\x00", "encoding"},
		{"truncated rune", head + "    run: x\xe2\x82", "encoding"},
		{"surrogate", head + "    run: x\xed\xa0\x80", "encoding"},
		{"escape of a nul", head + "    run: \"x\\0\"\n", "nul"},
		{"line separator", head + "    run: \"x\u2028y\"\n", ""},
		{"a bom inside", head + "    run: \"\ufeff\"\n", ""},
		{"no line end", strings.TrimSuffix(head+"    run: x\n", "\n"), ""},
		{"lone cr", strings.ReplaceAll(head+"    run: x\n", "\n", "\r"), ""},
		{"duplicate through quotes", head + "    run: x\n    'run': y\n", "duplicate-key"},
		{"quoted merge", head + "    run: x\n    \"<<\": {timeout: 1s}\n", "unknown-key"},
		{"binary", head + "    run: !!binary aGk=\n", "tag"},
		{"set", head + "    env: !!set {A}\n    run: x\n", "tag"},
		{"str", head + "    run: !!str 5\n", ""},
		{"local tag", head + "    run: !x 5\n", "tag"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load([]byte(c.src), Options{File: "x"})
			if c.want == "" {
				if err != nil && c.name != "block nesting" {
					t.Fatal(err)
				}
				return
			}
			errs, _ := err.(Errors)
			if len(errs) == 0 {
				t.Fatal("it is read")
			}
			checkRanges(t, []byte(c.src), errs)
			for _, e := range errs {
				if e.Rule == c.want {
					return
				}
			}
			t.Fatalf("%v, want %s", quotable(errs.Error()), c.want)
		})
	}
}

// aliasChain is a list in which each item holds the one before.
func aliasChain(n int) string {
	var b strings.Builder
	b.WriteString("&a0 [x]")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, ", &a%d [*a%d]", i, i-1)
	}
	return b.String()
}

// mergeBomb is mappings that each merge the one before, and a key more.
func mergeBomb() string {
	var b strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&b, "      A%d: &m%d {", i, i)
		if i > 0 {
			fmt.Fprintf(&b, "<<: *m%d, ", i-1)
		}
		fmt.Fprintf(&b, "k%d: x}\n", i)
	}
	return b.String()
}

// mergeChain is tasks that each take all from the one before.
func mergeChain() string {
	var b strings.Builder
	b.WriteString("  t0: &t0 {out: T0, run: x, timeout: 1s}\n")
	for i := 1; i < 300; i++ {
		fmt.Fprintf(&b, "  t%d: &t%d {<<: *t%d, out: T%d}\n", i, i, i-1, i)
	}
	return b.String()
}

// Lines that YAML ends where no editor does shift no place.
func TestPlacesBehindOddLineEnds(t *testing.T) {
	for _, odd := range []string{"\u2028", "\u2029", "\u0085"} {
		src := "pipeline: p\ndescription: \"é" + odd + "b\"\ntasks:\n  a: {out: A, run: x, tmeout: 1s}\n"
		_, err := Load([]byte(src), Options{File: "x"})
		if err == nil || !strings.HasPrefix(err.Error(), "x:4:23: ") {
			t.Errorf("%q: %v", odd, err)
		}
	}
}
