package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"operon/engine"
	"operon/engine/body"
	"operon/engine/ticket/reference"
	"operon/spec"
)

// reconcile edits the pipeline and gives it to the running engine. want is what
// becomes of each task: "a keep, b replace fingerprint".
func (l *live) reconcile(p *project, yaml, want string) *engine.Reconciled {
	l.t.Helper()
	p.edit(yaml)
	rec, err := l.e.Reconcile(l.t.Context(), p.load(), engine.Options{})
	if err != nil {
		l.t.Fatal(err)
	}
	var got []string
	for _, d := range rec.Tasks {
		got = append(got, strings.TrimSpace(d.Task+" "+d.Action+" "+d.Rule))
	}
	if text := strings.Join(got, ", "); text != want {
		l.t.Errorf("got %s\nwant %s", text, want)
	}
	return rec
}

// awaitDone waits until so many jobs of a task are done.
func (l *live) awaitDone(task string, jobs int64) {
	l.t.Helper()
	await(l.t, fmt.Sprintf("%d jobs of %s are done", jobs, task), func() bool { return l.status(task).Done == jobs })
}

const livePipeline = `pipeline: live
tasks:
  split: {out: Item<i>, exec: ["true"]}
  work: {in: Item, for: i, out: Done, exec: ["true"%s]%s}
  sum: {in: Done<i>, out: Sum, exec: ["true"%s]}
`

// What is kept goes on running, whatever becomes of what hangs on it.
func TestReconcileKeepsWhatRuns(t *testing.T) {
	for _, workers := range []int{1, 3} {
		p := newProject(t, fmt.Sprintf(livePipeline, "", "", ""))
		l := p.start(engine.Options{Jobs: 8, Workers: workers})
		l.r.OK("split", "", `1`, `2`, `3`)
		l.r.OK("work", "i=1", `2`)
		l.r.Await("work", "i=0")
		l.r.Await("work", "i=2")
		rec := l.reconcile(p, fmt.Sprintf(livePipeline, "", ", timeout: 1h, retry: 2", `, "edited"`)+
			"  extra: {in: Item, for: i, out: Extra, exec: [\"true\"]}\n",
			"split keep, work keep, sum replace fingerprint, extra create")
		if rec.Kept != 2 || rec.Replaced != 1 || rec.Created != 1 || rec.Dropped != 0 {
			t.Errorf("%+v", rec)
		}
		if got := l.r.Fail("work", "i=2", body.KindExit, "no"); got != 1 {
			t.Errorf("attempt %d: the job was begun anew", got)
		}
		if got := l.r.OK("work", "i=2", `3`); got != 2 {
			t.Errorf("attempt %d: the edited retry does not hold", got)
		}
		l.r.OK("work", "i=0", `1`)
		for i := range 3 {
			l.r.OK("extra", fmt.Sprintf("i=%d", i), `0`)
		}
		l.r.OK("sum", "", `6`)
		s := l.wait()
		if s.State != engine.StateComplete || s.Executed != 1+3+3+1 || len(s.Tasks) != 4 {
			t.Errorf("%+v", s)
		}
		if d := s.Dataflows; d.Kept != 2 || d.Created != 3+1 || d.Dropped != 0 || len(d.Replaced) != 1 || d.Replaced["fingerprint"] != 1 {
			t.Errorf("%+v", d)
		}
		p.deep("after a reconcile under way")
		if s := p.mustRun(engine.Options{}); s.Executed != 0 || s.Reused != 8 || s.Dataflows.Kept != 4 || len(s.Dataflows.Replaced) != 0 {
			t.Errorf("the next run: %+v", s)
		}
		p.edit(fmt.Sprintf(livePipeline, "", "", ""))
		if s := p.mustRun(engine.Options{}); s.Dataflows.Kept != 2 || s.Dataflows.Replaced["fingerprint"] != 1 || s.Dataflows.Dropped != 1 || s.Executed != 1 {
			t.Errorf("after the edit was undone: %+v", s)
		}
	}
}

