package engine_test

import (
	"slices"
	"testing"
	"time"

	"operon/engine"
	"operon/engine/body"
)

// ask gives the running engine the pipeline as it is, and asks for something else.
func (l *live) ask(p *project, o engine.Options) *engine.Reconciled {
	l.t.Helper()
	rec, err := l.e.Reconcile(l.t.Context(), p.load(), o)
	if err != nil {
		l.t.Fatal(err)
	}
	return rec
}

// begins are how often a job has begun.
func (l *live) begins(name string) (n int) {
	for _, started := range l.r.Started() {
		if started == name {
			n++
		}
	}
	return n
}

func only(pages ...string) engine.Options {
	return engine.Options{Only: map[string][]string{"page": pages}}
}

// A run of some coordinates goes on as a whole one, and what runs is not begun anew.
func TestReconcileOnlyToWhole(t *testing.T) {
	for _, first := range []engine.Options{only("1"), only("@b"), {Sample: map[string]int{"page": 1}, Only: map[string][]string{"bit": {"0"}}}} {
		p := newProject(t, onlyYAML)
		first.Jobs = 8
		l := p.start(first)
		l.r.OK("list", "", `"a"`, `"b"`, `"c"`)
		l.r.OK("apart", "", `0`)
		page, other := "page=1", "page=0"
		if first.Sample != nil {
			page, other = other, page
		}
		l.r.OK("cut", page, `1`)
		l.r.Await("work", page+",bit=0")
		if s := l.status("cut"); s.Waiting != 2 || s.Queued != 0 || s.Done != 1 {
			t.Errorf("%+v", s)
		}
		if rec := l.ask(p, engine.Options{}); rec.Kept != 7 {
			t.Errorf("%+v", rec)
		}
		l.r.OK("cut", other, `1`)
		l.r.OK("cut", "page=2", `1`)
		for _, at := range []string{"page=0", "page=1", "page=2"} {
			l.r.OK("work", at+",bit=0", `1`)
			l.r.OK("sum", at, `1`)
		}
		l.r.OK("all", "", `1`)
		l.r.OK("after", "", `1`)
		if s := l.wait(); s.State != engine.StateComplete || !s.Asked || s.Executed != 13 || s.Waiting != 0 || len(s.LeftOut) > 0 {
			t.Errorf("%+v", s)
		}
		if n := l.begins("work@" + page + ",bit=0"); n != 1 {
			t.Errorf("a job that ran began %d times", n)
		}
		p.deep("after a run of some coordinates went on as a whole one")
		if s := p.mustRun(engine.Options{}); s.Executed != 0 {
			t.Errorf("the next run: %+v", s)
		}
	}
}

// A whole run that is restricted begins nothing more of the other coordinates; what
// runs of them ends, and its results stay.
func TestReconcileWholeToOnly(t *testing.T) {
	p := newProject(t, onlyYAML)
	l := p.start(engine.Options{Jobs: 3})
	l.r.OK("list", "", `"a"`, `"b"`, `"c"`, `"d"`)
	l.r.OK("apart", "", `0`)
	l.r.OK("cut", "page=0", `1`)
	for _, at := range []string{"page=1", "page=2", "page=3"} {
		l.r.Await("cut", at)
	}
	l.ask(p, only("@c"))
	l.r.OK("cut", "page=1", `1`)
	l.r.OK("cut", "page=2", `1`)
	l.r.OK("cut", "page=3", `1`)
	l.r.OK("work", "page=2,bit=0", `1`)
	l.r.OK("sum", "page=2", `1`)
	s := l.wait()
	if s.State != engine.StateStopped || !s.Asked || s.Executed != 8 || !slices.Equal(s.LeftOut, []string{"all", "after"}) {
		t.Errorf("%+v", s)
	}
	if work := s.Tasks[2]; work.Waiting != 3 || work.Queued != 0 || work.Undone != 0 {
		t.Errorf("%+v", work)
	}
	p.deep("after a whole run was restricted")
	l = p.start(engine.Options{Jobs: 8})
	for _, at := range []string{"page=0", "page=1", "page=3"} {
		l.r.OK("work", at+",bit=0", `1`)
		l.r.OK("sum", at, `1`)
	}
	l.r.OK("all", "", `1`)
	l.r.OK("after", "", `1`)
	if s := l.wait(); s.State != engine.StateComplete || s.Executed != 8 {
		t.Errorf("the next run: %+v", s)
	}
}

