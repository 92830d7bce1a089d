package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"operon/engine"
	"operon/engine/body"
	"operon/spec"
	"operon/spec/value"
)

const twoYAML = `pipeline: two
pools:
  api: %s
tasks:
  items: {out: Item<i>, exec: ["true"]}
  ask: {in: Item, for: i, out: Answer, exec: ["true"], pool: api}
  rate: {in: Item, for: i, out: Rating, exec: ["true"], pool: api}
`

func TestASharedPoolBoundsAllItsTasks(t *testing.T) {
	p := newProject(t, fmt.Sprintf(twoYAML, "2"))
	l := p.start(engine.Options{Jobs: 8})
	l.r.OK("items", "", `0`, `1`, `2`)
	for _, task := range []string{"ask", "rate"} {
		for i := range 3 {
			l.r.Await(task, fmt.Sprintf("i=%d", i))
			if n := len(l.r.Running()); n > 2 {
				t.Errorf("%d jobs run in a pool of 2", n)
			}
			l.r.OK(task, fmt.Sprintf("i=%d", i), `1`)
		}
	}
	if s := l.wait(); s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
}

func TestPoolsChangeWhileRunning(t *testing.T) {
	ctx := t.Context()
	p := newProject(t, fmt.Sprintf(twoYAML, "1"))
	l := p.start(engine.Options{Jobs: 8})
	l.r.OK("items", "", `0`, `1`, `2`)
	l.r.Await("ask", "i=0")
	var unknown *engine.UnknownError
	if err := l.e.SetPool(ctx, "apo", 3); !errors.As(err, &unknown) || unknown.Nearest != "api" {
		t.Errorf("%v", err)
	}
	if err := l.e.SetPool(ctx, "api", 0); err == nil {
		t.Error("a pool of none was taken")
	}
	if err := l.e.SetPool(ctx, "ask", 2); err != nil {
		t.Fatal(err)
	}
	if err := l.e.SetPool(ctx, "api", 4); err != nil {
		t.Fatal(err)
	}
	l.r.Await("ask", "i=1")
	l.r.Await("rate", "i=0")
	l.r.Await("rate", "i=1")
	if got, want := l.r.Running(), []string{"ask@i=0", "ask@i=1", "rate@i=0", "rate@i=1"}; !slices.Equal(got, want) {
		t.Errorf("running: %v", got)
	}
	for i := range 3 {
		l.r.OK("ask", fmt.Sprintf("i=%d", i), `1`)
		l.r.OK("rate", fmt.Sprintf("i=%d", i), `1`)
	}
	l.wait()
	if l.r.Most("ask") > 2 {
		t.Error("the task's own bound does not hold")
	}
}

func TestJobsStartOnlyWhereTheyFit(t *testing.T) {
	p := newProject(t, `pipeline: fit
tasks:
  items: {out: Item<i>, exec: ["true"]}
  train: {in: Item, for: i, out: Model, exec: ["true"], gpus: 2, mem: 3G, cpus: 0.5}
  small: {in: Item, for: i, out: Small, exec: ["true"], gpus: 1}
`)
	l := p.start(engine.Options{Jobs: 8, CPUs: 2, Mem: 4 << 30, GPUs: 3, Environ: []string{"PATH=/bin"}})
	l.r.OK("items", "", `0`, `1`)
	if env := l.r.Env("train", "i=0"); !slices.Equal(env, []string{"CUDA_VISIBLE_DEVICES=0,1"}) {
		t.Errorf("train has %v", env)
	}
	if env := l.r.Env("small", "i=0"); !slices.Equal(env, []string{"CUDA_VISIBLE_DEVICES=2"}) {
		t.Errorf("small has %v", env)
	}
	if got := l.r.Running(); len(got) != 2 {
		t.Errorf("running: %v", got)
	}
	l.r.OK("train", "i=0", `0`)
	// Memory is free again, and two GPUs: the second training has them.
	if env := l.r.Env("train", "i=1"); !slices.Equal(env, []string{"CUDA_VISIBLE_DEVICES=0,1"}) {
		t.Errorf("train has %v", env)
	}
	l.r.OK("small", "i=0", `0`)
	l.r.OK("small", "i=1", `0`)
	l.r.OK("train", "i=1", `0`)
	if s := l.wait(); s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
}