// What is replaced while it runs is ended first; only then its successor starts,
// and takes what was done from the memo.
func TestReconcileReplacesWhatRuns(t *testing.T) {
	p := newProject(t, fmt.Sprintf(livePipeline, "", "", ""))
	l := p.start(engine.Options{Jobs: 2, Workers: 2})
	l.r.OK("split", "", `1`, `2`)
	l.r.OK("work", "i=0", `1`)
	l.awaitDone("work", 1)
	l.r.Await("work", "i=1")
	// A rendezvous fails the test if two of one name run at once.
	l.reconcile(p, fmt.Sprintf(livePipeline, `, "edited"`, "", ""), "split keep, work replace fingerprint, sum replace upstream")
	l.r.OK("work", "i=0", `10`)
	l.awaitDone("work", 1)
	l.r.Await("work", "i=1")
	l.reconcile(p, fmt.Sprintf(livePipeline, "", "", ""), "split keep, work replace fingerprint, sum replace upstream")
	l.r.OK("work", "i=1", `2`) // and i=0 comes from the memo
	l.r.OK("sum", "", `3`)
	s := l.wait()
	if s.State != engine.StateComplete || s.Reused != 1 || p.values("Done") != "i=0 1\ni=1 2\n" || !strings.HasSuffix(p.values("Sum"), "3\n") {
		t.Errorf("%+v %q", s, p.values("Done"))
	}
	p.deep("after two reconciles under way")
}

// A task that the pipeline has no more is dropped with what it runs, and comes
// back with what it had done.
func TestReconcileDropsAndTakesBack(t *testing.T) {
	whole := fmt.Sprintf(livePipeline, "", "", "") + "  side: {in: Item, for: i, out: Side, exec: [\"true\"]}\n"
	p := newProject(t, whole)
	l := p.start(engine.Options{Jobs: 8})
	l.r.OK("split", "", `1`, `2`)
	l.r.OK("side", "i=1", `"s"`)
	l.awaitDone("side", 1)
	l.r.Await("side", "i=0")
	l.r.Await("work", "i=1")
	l.reconcile(p, fmt.Sprintf(livePipeline, "", "", ""), "split keep, work keep, sum keep, side drop")
	l.reconcile(p, whole, "split keep, work keep, sum keep, side create")
	l.r.OK("side", "i=0", `"t"`)
	l.r.OK("work", "i=0", `1`)
	l.r.OK("work", "i=1", `2`)
	l.r.OK("sum", "", `3`)
	if s := l.wait(); s.State != engine.StateComplete || s.Reused != 1 || p.values("Side") != "i=0 \"t\"\ni=1 \"s\"\n" {
		t.Errorf("%+v %q", s, p.values("Side"))
	}
	p.deep("after a task went and came")
}

