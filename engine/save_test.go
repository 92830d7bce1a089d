package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"operon/engine"
	"operon/spec/coord"
)

// saved are the files below a folder of the project, with their content.
func (p *project) saved(dir string) map[string]string {
	p.t.Helper()
	out := map[string]string{}
	root := filepath.Join(p.dir, dir)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(root, path)
		out[rel] = string(text)
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	return out
}

const saveYAML = `pipeline: saves
params:
  run_name: {default: ../a/b}
tasks:
  list:
    out: Page<page>
    source: {values: [{id: x/1, n: 1}, {id: "..", n: 2}, {id: three, n: 3}]}
    key: .id
  text:
    in: {p: Page}
    for: page
    out: Text
    jq: '"line \($p.n)"'
    save: out/{page}.txt
  object:
    in: {p: Page}
    for: page
    out: Object
    jq: '$p.n'
    save: out/{run_name}/{page}/
  file:
    in: {p: Page}
    for: page
    out: Binary
    format: file
    run: printf '%s' "$p"; test "$page" != 1
    save: 'out/bin-{page}'
    on_error: hole
  words:
    in: {p: Page}
    for: page
    out: Word<word>
    jq: '"a", "b"'
    save: out/words/{page}-{word}
`

func TestSave(t *testing.T) {
	p := newProject(t, saveYAML)
	s := p.mustRun(engine.Options{})
	if s.State != engine.StateComplete || s.Holes != 1 {
		t.Fatalf("%+v", s)
	}
	got := p.saved("out")
	want := map[string]string{
		"x_1.txt": "line 1\n", "__.txt": "line 2\n", "three.txt": "line 3\n",
		".._a_b/x_1/object.json": "1\n", ".._a_b/__/object.json": "2\n", ".._a_b/three/object.json": "3\n",
		"bin-x_1": `{"id":"x/1","n":1}`, "bin-three": `{"id":"three","n":3}`,
		"words/x_1-0": "a\n", "words/x_1-1": "b\n", "words/__-0": "a\n", "words/__-1": "b\n", "words/three-0": "a\n", "words/three-1": "b\n",
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: %q, want %q", name, got[name], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files, want %d: %v", len(got), len(want), got)
	}
	// A run with nothing to do puts back what is gone or was changed, and leaves
	// the rest alone.
	before, err := os.Stat(filepath.Join(p.dir, "out/bin-three"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(p.dir, "out/x_1.txt")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "out/bin-x_1"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := p.mustRun(engine.Options{}); s.Executed != 0 {
		t.Errorf("%+v", s)
	}
	again := p.saved("out")
	for name, text := range want {
		if again[name] != text {
			t.Errorf("again: %s: %q, want %q", name, again[name], text)
		}
	}
	if after, err := os.Stat(filepath.Join(p.dir, "out/bin-three")); err != nil || !os.SameFile(before, after) {
		t.Errorf("what was right was written again: %v", err)
	}
	// What a person does to a saved file does not reach the state.
	p.edit(strings.Replace(saveYAML, "out/{page}.txt", "out/text-{page}", 1))
	if s := p.mustRun(engine.Options{}); s.Executed != 0 {
		t.Errorf("an edit of save runs %d jobs", s.Executed)
	}
	if got := p.saved("out")["text-three"]; got != "line 3\n" {
		t.Errorf("%q", got)
	}
}

func TestSaveTwoAtOnePathIsAnErrorAndWritesNothing(t *testing.T) {
	p := newProject(t, strings.Replace(saveYAML, "out/{page}.txt", "out/same.txt", 1))
	_, err := p.run(engine.Options{})
	var twice *engine.SaveError
	if !errors.As(err, &twice) || twice.At != [2]string{"page=0", "page=1"} || !strings.HasSuffix(twice.Path, "out/same.txt") {
		t.Fatalf("%v", err)
	}
	if _, there := p.saved("out")["same.txt"]; there {
		t.Error("one of them was written")
	}
}

// A finished task is saved although the run fails elsewhere, also when its
// values are let go afterwards.
func TestSaveDoesNotWaitForTheRun(t *testing.T) {
	p := newProject(t, `pipeline: p
tasks:
  a: {out: A<i>, source: {count: 3}}
  b: {in: A, for: i, out: B, jq: '$a + 1', save: 'out/{i}', keep: false}
  c: {in: B<i>, out: C, jq: 'add'}
  d: {in: C, out: D, run: 'exit 3'}
`)
	if s := p.mustRun(engine.Options{}); s.Failed != 1 {
		t.Fatalf("%+v", s)
	}
	if got := p.saved("out"); len(got) != 3 || got["2"] != "3\n" {
		t.Errorf("%v", got)
	}
}

const keysYAML = `pipeline: keys
tasks:
  list:
    out: Page<page>
    source: {values: [%s]}
    key: .id
  parts:
    in: {p: Page}
    for: page
    out: Part<part>
    jq: '$p.parts[]'
    key: '.'
  work:
    in: {x: Part}
    for: [page, part]
    out: Done
    run: 'echo "log of $page" >&2; test "$page" != 0; echo'
    on_error: hole
`

func TestLabels(t *testing.T) {
	p := newProject(t, fmt.Sprintf(keysYAML, `{id: a, parts: [1, 2]}, {id: "b,c", parts: [2, 3.5]}`))
	s := p.mustRun(engine.Options{Jobs: 1})
	if s.Holes != 2 || s.Failures[0].Sample.At() != "page=0 (a),part=0 (1)" {
		t.Errorf("%+v", s)
	}
	p.state(func(st *engine.State) {
		var got []coord.Coord
		values := func(labels map[string]string, at coord.Binding) error {
			got = nil
			_, err := st.Values(t.Context(), engine.Query{Entity: "Part", At: at, Labels: labels}, func(it engine.Item) error {
				got = append(got, it.Coord)
				return nil
			})
			return err
		}
		if err := values(map[string]string{"page": "b,c", "part": "3.5"}, nil); err != nil || len(got) != 1 || got[0] != coord.Of(1, 1) {
			t.Errorf("%v %v", got, err)
		}
		if err := values(map[string]string{"page": "b,c"}, nil); err != nil || len(got) != 2 {
			t.Errorf("%v %v", got, err)
		}
		for detail, err := range map[string]error{
			"no item has that label":  values(map[string]string{"page": "d"}, nil),
			"say also which page":     values(map[string]string{"part": "2"}, nil),
			"unknown dimension \"x\"": values(map[string]string{"x": "2"}, nil),
		} {
			if err == nil || !strings.Contains(err.Error(), detail) {
				t.Errorf("%v, want %s", err, detail)
			}
		}
		var logs []string
		err := st.Logs(t.Context(), engine.LogQuery{Task: "work", Labels: map[string]string{"page": "a"}, Failed: true}, func(l engine.Log) error {
			logs = append(logs, l.At())
			return nil
		})
		if err != nil || strings.Join(logs, "; ") != "page=0 (a),part=0 (1); page=0 (a),part=1 (2)" {
			t.Errorf("%q %v", logs, err)
		}
	})
}

func TestLabelsMustDiffer(t *testing.T) {
	for values, want := range map[string]string{
		`{id: a}, {id: b}, {id: a}`: `items 0 and 2 of the list have one key, "a"`,
		`{id: a}, {id: [1]}`:        `the key of item 1 ({"id":[1]}): the filter gives array, not a text`,
		`{id: a}, 1`:                `the key of item 1 (1): jq: expected an object but got: number (1)`,
		`{id: a}, {id: ""}`:         `the filter gives an empty text`,
	} {
		p := newProject(t, fmt.Sprintf(keysYAML, values))
		s := p.mustRun(engine.Options{})
		if s.Failed != 1 || !strings.Contains(s.Failures[0].Sample.Message, want) {
			t.Errorf("%s: %+v", values, s.Failures)
		}
	}
}

const saveAndLetGo = `pipeline: p
tasks:
  a: {out: A<i>, source: {count: 3}}
  b: {in: A, for: i, out: B, jq: '$a + 1', save: 'out/{i}', keep: false}
  c: {in: B<i>, out: C, jq: 'add'}
`

// Values stay until they are saved, in whatever run that is.
func TestSaveThatFailsKeepsTheValues(t *testing.T) {
	p := newProject(t, saveAndLetGo)
	p.write("out", "in the way")
	var machine *engine.MachineError
	if _, err := p.run(engine.Options{}); !errors.As(err, &machine) {
		t.Fatalf("%v", err)
	}
	if got := p.values("B"); got != "i=0 1\ni=1 2\ni=2 3\n" {
		t.Fatalf("%q", got)
	}
	if _, err := p.run(engine.Options{}); !errors.As(err, &machine) {
		t.Fatalf("again: %v", err)
	}
	if err := os.Remove(filepath.Join(p.dir, "out")); err != nil {
		t.Fatal(err)
	}
	if s := p.mustRun(engine.Options{}); s.Executed != 0 || s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
	p.wantSaved()
	var released *engine.ReleasedError
	p.state(func(st *engine.State) {
		_, err := st.Values(t.Context(), engine.Query{Entity: "B"}, func(engine.Item) error { return nil })
		if !errors.As(err, &released) {
			t.Errorf("saved, and still there: %v", err)
		}
	})
	// Without the values, a missing file can only be made again.
	p.mustRun(engine.Options{})
	if err := os.Remove(filepath.Join(p.dir, "out/1")); err != nil {
		t.Fatal(err)
	}
	var unsaved *engine.UnsavedError
	if _, err := p.run(engine.Options{}); !errors.As(err, &unsaved) || unsaved.Task != "b" || !strings.HasSuffix(unsaved.Path, "out/1") {
		t.Errorf("%v", err)
	}
	p.mustRun(engine.Options{Redo: []string{"b"}})
	p.wantSaved()
}

func (p *project) wantSaved() {
	p.t.Helper()
	if got := p.saved("out"); len(got) != 3 || got["0"] != "1\n" || got["1"] != "2\n" || got["2"] != "3\n" {
		p.t.Errorf("saved: %v", got)
	}
}

// A run that is ended while it saves leaves the rest to the next one.
func TestSaveThatIsCutShort(t *testing.T) {
	p := newProject(t, saveAndLetGo)
	pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	e, err := engine.New(pl, engine.Options{Dir: p.dir, Events: func(ev engine.Event) {
		if ev.Kind == engine.EventTask && ev.Task.Task == "c" && ev.Task.Done == 1 {
			select {
			case <-done:
			default:
				close(done)
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	held := p.holdSave(pl.Name, "out")
	ended := make(chan error)
	go func() {
		_, err := e.Run(ctx)
		ended <- err
	}()
	held.await()
	<-done
	cancel()
	held.release()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if got := p.values("B"); got != "i=0 1\ni=1 2\ni=2 3\n" {
		t.Fatalf("%q", got)
	}
	p.mustRun(engine.Options{})
	p.wantSaved()
}
