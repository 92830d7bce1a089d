package body

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"operon/spec"
	"operon/spec/value"
)

func TestOutputThatCanNotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		format spec.Format
		list   bool
		out    string
		says   []string
	}{
		"nothing":           {spec.FormatJSON, false, "", []string{"line 1, byte 1", "got nothing"}},
		"two values":        {spec.FormatJSON, false, "1\n2\n", []string{"line 2, byte 1", "nothing after the value, got 2"}},
		"log first":         {spec.FormatJSON, false, "loading\n{}", []string{"line 1, byte 1", "loading"}},
		"NaN":               {spec.FormatJSON, false, `{"a": NaN}`, []string{"line 1, byte 7", "NaN"}},
		"single quotes":     {spec.FormatJSON, false, `{'a': 1}`, []string{"double quotes", "'a'"}},
		"duplicate key":     {spec.FormatJSON, false, "{\"a\": 1,\n \"a\": 2}", []string{"line 2, byte 2", `"a" is there twice`}},
		"escaped duplicate": {spec.FormatJSON, false, `{"a": 1, "\u0061": 2}`, []string{"twice"}},
		"BOM":               {spec.FormatJSON, false, "\xEF\xBB\xBF{}", []string{"byte order mark"}},
		"truncated":         {spec.FormatJSON, false, `{"a": [1, 2`, []string{"got the end"}},
		"open string":       {spec.FormatJSON, false, `{"a": "xyz`, []string{"not closed"}},
		"control character": {spec.FormatJSON, false, "\"a\x1b[31m\"", []string{"control character", `\x1b`}},
		"bad UTF-8":         {spec.FormatJSON, false, "\"a\xff\"", []string{"UTF-8", "byte 3", "0xff"}},
		"comma":             {spec.FormatJSON, false, "[1,]", []string{"expected a value, got ]"}},
		"leading zero":      {spec.FormatJSON, false, "010", []string{"not a JSON number"}},
		"nesting":           {spec.FormatJSON, false, strings.Repeat("[", 1001) + strings.Repeat("]", 1001), []string{"nested deeper than 1000"}},
		"no list":           {spec.FormatJSON, true, `{"a": 1}`, []string{`expected a JSON list for dimension word_no, got object {"a":1}`}},
		"no list at all":    {spec.FormatJSON, true, ` `, []string{"expected a JSON list", "nothing"}},
		"after the list":    {spec.FormatJSON, true, `[1] x`, []string{"nothing after the list, got x"}},
		"two in a line":     {spec.FormatJSONL, true, "1\n2 3\n", []string{"line 2, byte 3", "one value a line"}},
		"value over lines":  {spec.FormatJSONL, true, "{\n\"a\": 1}\n", []string{"line 1, byte 2"}},
		"text":              {spec.FormatText, false, "ab\xffc", []string{"line 1, byte 3", "UTF-8"}},
		"lines":             {spec.FormatLines, true, "a\nb\xff\n", []string{"line 2, byte 2", "UTF-8"}},
		"nul without end":   {spec.FormatNul, true, "a\x00b\n", []string{"byte 3", "not ended by NUL"}},
		"long garbage":      {spec.FormatJSON, false, strings.Repeat("é", 200), []string{"ééé…"}},
	} {
		t.Run(name, func(t *testing.T) {
			task := formatted(script(`printf %s "$out_text"; cat`, "word"), c.format)
			if c.list {
				task = spawns(task, c.format)
			}
			b := newBench(t, task)
			doc := b.file("out", c.out, false)
			if f := b.fails(KindOutput, b.job(one(doc)), c.says...); len(f.Message) > 400 || strings.ContainsAny(f.Message, "\n\x1b") {
				t.Errorf("message %q", f.Message)
			}
		})
	}
}