// A reconcile that can't be is refused, and nothing has changed.
func TestReconcileRefused(t *testing.T) {
	p := newProject(t, fmt.Sprintf(livePipeline, "", "", ""))
	l := p.start(engine.Options{Jobs: 2})
	l.r.OK("split", "", `1`)
	l.r.Await("work", "i=0")
	load := func(yaml string) *spec.Pipeline {
		p.edit(yaml)
		return p.load()
	}
	whole := fmt.Sprintf(livePipeline, "", "", "")
	var foreign *engine.ForeignError
	if _, err := l.e.Reconcile(t.Context(), load(strings.Replace(whole, "live", "other", 1)), engine.Options{}); !errors.As(err, &foreign) {
		t.Errorf("another pipeline: %v", err)
	}
	var unknown *engine.UnknownError
	if _, err := l.e.Reconcile(t.Context(), load(whole), engine.Options{Until: []string{"none"}}); !errors.As(err, &unknown) {
		t.Errorf("an unknown task: %v", err)
	}
	if err := l.e.Quit(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if _, err := l.e.Reconcile(t.Context(), load(whole), engine.Options{}); !errors.Is(err, engine.ErrNotRunning) {
		t.Errorf("a run that ends: %v", err)
	}
	l.r.OK("work", "i=0", `1`)
	l.wait()
	if _, err := l.e.Reconcile(t.Context(), load(whole), engine.Options{}); !errors.Is(err, engine.ErrNotRunning) {
		t.Errorf("a run that has ended: %v", err)
	}
}

// Until is what is asked for now: less than before, then more.
func TestReconcileChangesWhatIsAsked(t *testing.T) {
	whole := fmt.Sprintf(livePipeline, "", "", "")
	p := newProject(t, whole)
	l := p.start(engine.Options{Jobs: 2})
	l.r.OK("split", "", `1`)
	l.r.Await("work", "i=0")
	if _, err := l.e.Reconcile(t.Context(), p.load(), engine.Options{Until: []string{"split"}}); err != nil {
		t.Fatal(err)
	}
	l.r.OK("work", "i=0", `1`)
	s := l.wait()
	if s.State != engine.StateStopped || !s.Asked || s.Executed != 2 {
		t.Errorf("%+v", s)
	}
}

// However a drop meets the ends of the jobs, what aggregates over them never runs
// unless all of them had ended before.
func TestDropIsNeverACompletion(t *testing.T) {
	t.Parallel()
	for ended := range 4 { // jobs of three that have ended when the drop comes
		for _, workers := range []int{1, 2, 3} {
			p := newProject(t, fmt.Sprintf(livePipeline, "", "", "")+"  side: {in: Item, for: i, out: Side, exec: [\"true\"]}\n")
			l := p.start(engine.Options{Jobs: 8, Workers: workers})
			l.r.OK("split", "", `1`, `2`, `3`)
			for i := range 3 {
				l.r.Await("work", fmt.Sprintf("i=%d", i))
			}
			for i := range ended {
				l.r.OK("work", fmt.Sprintf("i=%d", i), `1`)
			}
			l.awaitDone("work", int64(ended))
			if ended == 3 {
				l.r.Await("sum", "")
			}
			err := l.e.Drop(t.Context(), []string{"work"})
			if (err == nil) != (ended < 3) {
				t.Errorf("%d ended: %v", ended, err)
			}
			for i := range 3 {
				l.r.OK("side", fmt.Sprintf("i=%d", i), `1`)
			}
			if ended == 3 {
				l.r.OK("sum", "", `3`)
			}
			s := l.wait()
			if ran := slices.Contains(l.r.Started(), "sum@"); ran != (ended == 3) {
				t.Errorf("%d ended: sum ran: %v", ended, ran)
			}
			if ended == 3 {
				continue
			}
			for _, ts := range s.Tasks {
				want := map[string]engine.DataflowState{"split": engine.DataflowComplete, "work": engine.DataflowDropped, "sum": engine.DataflowDropped, "side": engine.DataflowComplete}[ts.Task]
				if ts.DataflowState != want {
					t.Errorf("%d ended: %s is %s, want %s", ended, ts.Task, ts.DataflowState, want)
				}
			}
			if s.State != engine.StateStopped || s.Asked {
				t.Errorf("%+v", s)
			}
			p.deep("after a drop")
			next := p.start(engine.Options{Jobs: 8})
			for i := ended; i < 3; i++ {
				next.r.OK("work", fmt.Sprintf("i=%d", i), `1`)
			}
			next.r.OK("sum", "", `3`)
			if s := next.wait(); s.State != engine.StateComplete || s.Executed != int64(3-ended)+1 || s.Tasks[1].Dataflow == 2 {
				t.Errorf("%d ended, the next run: %+v", ended, s)
			}
			p.deep("after the run that follows a drop")
		}
	}
}

// slow is a body that takes its time.
type slow struct {
	body.Runner
	rng func() time.Duration
}

func (s slow) Run(ctx context.Context, slot *body.Slot, j *body.Job) (*body.Result, error) {
	select {
	case <-time.After(s.rng()):
	case <-ctx.Done():
		return nil, &body.Failure{Kind: body.KindCancelled, Message: "stopped"}
	}
	return s.Runner.Run(ctx, slot, j)
}

// However often a pipeline is edited while it runs, and whenever: the run ends
// with what a fresh run of the last version ends with.
func TestRandomEditsWhileItRuns(t *testing.T) {
	t.Parallel()
	n := 12
	if os.Getenv("OPERON_LONG") != "" {
		n = 60
	}
	reconciled, kept, replaced, created, dropped, late := 0, 0, 0, 0, 0, 0
	for seed := range uint64(n) {
		rng := rand.New(rand.NewPCG(seed, 47))
		e := edited{decl: reference.Random(rng, reference.Limits{Tasks: 7, Dims: 3}), salt: map[string]int{}}
		p := newProject(t, e.yaml())
		options := engine.Options{Dir: p.dir, Jobs: 1 + rng.IntN(4), Workers: 1 + rng.IntN(3), Bodies: func(task *spec.TaskSpec) (body.Runner, error) {
			return slow{salted{task}, func() time.Duration { return time.Duration(rand.IntN(12000)) * time.Microsecond }}, nil
		}}
		load := func() *spec.Pipeline {
			p.edit(e.yaml())
			return p.load()
		}
		var before []edited
		var story []string
		run := func() (*engine.Engine, chan *engine.Summary) {
			eng, err := engine.New(load(), options)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan *engine.Summary, 1)
			go func() {
				s, err := eng.Run(context.Background())
				if err != nil {
					t.Errorf("seed %d, after %v: %v", seed, story, err)
				}
				done <- s
			}()
			return eng, done
		}
		eng, done := run()
		for range 8 {
			time.Sleep(time.Duration(rng.IntN(8000)) * time.Microsecond)
			before = append(before, e.clone())
			story = append(story, e.edit(rng, before))
			rec, err := eng.Reconcile(t.Context(), load(), engine.Options{})
			if errors.Is(err, engine.ErrNotRunning) {
				late++
				<-done
				if err := eng.Close(); err != nil {
					t.Fatal(err)
				}
				eng, done = run()
				continue
			}
			if err != nil {
				t.Fatalf("seed %d, after %v: %v", seed, story, err)
			}
			reconciled++
			kept, replaced, created, dropped = kept+rec.Kept, replaced+rec.Replaced, created+rec.Created, dropped+rec.Dropped
		}
		s := <-done
		if err := eng.Close(); err != nil {
			t.Fatal(err)
		}
		if s == nil || s.State != engine.StateComplete {
			t.Fatalf("seed %d, after %v: %+v\n%s", seed, story, s, e.yaml())
		}
		fresh := newProject(t, e.yaml())
		runSalted(t, fresh)
		for _, d := range e.decl {
			if got, want := p.values(d.Out), fresh.values(d.Out); got != want {
				t.Errorf("%s is\n%swant\n%s", d.Out, got, want)
			}
		}
		p.deep(fmt.Sprintf("seed %d", seed))
		if t.Failed() {
			t.Fatalf("seed %d, after %v:\n%s", seed, story, e.yaml())
		}
	}
	t.Logf("%d reconciles under way (%d came after the end): %d kept, %d replaced, %d created, %d dropped; differences: 0", reconciled, late, kept, replaced, created, dropped)
}

