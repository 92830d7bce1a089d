package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"operon/engine"
)

func (p *project) accept(task string) (*engine.AcceptReport, error) {
	p.t.Helper()
	pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return engine.Accept(context.Background(), pl, engine.AcceptOptions{Dir: p.dir, Task: task})
}

func (p *project) mustAccept(task string) *engine.AcceptReport {
	p.t.Helper()
	rep, err := p.accept(task)
	if err != nil {
		p.t.Fatal(err)
	}
	return rep
}

// commented is kept with a comment in the body of pack.
var commented = strings.Replace(kept, "echo pack >> ran;", "echo pack >> ran; # a comment\n      ", 1)

func TestAccept(t *testing.T) {
	p := newProject(t, kept)
	p.mustRun(engine.Options{})
	p.ran()
	want := p.all(keptEntities)
	p.edit(strings.ReplaceAll(commented, `run: echo pack`, "run: |\n      echo pack"))
	rep := p.mustAccept("pack")
	if rep.Jobs != 6 || rep.Old == rep.New || rep.User == "" || rep.Time.IsZero() || rep.Unchanged || !strings.HasPrefix(rep.Why, "body: ") {
		t.Errorf("%s", asJSON(rep))
	}
	if got := p.all(keptEntities); got != want {
		t.Errorf("the values differ:\n%s\nwant\n%s", got, want)
	}
	p.deep("accepted")
	p.wantRan("accepted", nil)
	if again := p.mustAccept("pack"); !again.Unchanged {
		t.Errorf("again: %s", asJSON(again))
	}
	list := p.accepted()
	if len(list) != 1 || list[0].Task != "pack" || list[0].User != rep.User || list[0].New != rep.New || !list[0].Time.Equal(rep.Time) {
		t.Errorf("%s", asJSON(list))
	}
	// What is accepted is found by key, and what was there before too.
	p.edit(kept)
	p.wantRan("undone", nil)
	if list := p.accepted(); len(list) != 0 {
		t.Errorf("undone: %s", asJSON(list))
	}
	p.edit(strings.ReplaceAll(commented, `run: echo pack`, "run: |\n      echo pack"))
	p.wantRan("done again", nil)
	p.edit(strings.ReplaceAll(strings.Replace(commented, "count: 3", "count: 4", 1), `run: echo pack`, "run: |\n      echo pack"))
	p.wantRan("one more", map[string]int{"grow": 1, "pack": 1, "size": 1})
}