func TestFileAtOut(t *testing.T) {
	task := formatted(script(`echo "${out##*/}"; printf 'data' >"$out"; chmod +x "$out"`, "word"), spec.FormatFile)
	task.File = spec.ParseTemplate("{word}.csv")
	b := newBench(t, task)
	res, f := b.try(t.Context(), b.job(text("../a/b\nc")))
	if f != nil {
		t.Fatal(f)
	}
	file := res.Items[0].File
	if file == nil || file.Name != ".._a_b_c.csv" || !file.Exec || file.Size != 4 || file.Ref {
		t.Fatalf("%+v", file)
	}
	if got, err := os.ReadFile(file.Path); err != nil || string(got) != "data" {
		t.Errorf("%q, %v", got, err)
	}
	if sum, _ := digestOf(strings.NewReader("data")); sum != file.SHA256 {
		t.Error("wrong digest")
	}
	if err := res.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file.Path); !os.IsNotExist(err) {
		t.Error("the folder is still there after Close")
	}
}

func TestFileFromStdout(t *testing.T) {
	for _, size := range []string{"0", "10", "5000000"} {
		b := newBench(t, formatted(script("head -c "+size+" /dev/zero"), spec.FormatFile))
		for range 2 {
			res, f := b.try(t.Context(), b.job())
			if f != nil {
				t.Fatal(f)
			}
			file := res.Items[0].File
			got, err := os.ReadFile(file.Path)
			if err != nil || file.Name != "part" || int64(len(got)) != file.Size || strings.Trim(string(got), "\x00") != "" {
				t.Errorf("%s bytes: %+v, %v", size, file, err)
			}
			if sum, _ := digestOf(bytes.NewReader(got)); sum != file.SHA256 {
				t.Error("wrong digest")
			}
			if err := res.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestFileThatIsNone(t *testing.T) {
	for name, c := range map[string]struct{ script, says string }{
		"missing":     {`: "$out"`, "no file at $out (part)"},
		"folder":      {`mkdir "$out"`, "format: files"},
		"link out":    {`ln -s /etc/hostname "$out"`, "leads out of its folder"},
		"broken link": {`ln -s nothing "$out"`, "leads nowhere"},
		"FIFO":        {`mkfifo "$out"`, "no regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, formatted(script(c.script), spec.FormatFile))
			b.fails(KindOutput, b.job(), c.says)
		})
	}
	b := newBench(t, formatted(script(`echo x >"${out%/*}/real"; ln -s real "$out"`), spec.FormatFile))
	if got := b.ok(); !strings.Contains(got[0], `"part"`) {
		t.Errorf("a link inside the folder: %s", got)
	}
}

func TestFolderOfFiles(t *testing.T) {
	names := func(task *spec.TaskSpec) []string {
		b := newBench(t, spawns(task, spec.FormatFiles))
		res, f := b.try(t.Context(), b.job())
		if f != nil {
			t.Fatal(f)
		}
		var out []string
		for _, v := range res.Items {
			text, err := os.ReadFile(v.File.Path)
			if err != nil {
				t.Error(err)
			}
			out = append(out, v.File.Name+"="+strings.TrimSpace(string(text)))
		}
		if err := res.Close(); err != nil {
			t.Error(err)
		}
		return out
	}
	all := `cd "$out"; mkdir -p a/b B; echo 1 >a/x.txt; echo 2 >a/b/x.txt; echo 3 >B/y.csv; echo 4 >a.txt; ln -s a.txt link; mkfifo pipe; echo 5 >.hidden`
	for glob, want := range map[string][]string{
		"":          {".hidden=5", "y.csv=3", "a.txt=4", "x.txt=2", "x.txt=1"},
		"**/*.txt":  {"a.txt=4", "x.txt=2", "x.txt=1"},
		"*.txt":     {"a.txt=4"},
		"{B,a}/*.*": {"y.csv=3", "x.txt=1"},
		"*.none":    nil,
	} {
		task := script(all)
		task.Glob = glob
		if got := names(task); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, want %q", glob, got, want)
		}
	}
	task := script(`: "$out"`)
	if got := names(task); got != nil {
		t.Errorf("an empty folder: %q", got)
	}
	for name, c := range map[string]struct{ script, says string }{
		"link out":     {`ln -s /etc "$out/x"`, "leads out"},
		"link up":      {`ln -s ../../.. "$out/x"`, "leads out"},
		"control name": {`touch "$out/$(printf 'a\033b')"`, "control character"},
		"bytes name":   {`touch "$out/$(printf 'a\377b')"`, "UTF-8"},
	} {
		b := newBench(t, spawns(script(c.script), spec.FormatFiles))
		b.fails(KindOutput, b.job(), c.says)
		_ = name
	}
}

func TestLogs(t *testing.T) {
	b := newBench(t, script("echo out"))
	job := b.job()
	if _, f := b.try(t.Context(), job); f != nil {
		t.Fatal(f)
	}
	if _, err := os.Stat(filepath.Dir(job.Log)); !os.IsNotExist(err) {
		t.Errorf("a quiet job made a log: %v", err)
	}
	b.task.Body.Script = "seq 100000 >&2; exit 1"
	f := b.fails(KindExit, b.job())
	if len(f.Stderr) > tailLimit || !bytes.HasSuffix(f.Stderr, []byte("\n99999\n100000\n")) || !bytes.HasPrefix(f.Stderr, []byte("99")) {
		t.Errorf("last lines of %d bytes: %.20q…", len(f.Stderr), f.Stderr)
	}
	b.write("blocked", "", 0o644)
	job = b.job()
	job.Log = filepath.Join(b.dir, "blocked", "log")
	b.task.Body.Script = "echo x >&2"
	b.fails(KindResources, job, "log")
}

func TestSafeName(t *testing.T) {
	for in, want := range map[string]string{
		"": "_", ".": "_", "..": "__", "a/b": "a_b", "a\x00b\n": "a_b_", "日本": "日本", "...": "___",
		strings.Repeat("é", 200) + ".txt": strings.Repeat("é", 125) + ".txt",
	} {
		if got := safeName(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a": [1, -0.5e+3, "x\n\u00e9"], "b": null}`, `[]`, ` 1 `, `"`, `{"a":1,"a":2}`, "[1,2]x", "\xEF\xBB\xBF1", "\"\xff\"", "01", "tru"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		v, err := oneJSON(bytes.Clone(in))
		if err != nil {
			if v != nil || err.Error() == "" {
				t.Fatal("a value and an error")
			}
			return
		}
		if !json.Valid(in) {
			t.Fatalf("%q is not JSON", in)
		}
		var want bytes.Buffer
		if err := json.Compact(&want, in); err != nil || !bytes.Equal(want.Bytes(), v) {
			t.Fatalf("%q became %q, want %q (%v)", in, v, want.Bytes(), err)
		}
		again, err := oneJSON(bytes.Clone(v))
		if err != nil || !bytes.Equal(again, v) {
			t.Fatalf("%q does not read back: %v", v, err)
		}
		decoded, err := decode(v)
		if err != nil {
			t.Fatalf("jq can't read %q: %v", v, err)
		}
		w := jqWriter{limit: 1 << 30}
		if err := w.append(decoded); err != nil {
			t.Fatalf("jq can't write %q: %v", v, err)
		}
		if _, err := oneJSON(w.out); err != nil {
			t.Fatalf("jq made %q of %q", w.out, v)
		}
	})
}

func limited(read func([]byte, int) ([]value.Value, error)) func([]byte) ([]value.Value, error) {
	return func(b []byte) ([]value.Value, error) { return read(b, maxItems) }
}

// Whatever comes, a format yields values that are compact JSON, or an error
// that points into the text.
func FuzzFormats(f *testing.F) {
	f.Add([]byte("a\nb"), uint8(1))
	f.Add([]byte("[1, 2]\n"), uint8(4))
	f.Add([]byte("a,b\n1,\"2\n\"\n"), uint8(5))
	f.Add([]byte("a\tb\n1\t2"), uint8(6))
	readers := []func([]byte) ([]value.Value, error){
		readText, limited(readLines), limited(readNul), limited(readJSONL),
		func(b []byte) ([]value.Value, error) { return readArray(b, "d", maxItems) }, limited(readCSV), limited(readTSV),
	}
	f.Fuzz(func(t *testing.T, in []byte, format uint8) {
		items, err := readers[int(format)%len(readers)](bytes.Clone(in))
		if err != nil {
			c := &common{task: &spec.TaskSpec{Format: spec.FormatText}}
			if f := c.unreadable(in, "standard output", err); f.Message == "" {
				t.Fatal("no message")
			}
			return
		}
		for _, v := range items {
			if got, err := oneJSON(bytes.Clone(v.JSON)); err != nil || !bytes.Equal(got, v.JSON) {
				t.Fatalf("%q holds %q: %v", in, v.JSON, err)
			}
		}
	})
}

func TestListsAreBounded(t *testing.T) {
	for name, read := range map[string]func([]byte, int) ([]value.Value, error){
		"1\n2\n3\n4\n":         readLines,
		"1\x002\x003\x004\x00": readNul,
		"1\n2\n\n3\n4":         readJSONL,
		"[1,2,3,4]":            func(b []byte, n int) ([]value.Value, error) { return readArray(b, "d", n) },
		"head\n1\n2\n3\n4\n":   readCSV,
		"head\n1\n2\n3\n4\n\n": readTSV,
	} {
		if items, err := read([]byte(name), 4); err != nil || len(items) != 4 {
			t.Errorf("%q: %d items, %v", name, len(items), err)
		}
		if _, err := read([]byte(name), 3); err == nil || !strings.Contains(err.Error(), "more than 3 items") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// The name of a file is part of what is made: it must not tell where the job's
// folder was.
func TestFileNamedAfterAFile(t *testing.T) {
	task := formatted(script(`cat "$doc" >"$out"`, "doc", "n"), spec.FormatFile)
	task.File = spec.ParseTemplate("{doc}-{n}.out")
	b := newBench(t, task)
	res, f := b.try(t.Context(), b.job(one(b.file("in.txt", "x", false)), raw("7")))
	if f != nil {
		t.Fatal(f)
	}
	if got := res.Items[0].File.Name; got != "in.txt-7.out" {
		t.Errorf("%s", got)
	}
	if err := res.Close(); err != nil {
		t.Error(err)
	}
}

func TestOutByOtherWays(t *testing.T) {
	byArgv := formatted(argv([]string{"cp", "/dev/stdin", "{out}"}, "word"), spec.FormatFile)
	byEnv := formatted(argv([]string{"sh", "-c", `cat >"$OUT"`}, "word"), spec.FormatFile)
	byEnv.Env = []spec.EnvVar{{Name: "OUT", Value: spec.ParseTemplate("{out}")}}
	folder := spawns(argv([]string{"sh", "-c", `cat >"$0/x"`, "{out}"}, "word"), spec.FormatFiles)
	for _, task := range []*spec.TaskSpec{byArgv, byEnv, folder} {
		b := newBench(t, task)
		res, f := b.try(t.Context(), b.job(text("data")))
		if f != nil {
			t.Fatal(f)
		}
		if file := res.Items[0].File; file.Size != 4 {
			t.Errorf("%+v", file)
		}
		if err := res.Close(); err != nil {
			t.Error(err)
		}
	}
	// Who does not say where its file lies prints it, and gets no $out.
	b := newBench(t, formatted(script(`env | grep -c '^out=' || :`), spec.FormatFile))
	res, f := b.try(t.Context(), b.job())
	if f != nil {
		t.Fatal(f)
	}
	if got, err := os.ReadFile(res.Items[0].File.Path); err != nil || string(got) != "0\n" {
		t.Errorf("%q, %v", got, err)
	}
	if err := res.Close(); err != nil {
		t.Error(err)
	}
}

func TestManyKeys(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, `"k%d":{"k%d":%d},`, i, i, i)
	}
	if v, err := oneJSON([]byte("{" + b.String() + `"last":1}`)); err != nil || !json.Valid(v) {
		t.Errorf("%v", err)
	}
	for _, twice := range []string{`"k3"`, `"k39"`, `"\u006b20"`} {
		if _, err := oneJSON([]byte("{" + b.String() + twice + ":1}")); err == nil || !strings.Contains(err.Error(), twice+" is there twice") {
			t.Errorf("%s: %v", twice, err)
		}
	}
}
