package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"operon/engine"
)

// project is a pipeline in a folder of its own.
type project struct {
	t    testing.TB
	dir  string
	file string
}

func newProject(t testing.TB, yaml string) *project {
	t.Helper()
	p := &project{t: t, dir: t.TempDir()}
	p.file = filepath.Join(p.dir, "p.yaml")
	p.edit(yaml)
	return p
}

func (p *project) edit(yaml string) {
	p.t.Helper()
	if err := os.WriteFile(p.file, []byte(yaml), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// run runs the pipeline and returns its summary.
func (p *project) run(o engine.Options) (*engine.Summary, error) {
	p.t.Helper()
	pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	o.Dir = p.dir
	e, err := engine.New(pl, o)
	if err != nil {
		return nil, err
	}
	s, err := e.Run(context.Background())
	if closed := e.Close(); closed != nil {
		p.t.Fatal(closed)
	}
	return s, err
}

func (p *project) mustRun(o engine.Options) *engine.Summary {
	p.t.Helper()
	s, err := p.run(o)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, f := range s.Failures {
		p.t.Logf("failed: %s at %q: %s\n%s", f.Task, f.Sample.Coord.Format(f.Sample.Dims), f.Sample.Message, f.Sample.Stderr)
	}
	return s
}

// values are an entity's values, one a line: coordinate, then JSON.
func (p *project) values(entity string) string {
	p.t.Helper()
	pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	dir, err := engine.StateDirOf(pl, engine.Options{Dir: p.dir})
	if err != nil {
		p.t.Fatal(err)
	}
	s, err := engine.OpenState(dir)
	if err != nil {
		p.t.Fatal(err)
	}
	defer s.Close()
	var b strings.Builder
	_, err = s.Values(context.Background(), engine.Query{Entity: entity}, func(it engine.Item) error {
		fmt.Fprintf(&b, "%s\n", strings.TrimSpace(it.Coord.Format(pl.Entity(entity).DimNames())+" "+string(it.Value.AppendJSON(nil))))
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return b.String()
}

const splitter = `pipeline: splitter
tasks:
  get_inputs:
    out: Input<input_no>
    run: printf '%s\n' 'Good morning' 'Bonjour' 'Buenos dias'
  get_words:
    in: Input
    for: input_no
    out: Word<word_no>
    run: tr ' ' '\n'
  get_chars:
    in: Word
    for: [input_no, word_no]
    out: Char<char_no>
    run: grep -o .
  tally:
    in: Char<input_no, word_no, char_no>
    out: Tally
    run: sort | uniq -c | sort -rn | head -3
`

func TestSplitter(t *testing.T) {
	p := newProject(t, splitter)
	s := p.mustRun(engine.Options{})
	if s.State != engine.StateComplete || s.Executed != 10 || s.Failed != 0 {
		text, _ := json.Marshal(s)
		t.Fatalf("%s", text)
	}
	if got := p.values("Word"); got != `input_no=0,word_no=0 "Good"
input_no=0,word_no=1 "morning"
input_no=1,word_no=0 "Bonjour"
input_no=2,word_no=0 "Buenos"
input_no=2,word_no=1 "dias"
` {
		t.Errorf("words:\n%s", got)
	}
	if got := p.values("Tally"); !strings.Contains(got, "6 o") {
		t.Errorf("tally: %s", got)
	}
	again := p.mustRun(engine.Options{})
	if again.Executed != 0 || again.Reused != 10 || again.State != engine.StateComplete {
		t.Errorf("again: %+v", again)
	}
}