// handing has a worker that answers with its process id, a job at a time; the second
// waits for the file go.
const handing = `pipeline: handing
tasks:
  docs: {out: Doc<doc>, source: {count: 3}}
  gate: {in: {n: Doc}, for: doc, out: Gate, run: 'test "$n" = 0 || while ! test -e go; do sleep 0.01; done; echo "$n"'}
  serve:
    in: Gate
    for: doc
    out: Served
    pool: 1
    retry: %d
    worker: [sh, -c, 'i=0; while read -r line; do i=$((i+1)); echo "{\"id\":$i,\"value\":$$}"; done']
`

// The process of a worker that is kept goes on, with all that it has loaded.
func TestReconcileKeepsProcesses(t *testing.T) {
	for _, workers := range []int{1, 2} {
		p := newProject(t, fmt.Sprintf(handing, 0))
		l := p.begin(p.load(), engine.Options{Jobs: 4, Workers: workers})
		l.awaitDone("serve", 1)
		for n := range 3 {
			l.reconcile(p, fmt.Sprintf(handing, n+1), "docs keep, gate keep, serve keep")
		}
		p.write("go", "")
		if s := l.wait(); s.State != engine.StateComplete {
			t.Errorf("%+v", s)
		}
		pids := map[string]bool{}
		for _, line := range strings.Split(strings.TrimSpace(p.values("Served")), "\n") {
			pids[line[strings.Index(line, " "):]] = true
		}
		if len(pids) > workers {
			t.Errorf("%d workers: %d processes: %v", workers, len(pids), pids)
		}
	}
}

