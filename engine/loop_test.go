package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"operon/engine"
	"operon/engine/body"
	"operon/engine/enginetest"
	"operon/spec"
)

// live is an engine under way, with its rendezvous.
type live struct {
	t    *testing.T
	e    *engine.Engine
	r    *enginetest.Rendezvous
	stop context.CancelFunc
	done chan struct{}
	sum  *engine.Summary
	err  error
}

// start runs the project's pipeline with bodies that the test ends.
func (p *project) start(o engine.Options) *live {
	p.t.Helper()
	return p.startWith(o, func(b bodies) bodies { return b })
}

// bodies makes the bodies of tasks.
type bodies func(*spec.TaskSpec) (body.Runner, error)

// startWith is start with something around the bodies.
func (p *project) startWith(o engine.Options, around func(bodies) bodies) *live {
	return p.startOf(o, func(r *enginetest.Rendezvous, _ *spec.Pipeline) bodies { return around(r.Body) })
}

// startOf is start with bodies made for the pipeline.
func (p *project) startOf(o engine.Options, around func(*enginetest.Rendezvous, *spec.Pipeline) bodies) *live {
	p.t.Helper()
	pl, r := p.load(), enginetest.New(p.t)
	o.Bodies = around(r, pl)
	l := p.begin(pl, o)
	l.r = r
	return l
}

// load loads the project's pipeline as it is now.
func (p *project) load() *spec.Pipeline {
	p.t.Helper()
	pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return pl
}

// begin begins to run a pipeline in the project's folder.
func (p *project) begin(pl *spec.Pipeline, o engine.Options) *live {
	t := p.t.(*testing.T)
	t.Helper()
	l := &live{t: t, done: make(chan struct{})}
	o.Dir = p.dir
	var err error
	if l.e, err = engine.New(pl, o); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, l.stop = context.WithCancel(t.Context())
	go func() {
		defer close(l.done)
		l.sum, l.err = l.e.Run(ctx)
	}()
	return l
}

// wait waits for the end and gives the state back.
func (l *live) wait() *engine.Summary {
	l.t.Helper()
	if l.t.Failed() {
		l.stop() // what it waits for may never come
	}
	<-l.done
	if err := l.e.Close(); err != nil {
		l.t.Fatal(err)
	}
	if l.err != nil {
		l.t.Fatal(l.err)
	}
	return l.sum
}

func (l *live) status(task string) engine.TaskStatus {
	l.t.Helper()
	s, err := l.e.Status(context.Background())
	if err != nil {
		l.t.Fatal(err)
	}
	for _, ts := range s.Tasks {
		if ts.Task == task {
			return ts
		}
	}
	l.t.Fatalf("no task %s", task)
	return engine.TaskStatus{}
}

const fan = `pipeline: fan
tasks:
  split:
    out: Item<i>
    exec: ["true"]
  work:
    in: Item
    for: i
    out: Done
    exec: ["true"]
    %s
  sum:
    in: Done<i>
    out: Sum
    exec: ["true"]
`

func fanProject(t *testing.T, extra string) *project {
	return newProject(t, fmt.Sprintf(fan, extra))
}

func TestDownstreamDoesNotWaitForSiblings(t *testing.T) {
	p := newProject(t, `pipeline: p
tasks:
  a: {out: A<i>, exec: ["true"]}
  b: {in: A, for: i, out: B, exec: ["true"]}
  c: {in: B, for: i, out: C, exec: ["true"]}
`)
	l := p.start(engine.Options{Jobs: 2})
	l.r.OK("a", "", `0`, `1`, `2`)
	l.r.Await("b", "i=0") // takes for ever
	l.r.OK("b", "i=1", `1`)
	l.r.OK("b", "i=2", `2`)
	l.r.OK("c", "i=1", `1`)
	l.r.OK("c", "i=2", `2`)
	l.r.OK("b", "i=0", `0`)
	l.r.OK("c", "i=0", `0`)
	if s := l.wait(); s.State != engine.StateComplete || s.Executed != 7 {
		t.Errorf("%+v", s)
	}
}