func TestWhatCanNeverFitIsAnErrorBeforeAnyJob(t *testing.T) {
	p := newProject(t, `pipeline: fit
tasks:
  items: {out: Item<i>, exec: ["true"]}
  train: {in: Item, for: i, out: Model, exec: ["true"], gpus: 2, mem: 3G, cpus: 4}
`)
	_, err := p.run(engine.Options{CPUs: 2, Mem: 1 << 30, GPUs: -1})
	var never *engine.ResourcesError
	if !errors.As(err, &never) || len(never.Faults) != 3 || !strings.Contains(err.Error(), "task train needs memory of 3G, and there is 1G; --mem sets what there is") {
		t.Fatalf("%v", err)
	}
	// What nobody asked for does not matter.
	l := p.start(engine.Options{CPUs: 2, Mem: 1 << 30, GPUs: -1, Until: []string{"items"}})
	l.r.OK("items", "")
	l.wait()
	// The list that this process was given is what there is to hand out.
	l = p.start(engine.Options{CPUs: 8, Mem: 4 << 30, Environ: []string{"CUDA_VISIBLE_DEVICES=5,7,9"}, Fresh: true})
	l.r.OK("items", "", `0`)
	if env := l.r.Env("train", "i=0"); !slices.Equal(env, []string{"CUDA_VISIBLE_DEVICES=5,7"}) {
		t.Errorf("train has %v", env)
	}
	l.r.OK("train", "i=0", `0`)
	l.wait()
	if _, err := p.run(engine.Options{GPUs: 4, Environ: []string{"CUDA_VISIBLE_DEVICES=5,7,9"}}); !errors.As(err, &never) {
		t.Errorf("%v", err)
	}
}

// calls is a body that counts calls, and when they came.
type calls struct {
	mu    sync.Mutex
	at    []time.Time
	count map[string]int
	task  func(t *spec.TaskSpec, j *body.Job, call int) (*body.Result, error)
}

type caller struct {
	*calls
	t *spec.TaskSpec
}

func (c caller) Run(ctx context.Context, _ *body.Slot, j *body.Job) (*body.Result, error) {
	c.mu.Lock()
	name := c.t.Name + "@" + j.Coord.Format(c.t.ContextNames())
	c.count[name]++
	call := c.count[name]
	if c.t.SharedPool != nil {
		c.at = append(c.at, time.Now())
	}
	c.mu.Unlock()
	if ctx.Err() != nil {
		return nil, &body.Failure{Kind: body.KindCancelled, Message: "stopped"}
	}
	return c.task(c.t, j, call)
}

func (c *calls) Body(t *spec.TaskSpec) (body.Runner, error) { return caller{c, t}, nil }

