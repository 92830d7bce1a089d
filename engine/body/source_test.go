package body

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"operon/spec"
	"operon/spec/value"
)

func sourceTask(s spec.Source) *spec.TaskSpec {
	return spawns(&spec.TaskSpec{Body: spec.Body{Kind: spec.BodySource, Source: &s}}, "")
}

func TestSources(t *testing.T) {
	for name, c := range map[string]struct {
		src  spec.Source
		text string
		want []string
	}{
		"lines":            {spec.Source{Kind: spec.SourceLines}, "a\n\nb", []string{`"a"`, `""`, `"b"`}},
		"no lines":         {spec.Source{Kind: spec.SourceLines}, "", nil},
		"jsonl":            {spec.Source{Kind: spec.SourceJSONL}, "1.0\n\n{\"a\": 2}\n", []string{`1.0`, `{"a":2}`}},
		"json":             {spec.Source{Kind: spec.SourceJSON}, "[1, \"x\"]\n", []string{`1`, `"x"`}},
		"csv":              {spec.Source{Kind: spec.SourceCSV}, "\xEF\xBB\xBFb,a\r\n1,\"x, \"\"y\"\"\n\"\r\n\n,2\n", []string{`{"b":"1","a":"x, \"y\"\n"}`, `{"b":"","a":"2"}`}},
		"csv, header only": {spec.Source{Kind: spec.SourceCSV}, "a,b\n", nil},
		"empty csv":        {spec.Source{Kind: spec.SourceCSV}, "", nil},
		"tsv":              {spec.Source{Kind: spec.SourceTSV}, "a\tb\r\n\"x\t1\r\n\ny\t\n", []string{`{"a":"\"x","b":"1"}`, `{"a":"y","b":""}`}},
		"values":           {spec.Source{Kind: spec.SourceValues, Values: [][]byte{[]byte("1.10"), []byte(`"x"`)}}, "", []string{`1.10`, `"x"`}},
		"count":            {spec.Source{Kind: spec.SourceCount, Count: 12}, "", []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"}},
		"count of none":    {spec.Source{Kind: spec.SourceCount}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c.src.Path = "data/in"
			b := newBench(t, sourceTask(c.src))
			b.write("data/in", c.text, 0o644)
			if got := b.ok(); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestSourcesThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		src  spec.Source
		text string
		kind Kind
		says []string
	}{
		"missing":       {spec.Source{Kind: spec.SourceLines, Path: "nothing"}, "", KindInput, []string{"no file nothing"}},
		"folder":        {spec.Source{Kind: spec.SourceLines, Path: "."}, "", KindInput, []string{"no regular file"}},
		"jsonl":         {spec.Source{Kind: spec.SourceJSONL}, "1\n{x}\n", KindOutput, []string{"in: line 2, byte 2", "not jsonl"}},
		"json":          {spec.Source{Kind: spec.SourceJSON}, "{}", KindOutput, []string{"expected a JSON list for dimension word_no, got object {}"}},
		"csv fields":    {spec.Source{Kind: spec.SourceCSV}, "a,b\n1,2\n3\n", KindOutput, []string{"line 3", "number of fields"}},
		"csv quotes":    {spec.Source{Kind: spec.SourceCSV}, "a,b\n1,x\"y\n", KindOutput, []string{"line 2"}},
		"csv header":    {spec.Source{Kind: spec.SourceCSV}, "a,a\n", KindOutput, []string{`"a" twice`}},
		"tsv fields":    {spec.Source{Kind: spec.SourceTSV}, "a\tb\n1\n", KindOutput, []string{"line 2 has 1 fields, the header 2"}},
		"UTF-8":         {spec.Source{Kind: spec.SourceCSV}, "a\nx\xff\n", KindOutput, []string{"line 2, byte 2", "UTF-8"}},
		"large count":   {spec.Source{Kind: spec.SourceCount, Count: 1<<32 - 1}, "", KindOutput, []string{"items are too many"}},
		"glob of a gap": {spec.Source{Kind: spec.SourceGlob, Globs: []string{"in", "gap.txt"}}, "", KindInput, []string{"no file gap.txt"}},
		"bad glob":      {spec.Source{Kind: spec.SourceGlob, Globs: []string{"a[*"}}, "", KindInput, []string{"a[*"}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.src.Path == "" {
				c.src.Path = "in"
			}
			b := newBench(t, sourceTask(c.src))
			b.write("in", c.text, 0o644)
			b.fails(c.kind, b.job(), c.says...)
		})
	}
}

func TestGlob(t *testing.T) {
	write := func(b *bench, links bool) {
		for _, name := range []string{"data/b.txt", "data/a.txt", "data/sub/c.txt", "data/.hidden.txt", ".state/d.txt", "data/x.csv", "[odd] (dir)/é.txt", "top.txt"} {
			b.write(name, name, 0o644)
		}
		b.write("data/tool.txt", "x", 0o755)
		if links {
			b.write("ring/r.txt", "x", 0o644)
			for name, target := range map[string]string{"ring/up": "..", "ring/self": ".", "ring/link.txt": "r.txt"} {
				if err := os.Symlink(target, filepath.Join(b.dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for pattern, want := range map[string][]string{
		"data/*.txt":           {"data/a.txt", "data/b.txt", "data/tool.txt"},
		"./data/./b.txt":       {"data/b.txt"},
		"**/*.txt":             {"[odd] (dir)/é.txt", "data/a.txt", "data/b.txt", "data/sub/c.txt", "data/tool.txt", "top.txt"},
		"data/.*.txt":          {"data/.hidden.txt"},
		"data/*.{csv,none}":    {"data/x.csv"},
		`\[odd\] (dir)/*`:      {"[odd] (dir)/é.txt"},
		"../*/data/a.txt":      {"../%/data/a.txt"},
		"nothing/*":            nil,
		"data":                 nil,
		"data/*.txt|data/a*":   {"data/a.txt", "data/b.txt", "data/tool.txt"},
		"ring/**/*.txt":        {"ring/link.txt", "ring/r.txt"},
		"ring/up/*.txt":        {"ring/up/top.txt"},
		"ri*/up/*.txt":         {"ring/up/top.txt"},
		"data/sub/*|top.txt|*": {"data/sub/c.txt", "top.txt"},
	} {
		t.Run(pattern, func(t *testing.T) {
			b := newBench(t, sourceTask(spec.Source{Kind: spec.SourceGlob, Globs: strings.Split(pattern, "|")}))
			write(b, strings.HasPrefix(pattern, "ri"))
			if pattern == "data" {
				b.fails(KindInput, b.job(), "no file data")
				return
			}
			res, f := b.try(t.Context(), b.job())
			if f != nil {
				t.Fatal(f)
			}
			var got []string
			for _, v := range res.Items {
				if !v.File.Ref || v.File.Name != filepath.Base(v.File.Path) || v.File.Exec != (v.File.Name == "tool.txt") {
					t.Errorf("%+v", v.File)
				}
				got = append(got, strings.Replace(v.File.Path, filepath.Base(b.dir), "%", 1))
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestGlobCopies(t *testing.T) {
	b := newBench(t, sourceTask(spec.Source{Kind: spec.SourceGlob, Globs: []string{"**/x"}, Copy: true}))
	b.write("a/x", "1", 0o644)
	b.write("b/x", "2", 0o755)
	res, f := b.try(t.Context(), b.job())
	if f != nil {
		t.Fatal(f)
	}
	for i, v := range res.Items {
		got, err := os.ReadFile(v.File.Path)
		if err != nil || string(got) != []string{"1", "2"}[i] || v.File.Ref || v.File.Exec != (i == 1) || !strings.Contains(v.File.Path, "jobs") {
			t.Errorf("%+v: %q, %v", v.File, got, err)
		}
	}
	if err := res.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(res.Items[0].File.Path); !os.IsNotExist(err) {
		t.Error("the copy is still there")
	}
	if _, err := os.Stat(filepath.Join(b.dir, "a/x")); err != nil {
		t.Error(err)
	}
}

func TestSourceKey(t *testing.T) {
	b := newBench(t, sourceTask(spec.Source{Kind: spec.SourceGlob, Globs: []string{"*.txt"}}))
	key := func() value.Digest {
		t.Helper()
		d, err := SourceKey(t.Context(), b.cfg, b.task)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	seen := map[value.Digest]string{}
	changes := func(what string) {
		t.Helper()
		d := key()
		if was, twice := seen[d]; twice {
			t.Errorf("%s: the same key as %s", what, was)
		}
		if d != key() {
			t.Errorf("%s: looked at twice, two keys", what)
		}
		seen[d] = what
	}
	changes("no file")
	b.write("a.txt", "1", 0o644)
	changes("a file")
	b.write("a.txt", "2", 0o644)
	changes("other content")
	if err := os.Chmod(filepath.Join(b.dir, "a.txt"), 0o755); err != nil {
		t.Fatal(err)
	}
	changes("executable")
	b.write("b.txt", "", 0o644)
	changes("a second file")
	if err := os.Rename(filepath.Join(b.dir, "b.txt"), filepath.Join(b.dir, "c.txt")); err != nil {
		t.Fatal(err)
	}
	changes("another name")
	b.task = sourceTask(spec.Source{Kind: spec.SourceLines, Path: "a.txt"})
	changes("lines")
	b.write("a.txt", "3", 0o644)
	changes("other lines")
	b.task.Body.Source = &spec.Source{Kind: spec.SourceCount, Count: 3}
	changes("count")
	b.task.Body.Source = &spec.Source{Kind: spec.SourceCSV, Path: "gone"}
	_, err := SourceKey(t.Context(), b.cfg, b.task)
	if f, ok := errors.AsType[*Failure](err); !ok || f.Kind != KindInput {
		t.Errorf("%v", err)
	}
}

func TestLargeCountIsCheap(t *testing.T) {
	b := newBench(t, sourceTask(spec.Source{Kind: spec.SourceCount, Count: 1_000_000}))
	r, err := New(b.cfg, b.task)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res, err := r.Run(t.Context(), nil, b.job())
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.Mallocs - before.Mallocs; n > 100 {
		t.Errorf("%d allocations", n)
	}
	if len(res.Items) != 1_000_000 || string(res.Items[999_999].JSON) != "999999" {
		t.Errorf("%d items", len(res.Items))
	}
}
