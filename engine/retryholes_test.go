package engine_test

import (
	"maps"
	"testing"

	"operon/engine"
)

// holed has a document that can't be read until it is mended, and all kinds of
// what rests on it: a job that needs it, lists that want it as null, a list of
// lists, and what takes none of it.
const holed = `pipeline: holed
tasks:
  docs: {out: Doc<doc>, source: {values: [a, b]}}
  read:
    in: {text: Doc}
    for: doc
    out: Page<page>
    on_error: hole
    run: |
      echo "read $text" >>ran
      test "$text" = a || test -e mended || { echo "at $(date +%N)" >&2; exit 1; }
      seq 2 | sed "s,^,$text,"
  upper: {in: {page_text: Page}, for: [doc, page], out: Upper, run: 'echo upper >>ran; echo "$page_text x"'}
  count: {in: {u: {from: "Upper<page>", holes: null}}, for: doc, out: Count, run: 'echo count >>ran; wc -l'}
  report: {in: {c: {from: "Count<doc>", holes: null}}, out: Report, run: 'echo report >>ran; cat'}
  title: {in: Report, out: Title, run: 'echo title >>ran; head -c3'}
  apart: {in: {text: Doc}, for: doc, out: Apart, run: 'echo apart >>ran; echo "$text"'}
`

func (p *project) retry(what string, executed, holes int64, want map[string]int) {
	p.t.Helper()
	s := p.mustRun(engine.Options{Jobs: 2, RetryHoles: true})
	if s.State != engine.StateComplete || s.Executed != executed || s.Holes != holes {
		p.t.Errorf("%s: %d executed, %d holes, want %d and %d", what, s.Executed, s.Holes, executed, holes)
	}
	if got := p.ran(); !maps.Equal(got, want) {
		p.t.Errorf("%s: ran %v, want %v", what, got, want)
	}
	p.mustCheck(what)
}

// A hole that comes out as one again costs its own attempt alone; one that becomes
// a value costs what takes it, where it makes a difference.
func TestRetriedHolesRunOnlyWhatTheyChange(t *testing.T) {
	p := newProject(t, holed)
	p.wantRan("first", map[string]int{"read a": 1, "read b": 1, "upper": 2, "count": 1, "report": 1, "title": 1, "apart": 2})
	for range 2 {
		p.retry("a hole again", 0, 2, map[string]int{"read b": 1})
	}
	p.write("mended", "")
	p.retry("a value", 1+2+1+1+1, 0, map[string]int{"read b": 1, "upper": 2, "count": 1, "report": 1, "title": 1})
	p.retry("no holes", 0, 0, map[string]int{})
	if got := p.values("Report"); got != "\"2\\n2\"\n" {
		t.Errorf("the report is %s", got)
	}
}

// Killed at any moment, a run that tries holes again has lost nothing that the next
// would have to make again.
func TestRetriedHolesSurviveAKill(t *testing.T) {
	t.Parallel()
	p := newProject(t, holed)
	p.mustRun(engine.Options{Jobs: 1})
	points := 0
	for at := 1; ; at++ {
		q := p.copied(func(*project) {})
		crash := q.snapshotAt(at, func(hook func(string)) { q.mustRun(engine.Options{Jobs: 1, RetryHoles: true, Hook: hook}) })
		if crash == nil {
			break
		}
		points++
		rep, err := crash.check(engine.Exhaustive)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range rep.Faults {
			// Between the two stores' commits the metadata is that of the run before.
			if f.Kind != engine.FaultMetaForeign {
				t.Errorf("killed at %d: %+v", at, f)
			}
		}
		crash.ran()
		s := crash.mustRun(engine.Options{Jobs: 1})
		if got := crash.ran(); s.Executed != 0 || s.Holes != 2 || got["upper"]+got["count"]+got["report"]+got["title"]+got["apart"] > 0 {
			t.Errorf("killed at %d: ran %v, %+v", at, got, s)
		}
		crash.mustCheck("killed, and run")
	}
	if points < 6 {
		t.Errorf("only %d commit points", points)
	}
}