// A restricted run does not try again what it is not asked for: neither a job whose
// next attempt is to come, nor one that was under way.
func TestReconcileOnlyForgetsRetries(t *testing.T) {
	const text = `pipeline: only
tasks:
  list: {out: Page<page>, exec: ["true"]}
  work: {in: {p: Page}, for: page, out: Done, exec: ["true", "{page}"], retry: {times: 1, backoff: 1h, jitter: 0}}
`
	p := newProject(t, text)
	l := p.start(engine.Options{Jobs: 3})
	l.r.OK("list", "", `1`, `2`, `3`)
	l.r.Await("work", "page=1")
	l.r.Await("work", "page=2")
	l.r.Fail("work", "page=0", body.KindExit, "waits an hour")
	await(t, "the attempt has failed", func() bool { return l.status("work").Running == 2 })
	l.ask(p, only("2"))
	l.r.Fail("work", "page=1", body.KindExit, "nobody asks for another attempt")
	l.r.OK("work", "page=2", `1`)
	select {
	case <-l.done:
	case <-time.After(20 * time.Second):
		t.Fatalf("it waits for attempts that nobody asks for: %+v", l.status("work"))
	}
	s := l.wait()
	if s.State != engine.StateStopped || !s.Asked || s.Executed != 2 || s.Failed != 0 || s.Tasks[1].Waiting != 2 || s.Tasks[1].Queued != 0 {
		t.Errorf("%+v", s)
	}
	p.deep("after attempts were forgotten")
}

// An attempt that was to come, and that is asked for again, is still the second.
func TestReconcileOnlyAndBackKeepsAttempts(t *testing.T) {
	const text = `pipeline: only
tasks:
  list: {out: Page<page>, exec: ["true"]}
  work: {in: {p: Page}, for: page, out: Done, exec: ["true", "{page}"], retry: {times: 1, backoff: 0s}}
`
	p := newProject(t, text)
	l := p.start(engine.Options{Jobs: 2})
	l.r.OK("list", "", `1`, `2`)
	l.r.Await("work", "page=0")
	l.r.Await("work", "page=1")
	l.ask(p, only("1"))
	l.r.Fail("work", "page=0", body.KindExit, "no")
	await(t, "the attempt has failed", func() bool { return l.status("work").Running == 1 })
	if s := l.status("work"); s.Waiting != 1 || s.Queued != 0 {
		t.Errorf("%+v", s)
	}
	l.ask(p, engine.Options{})
	if attempt := l.r.OK("work", "page=0", `1`); attempt != 2 {
		t.Errorf("attempt %d", attempt)
	}
	l.r.OK("work", "page=1", `1`)
	if s := l.wait(); s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
	p.deep("after it was asked for again")
}

// A sample of another size, up and down.
func TestReconcileSampleOfAnotherSize(t *testing.T) {
	p := newProject(t, onlyYAML)
	l := p.start(engine.Options{Jobs: 8, Sample: map[string]int{"": 1}})
	l.r.OK("list", "", `"a"`, `"b"`, `"c"`, `"d"`)
	l.r.OK("apart", "", `0`)
	l.r.OK("cut", "page=0", `1`)
	l.r.Await("work", "page=0,bit=0")
	l.ask(p, engine.Options{Sample: map[string]int{"": 3}})
	l.r.OK("cut", "page=1", `1`)
	l.r.Await("work", "page=1,bit=0")
	l.r.Await("cut", "page=2")
	if s := l.status("cut"); s.Done != 2 || s.Running != 1 || s.Waiting != 1 || s.Queued != 0 {
		t.Errorf("%+v", s)
	}
	l.ask(p, engine.Options{Sample: map[string]int{"page": 2}})
	l.r.OK("cut", "page=2", `1`)
	for _, at := range []string{"page=0", "page=1"} {
		l.r.OK("work", at+",bit=0", `1`)
		l.r.OK("sum", at, `1`)
	}
	s := l.wait()
	if !s.Asked || s.State != engine.StateStopped || s.Executed != 9 || !slices.Equal(s.LeftOut, []string{"all", "after"}) {
		t.Errorf("%+v", s)
	}
	p.deep("after samples of other sizes")
}

