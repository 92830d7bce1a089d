package body

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"operon/spec"
	"operon/spec/value"
)

func TestStdinForms(t *testing.T) {
	nested := Arg{Slice: &value.Slice{Lens: [][]uint32{{2}, {2, 0}}, Items: []value.Value{value.FromText("a"), value.FromJSON([]byte("1.0"))}}}
	torn := texts("ok", "a\nb")
	for name, c := range map[string]struct {
		as   spec.StdinAs
		arg  Arg
		want string // what arrives; or, in angle brackets, what the failure says
	}{
		"string":            {spec.AsDefault, text("a\nb"), "a\nb"},
		"string as text":    {spec.AsText, text("a"), "a"},
		"string as lines":   {spec.AsLines, text("a"), "a\n"},
		"string as nul":     {spec.AsNul, text("a"), "a\x00"},
		"string as json":    {spec.AsJSON, text("a\n"), `"a\n"` + "\n"},
		"string as jsonl":   {spec.AsJSONL, text("a"), `"a"` + "\n"},
		"object":            {spec.AsDefault, raw(`{"a":1}`), `{"a":1}` + "\n"},
		"null":              {spec.AsDefault, raw(`null`), "null\n"},
		"number as text":    {spec.AsText, raw(`1e2`), "1e2"},
		"slice":             {spec.AsDefault, nested, "a\n1.0\n"},
		"slice as lines":    {spec.AsLines, nested, "a\n1.0\n"},
		"slice as text":     {spec.AsText, nested, "a\n1.0"},
		"slice as nul":      {spec.AsNul, nested, "a\x001.0\x00"},
		"slice as json":     {spec.AsJSON, nested, `[["a",1.0],[]]` + "\n"},
		"slice as jsonl":    {spec.AsJSONL, nested, "\"a\"\n1.0\n"},
		"hole":              {spec.AsDefault, list(value.FromText("a"), value.NewHole("why")), "a\nnull\n"},
		"empty, json":       {spec.AsJSON, texts(), "[]\n"},
		"empty, jsonl":      {spec.AsJSONL, texts(), ""},
		"line end":          {spec.AsDefault, torn, "<value 1 of word holds a line end; stdin: {from: word, as: jsonl} (or nul)>"},
		"line end as lines": {spec.AsLines, torn, "<as: jsonl>"},
		"line end as nul":   {spec.AsNul, torn, "ok\x00a\nb\x00"},
		"line end as jsonl": {spec.AsJSONL, torn, "\"ok\"\n\"a\\nb\"\n"},
		"NUL as nul":        {spec.AsNul, texts("a\x00"), "<NUL byte; as: jsonl>"},
	} {
		t.Run(name, func(t *testing.T) {
			task := script("cat; printf .", "word")
			task.Stdin.As = c.as
			b := newBench(t, task)
			if says, fails := strings.CutPrefix(c.want, "<"); fails {
				b.fails(KindInput, b.job(c.arg), strings.Split(strings.TrimSuffix(says, ">"), "; ")...)
				return
			}
			want := string(value.FromText(c.want + ".").JSON)
			if got := b.ok(c.arg); got[0] != want {
				t.Errorf("got %s, want %s", got[0], want)
			}
			if got := b.ok(c.arg); got[0] != want {
				t.Errorf("the second time: got %s, want %s", got[0], want)
			}
		})
	}
	task := script("cat; printf .", "word")
	task.Stdin = spec.Stdin{None: true, Set: true}
	if got := newBench(t, task).ok(text("x")); got[0] != `"."` {
		t.Errorf("stdin: none gave %s", got)
	}
}

func TestFilesByPath(t *testing.T) {
	b := newBench(t, script(`basename "$doc"; cat "$doc"; stat -c %a "$doc"; "$tool"`, "doc", "tool"))
	got := b.ok(one(b.file("my file.txt", "hello\n", false)), one(b.file("tool", "#!/bin/sh\necho ran\n", true)))
	if want := `"my file.txt\nhello\n444\nran"`; got[0] != want {
		t.Errorf("got %s, want %s", got[0], want)
	}
	e := newBench(t, argv([]string{"sh", "-c", `for f; do echo "${f##*/} $(cat "$f")"; done`, "-", "{docs}"}, "docs"))
	got = e.ok(list(e.file("same", "1", false), e.file("same", "2", false), e.file("other", "3", false)))
	if want := `"same 1\nsame 2\nother 3"`; got[0] != want {
		t.Errorf("got %s, want %s", got[0], want)
	}
}

func TestFilesOnStdin(t *testing.T) {
	b := newBench(t, script("cat", "doc"))
	if got := b.ok(one(b.file("doc", "a\nb", false))); got[0] != `"a\nb"` {
		t.Errorf("a file is its bytes: %s", got)
	}
	b = newBench(t, script(`while read -r p; do cat "$p"; done`, "docs"))
	if got := b.ok(list(b.file("x", "1", false), b.file("x", "2", false))); got[0] != `"12"` {
		t.Errorf("a slice of files is their paths: %s", got)
	}
	b = newBench(t, formatted(script("cat", "doc", "n"), spec.FormatJSON))
	doc := b.file("x.txt", "abc", false)
	var seen struct {
		N   int
		Doc struct {
			Path, File, SHA256 string
			Size               int
		}
	}
	if err := json.Unmarshal([]byte(b.ok(one(doc), raw("7"))[0]), &seen); err != nil {
		t.Fatal(err)
	}
	if seen.N != 7 || seen.Doc.File != "x.txt" || seen.Doc.Size != 3 || seen.Doc.SHA256 != doc.File.SHA256.String() || filepath.Base(seen.Doc.Path) != "x.txt" {
		t.Errorf("%+v", seen)
	}
}

