package coord

import (
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestOrderIsNumeric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 4).Draw(t, "dims")
		draw := func(label string) []uint32 {
			return rapid.SliceOfN(rapid.Uint32Range(0, 70000), n, n).Draw(t, label)
		}
		a, b := draw("a"), draw("b")
		less := false
		for i := range a {
			if a[i] != b[i] {
				less = a[i] < b[i]
				break
			}
		}
		if got := Of(a...) < Of(b...); got != less {
			t.Fatalf("%v < %v: %v, want %v", a, b, got, less)
		}
	})
}

func TestRoundTrips(t *testing.T) {
	dims := []string{"i", "j", "k"}
	c := Of(3, 0, 4294967294)
	if got := c.Format(dims); got != "i=3,j=0,k=4294967294" {
		t.Fatal(got)
	}
	b, err := Parse("k=4294967294, i=3,j=0", dims)
	if err != nil {
		t.Fatal(err)
	}
	full, ok := b.Full(dims)
	if !ok || full != c {
		t.Fatalf("%v %v", full, ok)
	}
	key := c.AppendKey([]byte{9})
	got, rest, ok := FromKey(append(key[1:], 7), 3)
	if !ok || got != c || len(rest) != 1 || rest[0] != 7 {
		t.Fatalf("%v %v %v", got, rest, ok)
	}
	if got := c.Project([]int{2, 0}); got != Of(4294967294, 3) {
		t.Fatal(got.Indices())
	}
	if got := c.Prefix(1).Append(5); got != Of(3, 5) {
		t.Fatal(got.Indices())
	}
	if !(Binding{"j": 0}).Match(c, dims) || (Binding{"j": 1}).Match(c, dims) {
		t.Fatal("match")
	}
}

func TestParseErrors(t *testing.T) {
	dims := []string{"i", "j"}
	for text, want := range map[string]string{
		"i":            "not of the form",
		"x=1":          `"x" is not a dimension here (there are: i, j)`,
		"i=1,i=2":      "given twice",
		"i=-1":         "not an index",
		"i=4294967295": "not an index",
		"i=1,,j=2":     "not of the form",
	} {
		_, err := Parse(text, dims)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if b, err := Parse("  ", dims); err != nil || len(b) != 0 {
		t.Errorf("empty: %v %v", b, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("i=0,j=2")
	f.Fuzz(func(t *testing.T, text string) {
		dims := []string{"i", "j"}
		b, err := Parse(text, dims)
		if err != nil {
			return
		}
		names := make([]string, 0, len(b))
		for n := range b {
			names = append(names, n)
		}
		sort.Strings(names)
		c, ok := b.Full(names)
		if !ok {
			t.Fatalf("%v has no coordinate of its own names", b)
		}
		again, err := Parse(c.Format(names), dims)
		if err != nil || len(again) != len(b) {
			t.Fatalf("%q: %v, %v", c.Format(names), again, err)
		}
	})
}
