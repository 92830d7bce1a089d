package engine_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"operon/engine"
)

const passing = `pipeline: passing
tasks:
  a:
    out: A<i>
    keep: false
    run: echo a >> ran; printf '1\n2\n'
  b:
    in: A
    for: i
    out: B
    keep: false
    format: file
    run: echo b >> ran; head -c 30000 /dev/zero > "$out"; echo >> "$out"; echo $a >> "$out"
  c:
    in: B<i>
    out: C
    run: echo c >> ran; while read -r f; do tail -n 1 "$f"; done
`

func (p *project) valuesErr(entity string) error {
	p.t.Helper()
	s, err := engine.OpenState(p.stateDir("passing"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Values(context.Background(), engine.Query{Entity: entity}, func(engine.Item) error { return nil })
	return err
}

// Values of a task that says keep: false go when everything that takes them is
// done, stay away in a run that needs nothing, and are made again when needed.
func TestValuesAreReleasedAndMadeAgain(t *testing.T) {
	p := newProject(t, passing)
	p.wantRan("first run", map[string]int{"a": 1, "b": 2, "c": 1})
	for _, entity := range []string{"A", "B"} {
		var released *engine.ReleasedError
		if err := p.valuesErr(entity); !errors.As(err, &released) || released.Entity != entity {
			t.Errorf("%s: %v", entity, err)
		}
	}
	blobs, _ := filepath.Glob(filepath.Join(p.stateDir("passing"), "blobs", "*", "*"))
	for _, b := range blobs {
		if !strings.Contains(b, "tmp") {
			t.Errorf("blob %s is still there", filepath.Base(b))
		}
	}
	if got := p.values("C"); got != "\"1\\n2\"\n" {
		t.Errorf("C is %q", got)
	}
	p.wantRan("nothing to do", nil)
	p.edit(strings.Replace(passing, "tail -n 1", "tail -n1", 1))
	p.wantRan("c edited, the same bytes", map[string]int{"a": 1, "b": 2, "c": 1})
	p.edit(strings.Replace(passing, "1\\n2\\n", "1\\n3\\n", 1))
	p.wantRan("a edited", map[string]int{"a": 1, "b": 2, "c": 1})
	if got := p.values("C"); got != "\"1\\n3\"\n" {
		t.Errorf("C is %q", got)
	}
}

// What a stopped run still needs stays.
func TestValuesStayWhileTheyAreNeeded(t *testing.T) {
	p := newProject(t, passing)
	p.mustRun(engine.Options{Until: []string{"b"}})
	if err := p.valuesErr("B"); err != nil {
		t.Errorf("B: %v", err)
	}
	var released *engine.ReleasedError
	if err := p.valuesErr("A"); !errors.As(err, &released) {
		t.Errorf("A, which nothing needs any more: %v", err)
	}
	p.ran()
	p.wantRan("the rest", map[string]int{"c": 1})
}

// Whoever runs again gets what it takes, also if that was released.
func TestReleasedValuesAreMadeAgainForRedoAndHoles(t *testing.T) {
	p := newProject(t, `pipeline: passing
tasks:
  a: {out: "A<i>", run: seq 3}
  b: {in: A, for: i, out: B, keep: false, run: cat}
  h: {in: B, for: i, out: H, on_error: hole, run: 'test -e good || test "$b" != 2; echo "$b"'}
  all: {in: {x: "B<i>", y: {from: "H<i>", holes: null}}, out: All, jq: "[.x, .y]"}
`)
	want := func(what, all string, o engine.Options) {
		t.Helper()
		s := p.mustRun(o)
		if got := p.values("All"); s.State != engine.StateComplete || got != all+"\n" {
			t.Errorf("%s: %s%+v", what, got, s)
		}
	}
	holed, whole := `[["1","2","3"],["1",null,"3"]]`, `[["1","2","3"],["1","2","3"]]`
	want("first", holed, engine.Options{})
	want("redo of the aggregate", holed, engine.Options{Redo: []string{"all"}})
	want("redo of a consumer", holed, engine.Options{Redo: []string{"h"}})
	want("holes again, in vain", holed, engine.Options{RetryHoles: true})
	p.write("good", "")
	want("holes again", whole, engine.Options{RetryHoles: true})
	p.edit(`pipeline: passing
tasks:
  a: {out: "A<i>", run: seq 3}
  b: {in: A, for: i, out: B, run: cat}
  h: {in: B, for: i, out: H, on_error: hole, run: 'test -e good || test "$b" != 2; echo "$b"'}
  all: {in: {x: "B<i>", y: {from: "H<i>", holes: null}}, out: All, jq: "[.x, .y]"}
`)
	want("kept from now on", whole, engine.Options{})
	if err := p.valuesErr("B"); err != nil {
		t.Errorf("without keep: false the values are still gone: %v", err)
	}
}
