package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"operon/engine"
	"operon/engine/body"
)

// counted is a pipeline whose bodies note that they ran.
const counted = `pipeline: counted
tasks:
  lines: {out: Line<l>, source: {lines: data.txt}}
  upper:
    in: Line
    for: l
    out: Upper
    run: echo upper >> ran; tr a-z A-Z
  first:
    in: Upper
    for: l
    out: First
    run: echo first >> ran; cut -c1
  all:
    in: First<l>
    out: All
    run: echo all >> ran; tr -d '\n'
`

func (p *project) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// ran counts the bodies that ran since it was last asked.
func (p *project) ran() map[string]int {
	p.t.Helper()
	out := map[string]int{}
	path := filepath.Join(p.dir, "ran")
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		out[strings.TrimSpace(line)]++
	}
	os.Remove(path)
	return out
}

func (p *project) wantRan(what string, want map[string]int) {
	p.t.Helper()
	s := p.mustRun(engine.Options{Jobs: 2})
	if s.State != engine.StateComplete {
		p.t.Errorf("%s: %+v", what, s)
	}
	got := p.ran()
	if len(got) != len(want) {
		p.t.Errorf("%s: ran %v, want %v", what, got, want)
	}
	for task, n := range want {
		if got[task] != n {
			p.t.Errorf("%s: %s ran %d times, want %d", what, task, got[task], n)
		}
	}
}

func TestNothingRunsTwice(t *testing.T) {
	p := newProject(t, counted)
	p.write("data.txt", "alpha\nbeta\ngamma\n")
	p.wantRan("first run", map[string]int{"upper": 3, "first": 3, "all": 1})
	p.write("data.txt", "delta\nalpha\nbeta\ngamma\n")
	p.wantRan("a line in front", map[string]int{"upper": 1, "first": 1, "all": 1})
	p.write("data.txt", "delta\nALPHA\nbeta\ngamma\n")
	p.wantRan("an edit that changes nothing above upper", map[string]int{"upper": 1})
	p.write("data.txt", "gamma\ndelta\nalpha\nbeta\n")
	p.wantRan("another order", map[string]int{"all": 1})
	p.write("data.txt", "alpha\nbeta\ngamma\n")
	p.wantRan("undone", nil)
	p.edit(strings.Replace(counted, "cut -c1", "cut -c2", 1))
	p.wantRan("a body edited", map[string]int{"first": 3, "all": 1})
	p.edit(counted)
	p.wantRan("that undone", nil)
	p.edit(strings.Replace(counted, "tr a-z A-Z", "tr 'a-z' 'A-Z'", 1))
	p.wantRan("another text, the same bytes", map[string]int{"upper": 3})
	if got := p.values("All"); got != "\"ABG\"\n" {
		t.Errorf("%q", got)
	}
}

func TestEqualJobsAreOneExecution(t *testing.T) {
	p := newProject(t, counted)
	p.write("data.txt", "a\na\nb\na\n")
	p.wantRan("equal lines", map[string]int{"upper": 2, "first": 2, "all": 1})
	if got := p.values("Upper"); got != "l=0 \"A\"\nl=1 \"A\"\nl=2 \"B\"\nl=3 \"A\"\n" {
		t.Errorf("%q", got)
	}
	p = newProject(t, strings.Replace(counted, "    run: echo upper", "    cache: false\n    run: echo upper", 1))
	p.write("data.txt", "a\na\nb\na\n")
	p.wantRan("never reused", map[string]int{"upper": 4, "first": 2, "all": 1})
	p.wantRan("never reused, again", map[string]int{"upper": 4})
}

// The second of two equal jobs waits; if the first fails, it runs itself.
func TestEqualJobsAfterAFailure(t *testing.T) {
	p := fanProject(t, "")
	l := p.start(engine.Options{Jobs: 2, KeepGoing: true})
	l.r.OK("split", "", `7`, `7`, `7`)
	one := func() string { // which of the equal jobs runs
		for {
			if names := l.r.Running(); len(names) > 0 {
				return strings.TrimPrefix(names[0], "work@")
			}
		}
	}
	l.r.Fail("work", one(), body.KindExit, "exit status 1")
	l.r.OK("work", one(), `1`)
	s := l.wait()
	if s.Failed != 1 || s.Executed != 2 || s.Reused != 1 || s.Blocked != 1 {
		t.Errorf("%+v", s)
	}
}