// What a running engine was asked for last is what the next run goes on with.
func TestReconcileOnlyIsPartOfTheRun(t *testing.T) {
	p := newProject(t, onlyYAML)
	l := p.start(engine.Options{Jobs: 4, Only: map[string][]string{"page": {"0"}}})
	l.r.OK("list", "", `"a"`, `"b"`)
	l.r.OK("apart", "")
	l.r.Await("cut", "page=0")
	l.ask(p, only("1"))
	l.r.Await("cut", "page=1")
	if err := l.e.Quit(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	l.wait()
	l = p.start(engine.Options{Jobs: 4})
	l.r.OK("cut", "page=1")
	l.r.OK("sum", "page=1", `1`)
	if s := l.wait(); !s.Asked || s.Executed != 2 || l.begins("cut@page=0") > 0 {
		t.Errorf("%+v", s)
	}
}

// A retry that waits for its GPUs, and is asked for again after it was not, has
// those of its first try.
func TestReconcileOnlyAndBackKeepsGPUs(t *testing.T) {
	const text = `pipeline: only
tasks:
  list: {out: Page<page>, exec: ["true"]}
  work: {in: {p: Page}, for: page, out: Done, exec: ["true", "{page}"], gpus: 1, retry: {times: 1, backoff: 0s}}
`
	p := newProject(t, text)
	l := p.start(engine.Options{Jobs: 4, GPUs: 2, Environ: []string{}})
	l.r.OK("list", "", `1`, `2`, `3`, `4`)
	l.r.Await("work", "page=0")
	l.r.Await("work", "page=1")
	gpus := l.r.Env("work", "page=1")
	if err := l.e.Pause(t.Context(), nil, false); err != nil {
		t.Fatal(err)
	}
	l.r.Fail("work", "page=1", body.KindExit, "no")
	await(t, "the attempt has failed", func() bool { return l.status("work").Running == 1 })
	l.ask(p, only("0", "2"))
	if s := l.status("work"); s.Waiting != 2 || s.Queued != 1 {
		t.Errorf("%+v", s)
	}
	if err := l.e.Resume(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	l.r.OK("work", "page=0", `1`)
	l.r.Await("work", "page=2")
	l.ask(p, engine.Options{})
	l.r.OK("work", "page=2", `1`)
	if got := l.r.Env("work", "page=1"); !slices.Equal(got, gpus) {
		t.Errorf("%v, and at first %v", got, gpus)
	}
	if attempt := l.r.OK("work", "page=1", `1`); attempt != 2 {
		t.Errorf("attempt %d", attempt)
	}
	l.r.OK("work", "page=3", `1`)
	if s := l.wait(); s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
}

// A run that is asked for less does not wait for attempts of tasks that it is not
// asked for any more, although what it is asked for can't be done.
func TestReconcileUntilForgetsRetries(t *testing.T) {
	const text = `pipeline: until
tasks:
  bad: {out: Bad, exec: ["true"]}
  rest: {in: Bad, out: Rest, exec: ["true"]}
  slow: {out: Slow, exec: ["true"], retry: {times: 1, backoff: 1h, jitter: 0}}
`
	p := newProject(t, text)
	l := p.start(engine.Options{Jobs: 3, KeepGoing: true})
	l.r.Await("bad", "")
	l.r.Fail("slow", "", body.KindExit, "waits an hour")
	await(t, "the attempt has failed", func() bool { return l.status("slow").Running == 0 })
	l.ask(p, engine.Options{Until: []string{"rest"}, KeepGoing: true})
	l.r.Fail("bad", "", body.KindExit, "no")
	select {
	case <-l.done:
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for an attempt that nobody asks for")
	}
	if s := l.wait(); s.State != engine.StateFailed || s.Failed != 1 {
		t.Errorf("%+v", s)
	}
}
