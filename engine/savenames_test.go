package engine_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"operon/engine"
)

// named has a list whose labels name files long after its values are needed.
const named = `pipeline: named
tasks:
  docs: {out: Doc<doc>, keep: false, key: .id, run: 'echo docs >>ran; echo "{\"id\": \"one\"}"; echo "{\"id\": \"two\"}"', format: jsonl}
  text: {in: {text: Doc}, for: doc, out: Text, run: 'echo text >>ran; echo "$text"'}
  size: {in: Text, for: doc, out: Size, run: 'echo size >>ran; test ! -e broken || exit 1; wc -c', save: 'out/{doc}.txt'}
`

func (p *project) wantNamed(what, want string) {
	p.t.Helper()
	var names []string
	for name := range p.saved("out") {
		names = append(names, name)
	}
	if got := strings.Join(slices.Sorted(slices.Values(names)), " "); got != want {
		p.t.Errorf("%s: saved %q, want %q", what, got, want)
	}
}

func (p *project) wantReleased(what, entity string, want bool) {
	p.t.Helper()
	p.state(func(st *engine.State) {
		_, err := st.Values(p.t.Context(), engine.Query{Entity: entity}, func(engine.Item) error { return nil })
		var released *engine.ReleasedError
		if errors.As(err, &released) != want {
			p.t.Errorf("%s: %v", what, err)
		}
	})
}

// Values whose labels name files stay until these are saved, and are made again
// where they have to be named again; no file is ever named otherwise.
func TestLabelsStayUntilTheFilesAreNamed(t *testing.T) {
	p := newProject(t, named)
	ran := func(what string, want map[string]int) {
		t.Helper()
		if got := p.ran(); !maps.Equal(got, want) {
			t.Errorf("%s: ran %v, want %v", what, got, want)
		}
	}
	p.write("broken", "")
	p.mustRun(engine.Options{Jobs: 1, KeepGoing: true})
	p.wantReleased("the files are not there yet", "Doc", false)
	if err := os.Remove(filepath.Join(p.dir, "broken")); err != nil {
		t.Fatal(err)
	}
	p.mustRun(engine.Options{Jobs: 1})
	p.wantNamed("first", "one.txt two.txt")
	p.wantReleased("all is saved", "Doc", true)
	p.mustCheck("released")
	ran("first", map[string]int{"docs": 1, "text": 2, "size": 4})

	p.mustRun(engine.Options{})
	p.wantNamed("nothing to do", "one.txt two.txt")
	ran("nothing to do", map[string]int{})

	p.edit(strings.Replace(named, "wc -c", "wc -c | cat", 1))
	p.mustRun(engine.Options{Jobs: 1})
	p.wantNamed("edited", "one.txt two.txt")
	p.wantReleased("again", "Doc", true)
	ran("edited", map[string]int{"docs": 1, "size": 2})

	p.edit(strings.Replace(named, "{doc}.txt", "size-{doc}.txt", 1))
	p.mustRun(engine.Options{Jobs: 1})
	p.wantNamed("other names", "one.txt size-one.txt size-two.txt two.txt")
	ran("other names", map[string]int{"docs": 1}) // size as it was before
	p.wantReleased("named", "Doc", true)
	p.mustRun(engine.Options{})
	ran("nothing to do", map[string]int{})
}

// A saver that fails keeps the labels, too.
func TestLabelsStayWhereSavingFails(t *testing.T) {
	p := newProject(t, named)
	p.write("out", "in the way")
	var machine *engine.MachineError
	for range 2 {
		if _, err := p.run(engine.Options{}); !errors.As(err, &machine) {
			t.Fatalf("%v", err)
		}
		p.wantReleased("not saved", "Doc", false)
	}
	if err := os.Remove(filepath.Join(p.dir, "out")); err != nil {
		t.Fatal(err)
	}
	if s := p.mustRun(engine.Options{}); s.Executed != 0 {
		t.Errorf("%+v", s)
	}
	p.wantNamed("at last", "one.txt two.txt")
	p.wantReleased("saved", "Doc", true)
}

// A key that has become none is an error, and no file is named by an index.
func TestItemsWithoutLabelsAreNotSaved(t *testing.T) {
	p := newProject(t, strings.Replace(named, "keep: false, ", "", 1))
	p.mustRun(engine.Options{})
	p.edit(strings.Replace(strings.Replace(named, "keep: false, ", "", 1), ".id", ".name", 1))
	_, err := p.run(engine.Options{})
	if err == nil || !strings.Contains(err.Error(), "names the file of \"doc=0\" by the label of doc, and the item has none") {
		t.Errorf("%v", err)
	}
	p.wantNamed("no more", "one.txt two.txt")
}