func (p *project) accepted() []engine.AcceptReport {
	p.t.Helper()
	s, err := engine.OpenState(p.stateDir("kept"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer s.Close()
	list, err := s.Accepted()
	if err != nil {
		p.t.Fatal(err)
	}
	return list
}

func TestAcceptOfSourcesAndParams(t *testing.T) {
	p := newProject(t, counted)
	p.write("data.txt", "alpha\nbeta\n")
	p.mustRun(engine.Options{})
	p.ran()
	p.write("data.txt", "alpha \nbeta \n")
	if rep := p.mustAccept("lines"); rep.Jobs != 1 {
		t.Errorf("%s", asJSON(rep))
	}
	p.wantRan("a source taken as it was", nil)
	p.write("data.txt", "alpha\nbeta\n")
	p.edit(strings.Replace(counted, "cut -c1", "cut -c 1", 1))
	p.mustAccept("lines")
	p.mustAccept("first")
	p.wantRan("one after the other", nil)
}

func TestAcceptRefuses(t *testing.T) {
	p := newProject(t, kept)
	if _, err := p.accept("pack"); !errors.Is(err, engine.ErrNoState) {
		t.Errorf("%v", err)
	}
	p.mustRun(engine.Options{})
	p.ran()
	var unknown *engine.UnknownError
	if _, err := p.accept("pakc"); !errors.As(err, &unknown) {
		t.Errorf("%v", err)
	}
	refused := func(task, edited string, want string, first ...string) {
		t.Helper()
		p.edit(edited)
		var refused *engine.AcceptError
		if _, err := p.accept(task); !errors.As(err, &refused) || !strings.Contains(err.Error(), want) || strings.Join(refused.First, " ") != strings.Join(first, " ") {
			t.Errorf("%v", err)
		}
	}
	refused("size", strings.Replace(kept, "out: Size", "out: Length", 1), "it made Size, and now makes Length")
	refused("size", strings.Replace(kept, "out: Size", "out: Size<x>", 1), "it made Size, and now makes Size<x>")
	both := strings.Replace(strings.Replace(kept, "wc -c", "wc  -c", 1), "20000", "020000", 1)
	refused("size", both, "what it needs has changed too (pack: body: ", "pack")
	three := strings.Replace(both, "n + 1", "n+1", 1)
	refused("size", three, "accept or run first: grow, pack", "grow", "pack")
	refused("pack", three, "what it needs has changed too (grow: ", "grow")
	refused("size", strings.Replace(kept, "20000", "020000", 1), "what it needs has changed too (pack: ", "pack")
	refused("other", kept+"  other: {in: Size, out: Other, run: cat}\n", "it never ran")
	p.edit(kept)
	p.wantRan("refused all the time", nil)
	p.edit(three)
	for _, task := range []string{"grow", "pack", "size"} {
		p.mustAccept(task)
	}
	p.wantRan("accepted in order", nil)
}

// Jobs that had not finished run as they are now defined.
func TestAcceptOfAnUnfinishedTask(t *testing.T) {
	p := newProject(t, `pipeline: kept
tasks:
  seed: {out: Seed<i>, source: {values: [a, b, c]}}
  work: {in: Seed, for: i, out: Work, run: 'echo work >> ran; test "$seed" != b || test -e ok; echo old $seed'}
`)
	p.mustRun(engine.Options{KeepGoing: true})
	p.ran()
	old, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	p.edit(strings.Replace(string(old), "echo old", "echo new", 1))
	if rep := p.mustAccept("work"); rep.Jobs != 2 {
		t.Errorf("%s", asJSON(rep))
	}
	p.write("ok", "")
	p.wantRan("the job that failed", map[string]int{"work": 1})
	if got := p.values("Work"); got != "i=0 \"old a\"\ni=1 \"new b\"\ni=2 \"old c\"\n" {
		t.Errorf("%q", got)
	}
}

func TestKilledAccept(t *testing.T) {
	t.Parallel()
	var want string
	prepare := func(p *project) string {
		p.edit(kept)
		p.mustRun(engine.Options{})
		p.ran()
		want = p.all(keptEntities)
		p.edit(strings.ReplaceAll(commented, `run: echo pack`, "run: |\n      echo pack"))
		return "kept"
	}
	reads := func(what string, p *project) {
		t.Helper()
		if got := p.all(keptEntities); got != want {
			t.Errorf("%s: the values differ:\n%s\nwant\n%s", what, got, want)
		}
		p.deep(what)
	}
	killEverywhere(t, prepare, "accept", reads, func(what string, p *project) {
		t.Helper()
		reads(what, p)
		p.wantRan(what, nil)
		if left, _ := filepath.Glob(filepath.Join(p.stateDir("kept"), "*.new")); len(left) > 0 {
			t.Errorf("%s: %v", what, left)
		}
	})
}

// A run that was killed, whose metadata lacks some of what it committed, is
// accepted as far as it came.
func TestAcceptAfterAKilledRun(t *testing.T) {
	t.Parallel()
	undisturbed := newVictim(t)
	points, _ := undisturbed.runTo(0)
	want := undisturbed.entities()
	accepted := 0
	for at := points / 4; at < points; at += max(1, points/6) {
		v := newVictim(t)
		if _, killed := v.runTo(at); !killed {
			break
		}
		v.edit(strings.Replace(killed, "head -c 20000", "head  -c 20000", 1))
		var refused *engine.AcceptError
		_, err := v.accept("pack")
		switch {
		case errors.As(err, &refused):
		case err != nil:
			t.Fatalf("killed at %d: %v", at, err)
		default:
			accepted++
		}
		v.resume("accepted", want)
	}
	if accepted == 0 {
		t.Error("nothing was accepted")
	}
}