// Five thousand documents: one in a hundred fails for good and becomes a hole,
// one in ten is told to come again later, in a pool with a rate that two tasks
// share. Every call, retry and hole is counted.
func TestFiveThousandDocuments(t *testing.T) {
	t.Parallel()
	const docs, rate = 5000, 20_000
	p := newProject(t, fmt.Sprintf(`pipeline: docs
pools:
  api: {size: 16, rate: %d/s}
tasks:
  list: {source: {count: %d}, out: Page<doc>}
  ask:
    in: Page
    for: doc
    out: Answer
    exec: [ask, "{doc}"]
    pool: api
    on_error: hole
    retry: {times: 3, backoff: 1ms, on: [timeout]}
  judge:
    in: Answer
    for: doc
    out: Verdict
    exec: [judge, "{doc}"]
    pool: api
  sum:
    in: {verdicts: {from: Verdict<doc>, holes: null}}
    out: Sum
    exec: [sum]
`, rate, docs))
	poison := func(doc uint32) bool { return doc%100 == 37 }
	later := func(doc uint32) bool { return doc%10 == 3 }
	yes := true
	c := &calls{count: map[string]int{}}
	nulls := 0
	c.task = func(t *spec.TaskSpec, j *body.Job, call int) (*body.Result, error) {
		res := &body.Result{Usage: body.Usage{Start: time.Now()}}
		switch {
		case t.Name == "ask" && poison(j.Coord.At(0)):
			return nil, &body.Failure{Kind: body.KindExit, Exit: 1, Message: "exit status 1"}
		case t.Name == "ask" && later(j.Coord.At(0)) && call <= 2:
			return nil, &body.Failure{Kind: body.KindExit, Exit: 75, Message: "exit status 75", Retryable: &yes, RetryAfter: time.Duration(call) * time.Millisecond}
		case t.Name == "list":
			for i := range docs {
				res.Items = append(res.Items, value.FromText(fmt.Sprint("doc ", i)))
			}
			return res, nil
		case t.Name == "sum":
			for _, v := range j.Args[0].Slice.Items {
				if v.Kind == value.Hole {
					nulls++
				}
			}
		}
		res.Items = []value.Value{value.FromText(fmt.Sprint(t.Name, j.Coord.Indices()))}
		return res, nil
	}
	s := p.mustRun(engine.Options{Jobs: 16, Bodies: c.Body})
	poisoned, asked := 0, 0
	for doc := range uint32(docs) {
		want, wantJudge := 1, 1
		switch {
		case poison(doc):
			poisoned++
			wantJudge = 0
		case later(doc):
			want = 3
		}
		asked += want + wantJudge
		at := fmt.Sprintf("@doc=%d", doc)
		if c.count["ask"+at] != want || c.count["judge"+at] != wantJudge {
			t.Fatalf("doc %d: asked %d times, judged %d times; want %d and %d", doc, c.count["ask"+at], c.count["judge"+at], want, wantJudge)
		}
	}
	if len(c.at) != asked {
		t.Errorf("%d calls, want %d", len(c.at), asked)
	}
	if s.State != engine.StateComplete || s.Holes != int64(2*poisoned) || s.Executed != int64(2*docs-2*poisoned+2) || nulls != poisoned {
		t.Errorf("%d poisoned, %d nulls: %+v", poisoned, nulls, s)
	}
	if len(s.Failures) != 1 || s.Failures[0].Jobs != int64(poisoned) || !s.Failures[0].Hole {
		t.Errorf("%+v", s.Failures)
	}
	// What the bucket let through took at least as long as its rate says.
	slices.SortFunc(c.at, time.Time.Compare)
	if took, least := c.at[len(c.at)-1].Sub(c.at[0]), time.Duration(len(c.at)-300)*time.Second/rate; took < least {
		t.Errorf("%d calls in %v: faster than %d a second", len(c.at), took, rate)
	}
}

// A job that asks to be tried again is, whatever the task's retry is about, and
// not before its time; one that says it is of no use is not.
func TestWhatABodySaysOfItsRetry(t *testing.T) {
	p := fanProject(t, "retry: {times: 2, backoff: 1ms, on: [timeout]}")
	l := p.start(engine.Options{Jobs: 1})
	l.r.OK("split", "", `0`)
	yes, no := true, false
	start := time.Now()
	after := 30 * time.Millisecond
	l.r.FailWith("work", "i=0", body.Failure{Kind: body.KindExit, Exit: 75, Message: "exit status 75", Retryable: &yes, RetryAfter: after})
	if attempt := l.r.FailWith("work", "i=0", body.Failure{Kind: body.KindTimeout, Message: "too long", Retryable: &no}); attempt != 2 {
		t.Errorf("attempt %d, want 2", attempt)
	}
	if took := time.Since(start); took < after {
		t.Errorf("the second attempt came after %v, not %v", took, after)
	}
	if s := l.wait(); s.Failed != 1 {
		t.Errorf("%+v", s)
	}
}

// What a job ran on may go: it is another's fault, and costs no attempt.
func TestALostJobRunsAgain(t *testing.T) {
	p := fanProject(t, "")
	l := p.start(engine.Options{Jobs: 1})
	l.r.OK("split", "", `0`)
	for range 3 {
		if attempt := l.r.Fail("work", "i=0", body.KindLost, "the machine went away"); attempt != 1 {
			t.Errorf("attempt %d, want 1", attempt)
		}
	}
	l.r.OK("work", "i=0", `1`)
	l.r.OK("sum", "", `1`)
	if s := l.wait(); s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
}