func TestPoolAndJobsBoundWhatRunsAtOnce(t *testing.T) {
	for _, c := range []struct {
		extra      string
		jobs, most int
	}{{"pool: 2", 8, 2}, {"pool: 1", 4, 1}, {"", 3, 3}} {
		p := fanProject(t, c.extra)
		l := p.start(engine.Options{Jobs: c.jobs})
		l.r.OK("split", "", `0`, `1`, `2`, `3`, `4`)
		for i := range 5 {
			l.r.OK("work", fmt.Sprintf("i=%d", i), `1`)
		}
		l.r.OK("sum", "", `5`)
		l.wait()
		if got := l.r.Most("work"); got > c.most {
			t.Errorf("%q -j %d: %d ran at once, want at most %d", c.extra, c.jobs, got, c.most)
		}
	}
}

func TestOrder(t *testing.T) {
	for extra, want := range map[string]string{
		"":           "0 1 2 3",
		"order: -i":  "3 2 1 0",
		"order: [i]": "0 1 2 3",
	} {
		p := fanProject(t, "pool: 1\n    "+extra)
		l := p.start(engine.Options{Jobs: 4})
		l.r.OK("split", "", `0`, `1`, `2`, `3`)
		for _, i := range strings.Fields(want) {
			l.r.OK("work", "i="+i, `1`)
		}
		l.r.OK("sum", "", `5`)
		l.wait()
		var got []string
		for _, name := range l.r.Started() {
			if c, ok := strings.CutPrefix(name, "work@i="); ok {
				got = append(got, c)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %s", extra, got, want)
		}
	}
}

func TestAFailedJobStopsTheRun(t *testing.T) {
	p := fanProject(t, "")
	l := p.start(engine.Options{Jobs: 2})
	l.r.OK("split", "", `0`, `1`, `2`, `3`)
	l.r.Await("work", "i=0")
	l.r.Await("work", "i=1")
	l.r.Fail("work", "i=0", body.KindExit, "exit status 1")
	for l.status("work").Failed == 0 {
	}
	l.r.OK("work", "i=1", `1`) // was running: it finishes
	s := l.wait()
	if s.State != engine.StateFailed || s.Failed != 1 || s.Executed != 2 || s.Blocked != 1 {
		t.Errorf("%+v", s)
	}
	if total := s.Executed + s.Reused + s.Failed + s.Blocked + s.Holes + s.Tasks[1].Waiting; total != 6 {
		t.Errorf("the counts add up to %d of 6: %+v", total, s)
	}
	// The next run tries the failed job again, and nothing that was done.
	l = p.start(engine.Options{Jobs: 2})
	if attempt := l.r.OK("work", "i=0", `0`); attempt != 1 {
		t.Errorf("attempt %d, want a full count of retries", attempt)
	}
	l.r.OK("work", "i=2", `2`)
	l.r.OK("work", "i=3", `3`)
	l.r.OK("sum", "", `6`)
	if s := l.wait(); s.State != engine.StateComplete || s.Executed != 4 || s.Reused != 2 {
		t.Errorf("%+v", s)
	}
}

func TestKeepGoingRunsWhatDoesNotNeedTheFailedJob(t *testing.T) {
	p := newProject(t, `pipeline: p
tasks:
  a: {out: A<i>, exec: ["true"]}
  b: {in: A, for: i, out: B, exec: ["true"]}
  c: {in: B, for: i, out: C, exec: ["true"]}
  d: {in: C<i>, out: D, exec: ["true"]}
`)
	l := p.start(engine.Options{Jobs: 1, KeepGoing: true})
	l.r.OK("a", "", `0`, `1`)
	l.r.Fail("b", "i=0", body.KindExit, "exit status 1")
	l.r.OK("b", "i=1", `1`)
	l.r.OK("c", "i=1", `1`)
	s := l.wait()
	if s.State != engine.StateFailed || s.Executed != 3 || s.Failed != 1 || s.Blocked != 2 || s.Asked {
		t.Errorf("%+v", s)
	}
	if len(s.Failures) != 1 || s.Failures[0].Jobs != 1 || s.Failures[0].Task != "b" {
		t.Errorf("%+v", s.Failures)
	}
}

func TestRetries(t *testing.T) {
	p := fanProject(t, "retry: {times: 2, backoff: 1ms}")
	l := p.start(engine.Options{Jobs: 1})
	l.r.OK("split", "", `0`)
	for want := 1; want <= 2; want++ {
		if got := l.r.Fail("work", "i=0", body.KindExit, "exit status 1"); got != want {
			t.Errorf("attempt %d, want %d", got, want)
		}
	}
	if got := l.r.OK("work", "i=0", `1`); got != 3 {
		t.Errorf("attempt %d, want 3", got)
	}
	l.r.OK("sum", "", `1`)
	if s := l.wait(); s.State != engine.StateComplete || s.Executed != 3 {
		t.Errorf("%+v", s)
	}
	// Only the kinds that the task names are tried again.
	p = fanProject(t, "retry: {times: 2, backoff: 1ms, on: [timeout]}")
	l = p.start(engine.Options{Jobs: 1})
	l.r.OK("split", "", `0`)
	l.r.Fail("work", "i=0", body.KindExit, "exit status 1")
	if s := l.wait(); s.Failed != 1 {
		t.Errorf("%+v", s)
	}
}

func TestUntilRunsWhatIsAskedForAlone(t *testing.T) {
	p := fanProject(t, "")
	l := p.start(engine.Options{Jobs: 2, Until: []string{"work"}})
	l.r.OK("split", "", `0`, `1`)
	l.r.OK("work", "i=0", `0`)
	l.r.OK("work", "i=1", `1`)
	s := l.wait()
	if s.State != engine.StateStopped || !s.Asked || s.Executed != 3 {
		t.Errorf("%+v", s)
	}
	l = p.start(engine.Options{})
	l.r.OK("sum", "", `1`)
	if s := l.wait(); s.State != engine.StateComplete || s.Executed != 1 || s.Reused != 3 {
		t.Errorf("%+v", s)
	}
}

func TestQuitLetsRunningJobsFinishAndResumes(t *testing.T) {
	p := fanProject(t, "")
	l := p.start(engine.Options{Jobs: 2})
	l.r.OK("split", "", `0`, `1`, `2`)
	l.r.Await("work", "i=0")
	l.r.Await("work", "i=1")
	if err := l.e.Quit(context.Background(), false); err != nil {
		t.Fatal(err)
	}
	l.r.OK("work", "i=0", `0`)
	l.r.OK("work", "i=1", `1`)
	s := l.wait()
	if s.State != engine.StateStopped || s.Asked || s.Executed != 3 {
		t.Errorf("%+v", s)
	}
	l = p.start(engine.Options{Jobs: 2})
	l.r.OK("work", "i=2", `2`)
	l.r.OK("sum", "", `3`)
	if s := l.wait(); s.State != engine.StateComplete || s.Executed != 2 || s.Reused != 3 {
		t.Errorf("%+v", s)
	}
}

func TestForcedQuitEndsRunningJobsAtOnce(t *testing.T) {
	p := fanProject(t, "retry: 3")
	l := p.start(engine.Options{Jobs: 2})
	l.r.OK("split", "", `0`, `1`, `2`)
	l.r.Await("work", "i=0")
	l.r.OK("work", "i=1", `1`)
	l.r.Await("work", "i=2")
	if err := l.e.Quit(context.Background(), true); err != nil {
		t.Fatal(err)
	}
	s := l.wait() // nobody ended work 0 and 2
	if s.State != engine.StateStopped || s.Executed != 2 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

func TestPauseAndResume(t *testing.T) {
	ctx := context.Background()
	p := fanProject(t, "")
	l := p.start(engine.Options{Jobs: 2})
	l.r.Await("split", "")
	if err := l.e.Pause(ctx, []string{"work"}, false); err != nil {
		t.Fatal(err)
	}
	l.r.OK("split", "", `0`, `1`)
	for l.status("work").Queued != 2 {
	}
	st, err := l.e.Status(ctx)
	if err != nil || st.State != engine.StatePaused {
		t.Errorf("%+v %v", st, err)
	}
	if running := l.r.Running(); len(running) > 0 {
		t.Errorf("%v runs", running)
	}
	var unknown *engine.UnknownError
	if err := l.e.Pause(ctx, []string{"wrok"}, false); !errors.As(err, &unknown) || unknown.Nearest != "work" {
		t.Errorf("%v", err)
	}
	if err := l.e.Resume(ctx, nil); err != nil {
		t.Fatal(err)
	}
	l.r.OK("work", "i=0", `0`)
	if err := l.e.Pause(ctx, []string{"sum"}, true); err != nil {
		t.Fatal(err)
	}
	if !l.status("work").Paused || !l.status("split").Paused {
		t.Error("cascade left out what sum needs")
	}
	if err := l.e.Resume(ctx, []string{"work", "sum"}); err != nil {
		t.Fatal(err)
	}
	l.r.OK("work", "i=1", `1`)
	l.r.OK("sum", "", `1`)
	l.wait()
}

func TestASecondEngineIsRefused(t *testing.T) {
	p := fanProject(t, "")
	l := p.start(engine.Options{Socket: "/run/x.sock"})
	l.r.Await("split", "")
	var used *engine.InUseError
	if _, err := p.run(engine.Options{}); !errors.As(err, &used) || used.Socket != "/run/x.sock" || !strings.Contains(used.Owner, "process ") {
		t.Errorf("%v", err)
	}
	l.r.OK("split", "")
	l.r.OK("sum", "", `0`)
	if s := l.wait(); s.State != engine.StateComplete || s.Executed != 2 {
		t.Errorf("empty list: %+v", s)
	}
}

func TestAnEditRunsWhatChangedAndWhatNeedsIt(t *testing.T) {
	p := newProject(t, splitter)
	p.mustRun(engine.Options{})
	words := p.values("Word")
	p.edit(strings.Replace(splitter, "grep -o .", "grep -o '[a-z]'", 1))
	s := p.mustRun(engine.Options{})
	if s.Executed != 6 || s.Reused != 4 {
		t.Errorf("executed %d, reused %d; want get_chars and tally alone", s.Executed, s.Reused)
	}
	if p.values("Word") != words {
		t.Error("words changed")
	}
	// Formatting, comments, pools, order of the tasks: nothing runs.
	p.edit("# a comment\n" + strings.Replace(strings.Replace(splitter, "grep -o .", "grep -o '[a-z]'", 1), "    for: input_no\n", "    for: [ input_no ]\n    pool: 3\n", 1))
	if s := p.mustRun(engine.Options{}); s.Executed != 0 {
		t.Errorf("executed %d after a change of nothing", s.Executed)
	}
	// A task under another name makes what it made.
	p.edit(strings.Replace(strings.Replace(splitter, "grep -o .", "grep -o '[a-z]'", 1), "  tally:", "  total:", 1))
	if s := p.mustRun(engine.Options{}); s.Executed != 0 || s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
}

func TestEventsTellTheStory(t *testing.T) {
	var kinds []string
	p := newProject(t, splitter)
	p.mustRun(engine.Options{Events: func(e engine.Event) {
		switch e.Kind {
		case engine.EventRun:
			kinds = append(kinds, "run:"+string(e.State))
		case engine.EventTask:
			kinds = append(kinds, e.Task.Task+":"+string(e.Task.DataflowState))
		}
	}})
	for _, want := range []string{"run:running", "get_words:running", "get_words:complete", "tally:complete", "run:complete"} {
		if !slices.Contains(kinds, want) {
			t.Errorf("%q is missing in %v", want, kinds)
		}
	}
	if last := kinds[len(kinds)-1]; last != "run:complete" {
		t.Errorf("the last is %s", last)
	}
}
