package yamlmark

import "testing"

func TestFind(t *testing.T) {
	for _, c := range []struct {
		src        string
		at, opened Mark
	}{
		{"a: [1, 2\nb: 3\n", Mark{2, 2}, Mark{1, 4}},
		{"a:\n  b: 1\n c: 2\n", Mark{3, 2}, Mark{1, 1}},
		{"a: 'x\nb: 2\n", Mark{3, 1}, Mark{1, 4}},
		{"a: *x\n", Mark{1, 4}, Mark{}},
		{"a:\n\tb: 1\n", Mark{2, 1}, Mark{2, 1}},
		{"é: b: c\n", Mark{1, 5}, Mark{}},
		{"a: @x\n", Mark{1, 4}, Mark{1, 4}},
		{"a: 1\nb\nc: 2\n", Mark{3, 1}, Mark{2, 1}},
		{"a: 1\n---\nb: [\n", Mark{4, 1}, Mark{4, 1}},
		{"key: [a, b]]\n", Mark{1, 12}, Mark{1, 1}},
	} {
		p, found := Find([]byte(c.src))
		if !found || p.At != c.at || p.Message == "" {
			t.Errorf("%q: %v %+v, want at %v", c.src, found, p, c.at)
		}
		if c.opened.Line > 0 && p.Opened != c.opened {
			t.Errorf("%q: opened at %v, want %v", c.src, p.Opened, c.opened)
		}
	}
}

func TestFindNothing(t *testing.T) {
	for _, src := range []string{"", "a: 1\n", "a: 1\n---\nb: 2\n", "# only a comment\n"} {
		if p, found := Find([]byte(src)); found {
			t.Errorf("%q: %+v", src, p)
		}
	}
}
