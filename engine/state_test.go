package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"operon/engine"
	"operon/storage"
)

const small = `pipeline: small
tasks:
  numbers: {out: Number<i>, source: {count: 3}}
  double: {in: Number, for: i, out: Double, jq: ". * 2"}
  total: {in: "Double<i>", out: Total, jq: add}
`

func (p *project) stateDir(name string) string { return filepath.Join(p.dir, ".operon", name) }

func TestAnotherFileOfTheSameNameIsRefused(t *testing.T) {
	p := newProject(t, small)
	p.mustRun(engine.Options{})
	p.file = filepath.Join(p.dir, "other.yaml")
	p.edit(small)
	var foreign *engine.ForeignError
	if _, err := p.run(engine.Options{}); !errors.As(err, &foreign) || filepath.Base(foreign.File) != "p.yaml" {
		t.Errorf("%v", err)
	}
	if s := p.mustRun(engine.Options{Adopt: true}); s.Executed != 0 {
		t.Errorf("adopted, and executed %d", s.Executed)
	}
	if s := p.mustRun(engine.Options{}); s.Executed != 0 { // it is its own now
		t.Errorf("executed %d", s.Executed)
	}
}

func TestAMovedProjectRunsNothingAgain(t *testing.T) {
	p := newProject(t, small)
	p.mustRun(engine.Options{})
	moved := filepath.Join(t.TempDir(), "it's (a) [new] place\n")
	if err := os.Rename(p.dir, moved); err != nil {
		t.Fatal(err)
	}
	p.dir, p.file = moved, filepath.Join(moved, "p.yaml")
	if s := p.mustRun(engine.Options{}); s.Executed != 0 || s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
	if got := p.values("Total"); got != "6\n" {
		t.Errorf("%q", got)
	}
}

func TestANewerStateIsRefused(t *testing.T) {
	p := newProject(t, small)
	p.mustRun(engine.Options{})
	s, err := storage.Open(p.stateDir("small"), storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := &storage.Batch{Urgent: true}
	b.PutFootprint(storage.Footprint{Format: 99, RunID: "x", Pipeline: "small", File: "p.yaml"})
	s.Submit(b)
	if err := s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var newer *engine.NewerError
	if _, err := p.run(engine.Options{}); !errors.As(err, &newer) || newer.Have != 99 {
		t.Errorf("%v", err)
	}
	if s := p.mustRun(engine.Options{Fresh: true}); s.Executed != 5 {
		t.Errorf("%+v", s)
	}
}

func TestFreshRunsEverythingAgain(t *testing.T) {
	p := newProject(t, small)
	p.mustRun(engine.Options{})
	if s := p.mustRun(engine.Options{Fresh: true}); s.Executed != 5 || s.Reused != 0 {
		t.Errorf("%+v", s)
	}
}

func TestAListThatBecameShorter(t *testing.T) {
	p := newProject(t, small)
	p.mustRun(engine.Options{})
	p.edit(strings.Replace(small, "count: 3", "count: 2", 1))
	if s := p.mustRun(engine.Options{}); s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
	if got := p.values("Double") + p.values("Total"); got != "i=0 0\ni=1 2\n2\n" {
		t.Errorf("%q", got)
	}
}

func TestSourcesAreLookedAtAfresh(t *testing.T) {
	p := newProject(t, `pipeline: p
tasks:
  lines: {out: Line<l>, source: {lines: data.txt}}
  copy: {in: Line, for: l, out: Copy, run: cat}
`)
	data := filepath.Join(p.dir, "data.txt")
	write := func(text string) {
		if err := os.WriteFile(data, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a\nb\n")
	p.mustRun(engine.Options{})
	write("a\nb\n") // touched
	if s := p.mustRun(engine.Options{}); s.Executed != 0 {
		t.Errorf("executed %d for a file that was only touched", s.Executed)
	}
	write("a\nc\n")
	if s := p.mustRun(engine.Options{}); s.State != engine.StateComplete || s.Executed == 0 {
		t.Errorf("%+v", s)
	}
	if got := p.values("Copy"); got != "l=0 \"a\"\nl=1 \"c\"\n" {
		t.Errorf("%q", got)
	}
}

func TestNothingThereYet(t *testing.T) {
	if _, err := engine.OpenState(filepath.Join(t.TempDir(), "none")); !errors.Is(err, engine.ErrNoState) {
		t.Errorf("%v", err)
	}
}

// A folder that holds anything and is no state directory is left alone.
func TestAFolderOfOthersIsNoStateDirectory(t *testing.T) {
	p := newProject(t, small)
	other := filepath.Join(t.TempDir(), "other")
	precious := filepath.Join(other, "tmp", "precious")
	if err := os.MkdirAll(filepath.Dir(precious), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(precious, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, o := range []engine.Options{{State: other}, {State: other, Fresh: true}} {
		var not *engine.NotOursError
		if _, err := p.run(o); !errors.As(err, &not) || not.Holds != "tmp" {
			t.Errorf("%v", err)
		}
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(other); err != nil || len(entries) != 1 {
		t.Errorf("%v %v", entries, err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	if s, err := p.run(engine.Options{State: empty}); err != nil || s.State != engine.StateComplete {
		t.Errorf("%+v %v", s, err)
	}
}

// --fresh starts over what is one's own, no other file's.
func TestFreshRefusesAnotherFilesState(t *testing.T) {
	p := newProject(t, small)
	p.mustRun(engine.Options{})
	other := &project{t: t, dir: p.dir, file: filepath.Join(p.dir, "other.yaml")}
	other.edit(small)
	var foreign *engine.ForeignError
	if _, err := other.run(engine.Options{Fresh: true}); !errors.As(err, &foreign) || filepath.Base(foreign.File) != "p.yaml" {
		t.Errorf("%v", err)
	}
	if s := p.mustRun(engine.Options{}); s.Executed != 0 || p.values("Total") != "6\n" {
		t.Errorf("%+v", s)
	}
	if s := other.mustRun(engine.Options{Fresh: true, Adopt: true}); s.Executed != 5 {
		t.Errorf("%+v", s)
	}
	for _, name := range []string{"data.db", "meta.db"} {
		if err := os.WriteFile(filepath.Join(p.stateDir("small"), name), []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if s := p.mustRun(engine.Options{Fresh: true}); s.Executed != 5 {
		t.Errorf("damaged: %+v", s)
	}
}

// Data that is gone is said to be, also after a run that was refused for it.
func TestDataThatIsGoneStaysAFault(t *testing.T) {
	p := newProject(t, small)
	p.mustRun(engine.Options{})
	if err := os.Remove(filepath.Join(p.stateDir("small"), storage.DataFile)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var wrong *engine.InconsistentError
		if _, err := p.run(engine.Options{}); !errors.As(err, &wrong) {
			t.Fatalf("%v", err)
		}
		pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		rep, err := engine.Check(context.Background(), pl, engine.CheckOptions{Dir: p.dir, Mode: engine.Exhaustive})
		if err != nil || rep.Consistent || rep.Faults[0].Kind != engine.FaultDataMissing {
			t.Fatalf("%+v %v", rep, err)
		}
	}
	if s := p.mustRun(engine.Options{Fresh: true}); s.Executed != 5 {
		t.Errorf("%+v", s)
	}
}
