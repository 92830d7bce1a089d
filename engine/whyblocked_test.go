package engine_test

import (
	"testing"

	"operon/engine"
	"operon/spec/coord"
)

// A job that did not run is told by what: the first failure, from the sources on,
// among all that it rests on, or what has not run of that.
func TestWhyBlocked(t *testing.T) {
	p := newProject(t, `pipeline: held
tasks:
  docs: {out: Doc<doc>, source: {count: 3}}
  pages: {in: {n: Doc}, for: doc, out: Page<page>, on_error: continue, run: 'test $n != 1; echo a; echo b'}
  read: {in: {n: Doc, text: Page}, for: [doc, page], out: Text, on_error: continue, run: 'test $n$text != 2b; echo $text'}
  join: {in: {texts: 'Text<page>'}, for: doc, out: Joined, run: cat}
  all: {in: {parts: 'Joined<doc>'}, out: All, run: cat}
  lone: {in: {n: Doc}, for: doc, out: Lone, on_error: continue, run: 'test $n != 0; echo $n'}
  both: {in: {lone: Lone, texts: 'Text<page>'}, for: doc, out: Both, run: 'echo $lone'}
`)
	why := func(task, at, outcome, want string) {
		t.Helper()
		dims := p.load().Task(task).ContextNames()
		binding, err := coord.Parse(at, dims)
		if err != nil {
			t.Fatal(err)
		}
		p.state(func(s *engine.State) {
			b, err := s.Why(t.Context(), task, binding)
			if err != nil {
				t.Fatal(err)
			}
			if b.Outcome != outcome || want != "" && b.Why != want {
				t.Errorf("%s at %q: %s: %s", task, at, b.Outcome, b.Why)
			}
		})
	}
	if _, err := p.run(engine.Options{Until: []string{"docs"}}); err != nil {
		t.Fatal(err)
	}
	why("read", "doc=1,page=7", "waiting", "pages at doc=1, which it rests on, has not run")
	why("join", "doc=1", "waiting", "pages at doc=1, which it rests on, has not run")
	why("all", "", "waiting", "a part of pages, which it rests on, has not run")
	if _, err := p.run(engine.Options{Jobs: 2}); err != nil {
		t.Fatal(err)
	}
	const pages1 = "pages at doc=1, which it rests on, failed: exit status 1"
	why("pages", "doc=1", "failed", "exit status 1")
	why("read", "doc=1,page=0", "blocked", pages1)
	why("join", "doc=1", "blocked", pages1)
	why("join", "doc=2", "blocked", "read at doc=2,page=1, which it rests on, failed: exit status 1")
	why("join", "doc=0", "executed", "")
	why("all", "", "blocked", pages1)
	why("both", "doc=0", "blocked", "lone at doc=0, which it rests on, failed: exit status 1")
	why("both", "doc=1", "blocked", pages1)
	why("both", "doc=2", "blocked", "read at doc=2,page=1, which it rests on, failed: exit status 1")
}
