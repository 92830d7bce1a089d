package value

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		if !utf8.ValidString(text) {
			t.Skip()
		}
		v := FromText(text)
		if !json.Valid(v.JSON) {
			t.Fatalf("%q is not JSON", v.JSON)
		}
		got, ok := v.Text()
		if !ok || got != text {
			t.Fatalf("%q came back as %q", text, got)
		}
	})
}

func TestInvalidUTF8BecomesReplacement(t *testing.T) {
	if got := string(AppendString(nil, "a\xffb")); got != "\"a\uFFFDb\"" {
		t.Fatalf("%q", got)
	}
}

func TestSliceJSON(t *testing.T) {
	num := func(s string) Value { return FromJSON([]byte(s)) }
	for _, c := range []struct {
		s    Slice
		want string
	}{
		{Slice{Lens: [][]uint32{{0}}}, `[]`},
		{Slice{Lens: [][]uint32{{2}}, Items: []Value{num("1"), NewHole("no")}}, `[1,null]`},
		{Slice{Lens: [][]uint32{{3}, {2, 0, 1}}, Items: []Value{num("1"), num("2"), num("3")}}, `[[1,2],[],[3]]`},
		{Slice{Lens: [][]uint32{{1}, {2}, {0, 0}}}, `[[[],[]]]`},
		{Slice{Lens: [][]uint32{{3}, {1, NoList, 2}}, Items: []Value{num("1"), NewHole("no"), NewHole("no"), num("3")}}, `[[1],null,[null,3]]`},
		{Slice{Lens: [][]uint32{{2}, {NoList, 1}, {1}}, Items: []Value{NewHole("no"), num("1")}}, `[null,[[1]]]`},
	} {
		got := string(c.s.AppendJSON(nil, func(b []byte, v Value) []byte { return v.AppendJSON(b) }))
		if got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// Two values or shapes that differ must not share an identity, nor may the
// frames of neighbours run into one another.
func TestIdentitiesDiffer(t *testing.T) {
	file := FileInfo{Name: "a", Size: 1}
	exec := file
	exec.Exec = true
	named := file
	named.Name = "b"
	sum := func(s *Slice) Digest {
		h := sha256.New()
		s.WriteIdentity(h)
		return Digest(h.Sum(nil))
	}
	one := func(v Value) Digest { return sum(&Slice{Lens: [][]uint32{{1}}, Items: []Value{v}}) }
	seen := map[Digest]string{}
	for name, d := range map[string]Digest{
		"1":      one(FromJSON([]byte("1"))),
		"1.0":    one(FromJSON([]byte("1.0"))),
		`"1"`:    one(FromText("1")),
		"null":   one(FromJSON([]byte("null"))),
		"hole":   one(NewHole("x")),
		"file":   one(FromFile(file)),
		"exec":   one(FromFile(exec)),
		"named":  one(FromFile(named)),
		"[[],1]": sum(&Slice{Lens: [][]uint32{{2}, {0, 1}}, Items: []Value{FromJSON([]byte("1"))}}),
		"[1,[]]": sum(&Slice{Lens: [][]uint32{{2}, {1, 0}}, Items: []Value{FromJSON([]byte("1"))}}),
		"[_,1]":  sum(&Slice{Lens: [][]uint32{{2}, {NoList, 1}}, Items: []Value{NewHole("x"), FromJSON([]byte("1"))}}),
		"[[_]1]": sum(&Slice{Lens: [][]uint32{{2}, {1, 1}}, Items: []Value{NewHole("x"), FromJSON([]byte("1"))}}),
		"1,2":    sum(&Slice{Lens: [][]uint32{{2}}, Items: []Value{FromJSON([]byte("1")), FromJSON([]byte("2"))}}),
		"12":     sum(&Slice{Lens: [][]uint32{{1}}, Items: []Value{FromJSON([]byte("12"))}}),
	} {
		if other, twice := seen[d]; twice {
			t.Errorf("%s and %s are one", name, other)
		}
		seen[d] = name
	}
	ref := file
	ref.Path, ref.Ref = "data/a", true
	if one(FromFile(ref)) != one(FromFile(file)) {
		t.Error("where a file lies is not part of its identity")
	}
}

// A digest is that of the identity, however it is computed.
func TestDigestIsOfTheIdentity(t *testing.T) {
	for n := range 400 {
		v := FromJSON(bytes.Repeat([]byte{'7'}, n))
		h := sha256.New()
		v.WriteIdentity(h)
		if v.Digest() != Digest(h.Sum(nil)) {
			t.Fatalf("a text of %d bytes", n)
		}
	}
}