// An edit that only reorders inputs keeps the dataflow; each argument stays what
// it was, also in slices that jobs share.
func TestReconcileReordersInputs(t *testing.T) {
	text := func(in string) string {
		return `pipeline: order
tasks:
  gates: {out: Gate<i>, source: {count: 3}}
  x: {out: X, run: echo x}
  list: {out: Y<j>, source: {values: [y, z]}}
  hold: {in: {g: Gate}, for: i, out: Held, run: 'test "$g" = 0 || while ! test -e go; do sleep 0.01; done; echo "$g"'}
  join: {in: {` + in + `}, for: i, out: Join, run: 'echo "$g $p $(cat)"', stdin: y}
  same: {in: {` + in + `}, for: i, out: Same, jq: '[.g, .p, (.y | join("+"))] | join(" ")'}
`
	}
	p := newProject(t, text("g: Held, p: X, y: Y<j>"))
	l := p.begin(p.load(), engine.Options{Jobs: 4})
	l.awaitDone("same", 1)
	l.reconcile(p, text("y: Y<j>, g: Held, p: X"), "gates keep, x keep, list keep, hold keep, join keep, same keep")
	p.write("go", "")
	if s := l.wait(); s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
	if got, want := p.values("Same"), "i=0 \"0 x y+z\"\ni=1 \"1 x y+z\"\ni=2 \"2 x y+z\"\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	p.deep("after inputs were reordered")
	fresh := newProject(t, text("y: Y<j>, g: Held, p: X"))
	fresh.write("go", "")
	fresh.mustRun(engine.Options{})
	if got, want := p.values("Join"), fresh.values("Join"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// What a person has set while it runs holds for what an edit makes of it.
func TestReconcileKeepsWhatWasSet(t *testing.T) {
	p := newProject(t, fmt.Sprintf(livePipeline, "", ", pool: 1", ""))
	l := p.start(engine.Options{Jobs: 8})
	l.r.OK("split", "", `1`, `2`, `3`)
	l.r.Await("work", "i=0")
	if err := l.e.SetPool(t.Context(), "work", 2); err != nil {
		t.Fatal(err)
	}
	l.r.Await("work", "i=1")
	if err := l.e.Pause(t.Context(), []string{"sum"}, false); err != nil {
		t.Fatal(err)
	}
	l.reconcile(p, fmt.Sprintf(livePipeline, `, "edited"`, ", pool: 1", ""), "split keep, work replace fingerprint, sum replace upstream")
	l.r.Await("work", "i=0")
	l.r.Await("work", "i=1")
	for i := range 3 {
		l.r.OK("work", fmt.Sprintf("i=%d", i), `1`)
	}
	l.awaitDone("work", 3)
	if s := l.status("sum"); !s.Paused || s.Running > 0 {
		t.Errorf("%+v", s)
	}
	if err := l.e.Resume(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	l.r.OK("sum", "", `3`)
	if s := l.wait(); s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
}

// What was done for dataflows that are no more counts, too: of what it has counted,
// nothing is taken back at the end.
func TestReconcileTotals(t *testing.T) {
	p := newProject(t, fmt.Sprintf(livePipeline, "", ", on_error: continue", "")+"  side: {out: Side, exec: [\"true\"]}\n")
	l := p.start(engine.Options{Jobs: 8})
	l.r.OK("split", "", `1`, `2`, `3`)
	l.r.OK("side", "", `0`)
	l.r.OK("work", "i=0", `1`)
	l.r.Fail("work", "i=1", body.KindExit, "no")
	l.r.Await("work", "i=2")
	await(t, "one has failed", func() bool { return l.status("work").Failed == 1 })
	l.awaitDone("side", 1)
	l.reconcile(p, fmt.Sprintf(livePipeline, `, "edited"`, "", ""), "split keep, work replace fingerprint, sum replace upstream, side drop")
	for i := range 3 {
		l.r.OK("work", fmt.Sprintf("i=%d", i), `1`)
	}
	l.awaitDone("work", 3)
	l.r.Await("sum", "")
	m, err := l.e.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.r.OK("sum", "", `3`)
	s := l.wait()
	want := map[string]engine.JobTotals{"split": {Executed: 1}, "work": {Executed: 4, Failed: 1}, "sum": {Executed: 1}, "side": {Executed: 1}}
	if !maps.Equal(s.Totals, want) {
		t.Errorf("%+v", s.Totals)
	}
	if m.Executed["work"] != 4 || m.Executed["side"] != 1 || m.Failed["work"] != 1 {
		t.Errorf("%+v", m)
	}
}

// A run that is paused as a whole stays so, whatever is made of it.
func TestReconcileOfAPausedRun(t *testing.T) {
	p := newProject(t, fmt.Sprintf(livePipeline, "", "", ""))
	l := p.start(engine.Options{Jobs: 8})
	l.r.OK("split", "", `1`)
	l.r.Await("work", "i=0")
	if err := l.e.Pause(t.Context(), nil, false); err != nil {
		t.Fatal(err)
	}
	l.r.OK("work", "i=0", `1`)
	l.awaitDone("work", 1)
	l.reconcile(p, fmt.Sprintf(livePipeline, "", "", "")+"  side: {in: Item, for: i, out: Side, exec: [\"true\"]}\n",
		"split keep, work keep, sum keep, side create")
	if s := l.status("side"); !s.Paused {
		t.Errorf("%+v", s)
	}
	if err := l.e.Resume(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	l.r.OK("side", "i=0", `1`)
	l.r.OK("sum", "", `1`)
	l.wait()
}

// A task that was paused, went, and came back is still paused.
func TestReconcileTakesBackWhatWasPaused(t *testing.T) {
	whole := fmt.Sprintf(livePipeline, "", "", "") + "  side: {in: Item, for: i, out: Side, exec: [\"true\"]}\n"
	p := newProject(t, whole)
	l := p.start(engine.Options{Jobs: 8})
	if err := l.e.Pause(t.Context(), []string{"side"}, false); err != nil {
		t.Fatal(err)
	}
	l.r.OK("split", "", `1`)
	l.r.Await("work", "i=0")
	l.reconcile(p, fmt.Sprintf(livePipeline, "", "", ""), "split keep, work keep, sum keep, side drop")
	l.reconcile(p, whole, "split keep, work keep, sum keep, side create")
	if s := l.status("side"); !s.Paused {
		t.Errorf("%+v", s)
	}
	if err := l.e.Resume(t.Context(), []string{"side"}); err != nil {
		t.Fatal(err)
	}
	l.r.OK("side", "i=0", `1`)
	l.r.OK("work", "i=0", `1`)
	l.r.OK("sum", "", `1`)
	l.wait()
}
