package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"operon/engine"
)

const onlyYAML = `pipeline: only
tasks:
  list: {out: Page<page>, exec: ["true"], key: .}
  cut: {in: {p: Page}, for: page, out: Bit<bit>, exec: ["true", "{page}"]}
  work: {in: {b: Bit}, for: [page, bit], out: Done, exec: ["true", "{page}", "{bit}"]}
  sum: {in: Done<bit>, for: page, out: Sum, exec: ["true", "{page}"]}
  all: {in: Sum<page>, out: All, exec: ["true"]}
  after: {in: All, out: After, exec: ["true"]}
  apart: {out: Apart<x>, exec: ["true", apart]}
`

func TestOnlyRunsTheNamedCoordinates(t *testing.T) {
	p := newProject(t, onlyYAML)
	l := p.start(engine.Options{Jobs: 4, Only: map[string][]string{"page": {"1", "@c"}}})
	l.r.OK("list", "", `"a"`, `"b"`, `"c"`, `"d"`)
	l.r.OK("apart", "")
	l.r.OK("cut", "page=1", `1`, `2`)
	l.r.OK("cut", "page=2", `3`)
	l.r.OK("work", "page=1,bit=0", `1`)
	l.r.OK("work", "page=1,bit=1", `1`)
	l.r.OK("work", "page=2,bit=0", `1`)
	l.r.OK("sum", "page=1", `1`)
	l.r.OK("sum", "page=2", `1`)
	s := l.wait()
	if s.State != engine.StateStopped || !s.Asked || s.Executed != 9 || !slices.Equal(s.LeftOut, []string{"all", "after"}) {
		t.Errorf("%+v", s)
	}
	if cut := s.Tasks[1]; cut.Waiting != 2 || cut.Queued != 0 || cut.Done != 2 {
		t.Errorf("%+v", cut)
	}
	// Something else is asked for: everything, and what is done stays.
	l = p.start(engine.Options{Jobs: 4})
	l.r.OK("cut", "page=0")
	l.r.OK("cut", "page=3")
	l.r.OK("sum", "page=0", `1`)
	l.r.OK("sum", "page=3", `1`)
	l.r.OK("all", "", `1`)
	l.r.OK("after", "", `1`)
	if s := l.wait(); s.State != engine.StateComplete || s.Executed != 6 || s.Reused != 9 {
		t.Errorf("%+v", s)
	}
	// All is done: an aggregate would not be partial, and nothing is left out.
	if s := p.start(engine.Options{Only: map[string][]string{"page": {"1"}}}).wait(); s.State != engine.StateComplete || len(s.LeftOut) > 0 {
		t.Errorf("%+v", s)
	}
}

func TestOnlyAnInnerCoordinate(t *testing.T) {
	p := newProject(t, onlyYAML)
	l := p.start(engine.Options{Jobs: 4, Until: []string{"sum"}, Only: map[string][]string{"bit": {"1"}}})
	l.r.OK("list", "", `"a"`, `"b"`)
	l.r.OK("cut", "page=0", `1`, `2`)
	l.r.OK("cut", "page=1", `1`)
	l.r.OK("work", "page=0,bit=1", `1`)
	if s := l.wait(); !s.Asked || s.Executed != 4 || !slices.Equal(s.LeftOut, []string{"sum"}) {
		t.Errorf("%+v", s)
	}
}

func TestSampleRunsTheFirstOfEachList(t *testing.T) {
	for _, sample := range []map[string]int{{"": 2}, {"page": 2}} {
		p := newProject(t, onlyYAML)
		l := p.start(engine.Options{Jobs: 4, Sample: sample})
		l.r.OK("list", "", `"a"`, `"b"`, `"c"`)
		l.r.OK("apart", "")
		for i := range 2 {
			at := fmt.Sprintf("page=%d", i)
			l.r.OK("cut", at, `1`)
			l.r.OK("work", at+",bit=0", `1`)
			l.r.OK("sum", at, `1`)
		}
		if s := l.wait(); !s.Asked || s.Executed != 8 || !slices.Equal(s.LeftOut, []string{"all", "after"}) {
			t.Errorf("%+v", s)
		}
	}
	// Where there are no more than these, everything runs.
	p := newProject(t, onlyYAML)
	l := p.start(engine.Options{Jobs: 4, Sample: map[string]int{"": 5}})
	l.r.OK("list", "")
	l.r.OK("apart", "")
	l.r.OK("all", "", `1`)
	l.r.OK("after", "", `1`)
	if s := l.wait(); s.State != engine.StateComplete || !s.Asked {
		t.Errorf("%+v", s)
	}
}

// A run that was stopped goes on with what it was asked for.
func TestOnlyIsPartOfTheRun(t *testing.T) {
	p := newProject(t, onlyYAML)
	l := p.start(engine.Options{Jobs: 4, Only: map[string][]string{"page": {"0"}}})
	l.r.OK("list", "", `"a"`, `"b"`)
	l.r.OK("apart", "")
	l.r.Await("cut", "page=0")
	if err := l.e.Quit(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if s := l.wait(); s.Asked {
		t.Errorf("%+v", s)
	}
	l = p.start(engine.Options{Jobs: 4})
	l.r.OK("cut", "page=0")
	l.r.OK("sum", "page=0", `1`)
	if s := l.wait(); !s.Asked || s.Executed != 2 || !slices.Equal(s.LeftOut, []string{"all", "after"}) {
		t.Errorf("%+v", s)
	}
}

func TestOnlyWhatIsThere(t *testing.T) {
	p := newProject(t, onlyYAML)
	var unknown *engine.UnknownError
	for _, only := range []map[string][]string{{"pge": {"0"}}, {"page": {"x"}}, {"page": {"-1"}}, {"page": {"4294967295"}}} {
		if _, err := p.run(engine.Options{Only: only}); !errors.As(err, &unknown) {
			t.Errorf("%v: %v", only, err)
		}
	}
	if _, err := p.run(engine.Options{Sample: map[string]int{"": 0}}); !errors.As(err, &unknown) {
		t.Errorf("%v", err)
	}
	for only, want := range map[string]any{"7": &unknown, "@z": new(*engine.LabelError)} {
		l := p.start(engine.Options{Jobs: 4, Fresh: true, Only: map[string][]string{"page": {only}}})
		l.r.OK("list", "", `"a"`, `"b"`)
		l.r.OK("apart", "")
		<-l.done
		if l.sum == nil || !errors.As(l.err, want) {
			t.Errorf("%s: %v", only, l.err)
		}
		if err := l.e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