func TestStoredFileThatIsMissing(t *testing.T) {
	b := newBench(t, script(`cat "$doc"`, "doc"))
	doc := b.file("x", "abc", false)
	if err := os.Remove(doc.File.Path); err != nil {
		t.Fatal(err)
	}
	b.fails(KindLost, b.job(one(doc)), "missing")
	b.fails(KindInternal, b.job(one(b.file("../x", "", false))), "no file name")
}

func TestReferencedFiles(t *testing.T) {
	b := newBench(t, script(`echo "$doc"; cat "$doc"`, "doc"))
	path := b.write("data/in.txt", "first", 0o644)
	old := time.Now().Add(-time.Hour)
	take := func() value.Value {
		t.Helper()
		info, err := b.cfg.files.describe(path)
		if err != nil {
			t.Fatal(err)
		}
		info.Path, info.Ref = "data/in.txt", true
		return value.FromFile(info)
	}
	doc := take()
	if got := b.ok(one(doc)); got[0] != string(value.FromText(path+"\nfirst").JSON) {
		t.Errorf("%s", got)
	}
	// Of the same size and time stamp, so that only the content tells.
	b.write("data/in.txt", "other", 0o644)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	if f := b.fails(KindInput, b.job(one(doc)), "data/in.txt", "changed"); !errors.Is(f, ErrChanged) {
		t.Errorf("%v", f.Err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if f := b.fails(KindInput, b.job(one(doc)), "data/in.txt", "gone"); !errors.Is(f, ErrGone) {
		t.Errorf("%v", f.Err)
	}
	b.write("data/in.txt", "first", 0o644)
	b.ok(one(doc))
	on := newBench(t, script("cat", "doc"))
	on.cfg.Dir = b.dir
	if got := on.ok(one(doc)); got[0] != `"first"` {
		t.Errorf("on stdin: %s", got)
	}
	on.fails(KindInput, on.job(one(value.FromFile(value.FileInfo{Name: "in.txt", Path: "data/in.txt", Ref: true, Size: 5}))), "changed")
}

func TestParamsAndIndices(t *testing.T) {
	task := script(`echo $i $n "$flag" "$conf"`)
	task.Context = []*spec.Dim{{Name: "i"}}
	b := newBench(t, task)
	b.cfg.Pipeline.Params = []*spec.Param{
		{Name: "n", Value: value.FromJSON([]byte("1.10"))}, {Name: "flag", Value: value.FromText("a b")},
		{Name: "conf", Value: value.FromJSON([]byte(`{"x":[1]}`))},
	}
	job := b.job()
	job.Coord = "\x00\x00\x01\x00"
	res, f := b.try(t.Context(), job)
	if f != nil {
		t.Fatal(f)
	}
	if got := string(res.Items[0].JSON); got != `"256 1.10 a b {\"x\":[1]}"` {
		t.Errorf("%s", got)
	}
	task.Mentions = []string{"nobody"}
	if _, err := New(b.cfg, task); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("an unknown name: %v", err)
	}
}

// A slice that many jobs take is written out once; another slice is not it.
func TestKeptStdin(t *testing.T) {
	b := newBench(t, script(`cat; printf "%s" "$w"`, "ws", "w"))
	first, second := texts("a", "b"), texts("c")
	var got []string
	for _, args := range [][]Arg{{first, text("1")}, {first, text("2")}, {second, text("3")}, {first, text("4")}} {
		got = append(got, b.ok(args...)...)
	}
	if want := []string{`"a\nb\n1"`, `"a\nb\n2"`, `"c\n3"`, `"a\nb\n4"`}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A file that has not been written to for a while is digested once; one that was
// written just now, each time: its time stamps could not tell the next write.
func TestDigestsAreKeptOfSettledFiles(t *testing.T) {
	var c fileCache
	old, err := c.describe("/bin/sh") // older than any test
	if err != nil {
		t.Fatal(err)
	}
	if len(c.sums) != 1 {
		t.Errorf("%d digests are kept", len(c.sums))
	}
	for id := range c.sums {
		c.sums[id] = value.Digest{1} // so that it shows where the next comes from
	}
	if again, err := c.describe("/bin/sh"); err != nil || again.SHA256 == old.SHA256 || again.Size != old.Size {
		t.Errorf("%+v, %v", again, err)
	}
	b := newBench(t, script("true"))
	if _, err := c.describe(b.write("new", "x", 0o644)); err != nil || len(c.sums) != 1 {
		t.Errorf("%d digests are kept, %v", len(c.sums), err)
	}
}
