package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"operon/engine"
	"operon/engine/body"
	"operon/engine/enginetest"
	"operon/spec"
	"operon/spec/value"
)

// crowd is a pipeline of n jobs of a process that takes some at once.
func crowd(n, concurrency int, more string) string {
	return fmt.Sprintf(`pipeline: crowd
tasks:
  numbers: {out: Number<i>, source: {count: %d}}
  ask: {in: Number, for: i, out: Answer, worker: {argv: [ask], concurrency: %d}%s}
`, n, concurrency, more)
}

// serve starts the project's pipeline with workers whose jobs the test ends.
func (p *project) serve(o engine.Options) *live {
	t := p.t.(*testing.T)
	t.Helper()
	return p.startOf(o, func(r *enginetest.Rendezvous, pl *spec.Pipeline) bodies {
		return p.workersOnly(pl, r.Body)
	})
}

// workersOnly makes the bodies of workers by one function, and others as they are.
func (p *project) workersOnly(pl *spec.Pipeline, of func(*spec.TaskSpec) (body.Runner, error)) func(*spec.TaskSpec) (body.Runner, error) {
	cfg := &body.Config{Pipeline: pl, Dir: p.dir}
	return func(t *spec.TaskSpec) (body.Runner, error) {
		if t.Body.Kind == spec.BodyWorker {
			return of(t)
		}
		return body.New(cfg, t)
	}
}

func at(i int) string { return "i=" + strconv.Itoa(i) }

// running waits until jobs of a task run, and no others of it.
func (l *live) running(task string, jobs ...int) {
	l.t.Helper()
	var want []string
	for _, i := range jobs {
		l.r.Await(task, at(i))
		want = append(want, task+"@"+at(i))
	}
	slices.Sort(want)
	got := slices.DeleteFunc(l.r.Running(), func(name string) bool { return !strings.HasPrefix(name, task+"@") })
	if !slices.Equal(got, want) {
		l.t.Errorf("running: %v, want %v", got, want)
	}
}

// endOne ends one of the jobs of a task that run, but not a certain one.
func (l *live) endOne(task string, but int) (name string) {
	l.t.Helper()
	await(l.t, "a job of "+task+" runs", func() bool {
		for _, running := range l.r.Running() {
			if strings.HasPrefix(running, task+"@") && running != task+"@"+at(but) {
				name = running
			}
		}
		return name != ""
	})
	l.r.OK(task, strings.TrimPrefix(name, task+"@"), `1`)
	return name
}

// The ninth job starts when the first of eight ends, in its place, and so on until
// there are none.
func TestABatchIsToppedUp(t *testing.T) {
	p := newProject(t, crowd(24, 8, ""))
	l := p.serve(engine.Options{Jobs: 1})
	l.running("ask", 0, 1, 2, 3, 4, 5, 6, 7)
	// The first is the slowest of all.
	for i := 1; i < 24; i++ {
		l.r.OK("ask", at(i), `1`)
		if next := i + 7; next < 24 {
			l.r.Await("ask", at(next))
		}
	}
	l.running("ask", 0)
	l.r.OK("ask", at(0), `1`)
	if s := l.wait(); s.State != engine.StateComplete || s.Executed != 25 {
		t.Errorf("%+v", s)
	}
	if most := l.r.Most("ask"); most != 8 {
		t.Errorf("%d ran at once", most)
	}
}

// A job that fails does not keep others from taking its place, and is tried again
// beside them.
func TestATopUpGoesOnAfterAFailure(t *testing.T) {
	p := newProject(t, crowd(6, 2, ", retry: {times: 1, backoff: 1ms, on: [exit]}"))
	l := p.serve(engine.Options{Jobs: 1})
	l.r.Await("ask", at(0))
	l.r.Fail("ask", at(1), body.KindExit, "exit status 1")
	for range 5 { // the retry among them, once it is due
		l.endOne("ask", 0)
	}
	l.running("ask", 0)
	l.r.OK("ask", at(0), `1`)
	if s := l.wait(); s.State != engine.StateComplete || s.Executed != 7 {
		t.Errorf("%+v", s)
	}
}

// Nothing is added once a job has failed that stops the run.
func TestNothingIsAddedAfterAFailureThatStops(t *testing.T) {
	p := newProject(t, crowd(6, 2, ""))
	l := p.serve(engine.Options{Jobs: 1})
	l.r.Await("ask", at(0))
	l.r.Fail("ask", at(1), body.KindExit, "exit status 1")
	await(t, "the failure is heard of", func() bool { return l.status("ask").Failed == 1 })
	l.r.OK("ask", at(0), `1`)
	if s := l.wait(); s.State == engine.StateComplete || len(l.r.Started()) != 2 {
		t.Errorf("%+v, started %v", s, l.r.Started())
	}
}

// A pause holds for a running batch, and is over when it is.
func TestAPauseHoldsForABatch(t *testing.T) {
	p := newProject(t, crowd(8, 4, ""))
	l := p.serve(engine.Options{Jobs: 1})
	l.running("ask", 0, 1, 2, 3)
	if err := l.e.Pause(t.Context(), []string{"ask"}, false); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		l.r.OK("ask", at(i), `1`)
		l.awaitDone("ask", int64(i+1))
	}
	l.running("ask", 3)
	if err := l.e.Resume(t.Context(), []string{"ask"}); err != nil {
		t.Fatal(err)
	}
	l.running("ask", 3, 4, 5, 6)
	for i := 3; i < 8; i++ {
		l.r.OK("ask", at(i), `1`)
	}
	l.wait()
}

// Where a task that goes first waits for what a command has, the command is left to
// end, and is followed by another once there is a place for it.
func TestABatchYields(t *testing.T) {
	p := newProject(t, `pipeline: yields
tasks:
  gate: {out: Gate, worker: [gate]}
  numbers: {out: Number<i>, source: {count: 12}}
  first: {in: Gate, out: First, worker: [first]}
  second: {in: Gate, out: Second, worker: [second]}
  ask: {in: Number, for: i, out: Answer, worker: {argv: [ask], concurrency: 2}}
`)
	l := p.serve(engine.Options{Jobs: 2})
	l.r.Await("gate", "")
	l.running("ask", 0, 1)
	l.r.OK("gate", "", `1`)
	l.r.Await("first", "") // has the other slot
	l.r.OK("ask", at(1), `1`)
	l.awaitDone("ask", 1)
	l.running("ask", 0)
	l.r.OK("ask", at(0), `1`)
	l.r.Await("second", "")
	l.running("ask")
	l.r.OK("first", "", `1`)
	l.running("ask", 2, 3)
	l.r.OK("ask", at(2), `1`)
	l.running("ask", 3, 4)
	l.r.OK("second", "", `1`)
	for range 9 {
		l.endOne("ask", -1)
	}
	if s := l.wait(); s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
}

// A task that was passed over for long enough gets its room, although what has it
// could be topped up for ever.
func TestToppingUpStarvesNobody(t *testing.T) {
	p := newProject(t, `pipeline: starves
tasks:
  numbers: {out: Number<i>, source: {count: 200}}
  ask: {in: Number, for: i, out: Answer, mem: 1G, worker: {argv: [ask], concurrency: 2}}
  large: {in: "Number<i>", out: Large, mem: 4G, worker: [large]}
`)
	l := p.serve(engine.Options{Jobs: 8, Mem: 4 << 30})
	l.running("ask", 0, 1, 2, 3, 4, 5, 6, 7)
	before := 0
	for !slices.Contains(l.r.Running(), "large@") {
		if st := l.status("ask"); st.Running > 0 {
			l.endOne("ask", -1)
			before++
			l.awaitDone("ask", int64(before))
		}
	}
	l.r.OK("large", "", `1`)
	for range 200 - before {
		l.endOne("ask", -1)
	}
	if s := l.wait(); s.State != engine.StateComplete || before > 150 {
		t.Errorf("%+v; %d jobs before", s, before)
	}
	t.Logf("%d jobs before", before)
}

// Jobs that are added have the GPUs of their command, and so has a retry.
func TestAddedJobsHaveTheGPUsOfTheirCommand(t *testing.T) {
	p := newProject(t, crowd(8, 2, ", gpus: 1, retry: {times: 1, backoff: 1ms, on: [exit]}"))
	l := p.serve(engine.Options{Jobs: 4, GPUs: 2, Environ: []string{}})
	gpu := map[int]string{}
	see := func(i int) { gpu[i] = fmt.Sprint(l.r.Env("ask", at(i))) }
	for i := range 4 {
		see(i)
	}
	if gpu[0] != gpu[1] || gpu[2] != gpu[3] || gpu[0] == gpu[2] {
		t.Fatalf("%v", gpu)
	}
	l.r.OK("ask", at(1), `1`)
	see(4)
	l.r.OK("ask", at(3), `1`)
	see(5)
	if gpu[4] != gpu[0] || gpu[5] != gpu[2] {
		t.Errorf("%v", gpu)
	}
	l.r.Fail("ask", at(4), body.KindExit, "exit status 1")
	see(6)
	await(t, "the retry is due", func() bool { return l.status("ask").Queued == 2 })
	l.r.OK("ask", at(6), `1`)
	if env := fmt.Sprint(l.r.Env("ask", at(4))); env != gpu[0] {
		t.Errorf("the retry has %s, and had %s", env, gpu[0])
	}
	for _, i := range []int{0, 2, 4, 5, 7} {
		l.r.OK("ask", at(i), `1`)
	}
	if s := l.wait(); s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
}

// uneven is a worker whose requests take uneven time.
const uneven = `import json, sys, threading, time
lock = threading.Lock()
def work(job):
    n = job["args"]["number"]
    time.sleep(0.4 if n % 8 == 0 else 0.03)
    with lock: print(json.dumps({"id": job["id"], "value": n}), flush=True)
for line in sys.stdin:
    threading.Thread(target=work, args=(json.loads(line),)).start()
`

// greedy is a worker that answers the oldest of its requests, after a moment, only
// once it holds as many as it may, or all that there still are; after a minute in vain
// it answers all the same. It reports how many it then held, this one included.
const greedy = `import json, os, select, sys, time
jobs, most = int(sys.argv[1]), int(sys.argv[2])
held, text = [], b""
while jobs > 0:
    while len(held) < min(most, jobs) and select.select([0], [], [], 60)[0]:
        got = os.read(0, 1 << 16)
        if not got: sys.exit(0)
        *lines, text = (text + got).split(b"\n")
        held += [json.loads(line)["id"] for line in lines]
    if not held: sys.exit(1)
    time.sleep(0.02) # jobs that take no time are given in batches
    print(json.dumps({"id": held.pop(0), "value": len(held) + 1}), flush=True)
    jobs -= 1
`

// work runs n jobs of a worker written in Python, and says how long that took.
func work(t testing.TB, n, concurrency int, script string) (p *project, took time.Duration) {
	t.Helper()
	p = newProject(t, fmt.Sprintf(`pipeline: work
tasks:
  numbers: {out: Number<i>, source: {count: %[1]d}}
  ask: {in: Number, for: i, out: Answer, worker: {argv: [python3, -S, work.py, "%[1]d", "%[2]d"], concurrency: %[2]d}}
`, n, concurrency))
	if err := os.WriteFile(filepath.Join(p.dir, "work.py"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	p.mustRun(engine.Options{Jobs: 1})
	return p, time.Since(start)
}

// A process is kept full: whatever it answers, the next is given to it, until there
// are no more.
func TestAWorkerIsKeptFull(t *testing.T) {
	const n, concurrency = 80, 8
	p, _ := work(t, n, concurrency, greedy)
	held := map[int]int{}
	for line := range strings.Lines(p.values("Answer")) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		k, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		held[k]++
	}
	for k := 1; k <= concurrency; k++ {
		want := 1
		if k == concurrency {
			want = n - concurrency + 1
		}
		if held[k] != want {
			t.Errorf("%d answers came while it held %d, want %d", held[k], k, want)
		}
	}
	if len(held) != concurrency {
		t.Errorf("answers by how many it held: %v", held)
	}
}

// BenchmarkUneven is how much of a process idles while jobs of uneven duration run.
func BenchmarkUneven(b *testing.B) {
	for b.Loop() {
		const n, concurrency = 240, 8
		_, took := work(b, n, concurrency, uneven)
		needs := time.Duration(n/8)*400*time.Millisecond + time.Duration(n-n/8)*30*time.Millisecond
		b.ReportMetric(100*(1-needs.Seconds()/concurrency/took.Seconds()), "%idle")
	}
}

// crowded is a body in batches whose jobs end in any order, fail, and take the whole
// batch with them. It notes when each began, and what runs at once.
type crowded struct {
	t     *spec.TaskSpec
	rates *rates
}

type rates struct {
	mu     sync.Mutex
	rng    *rand.Rand
	under  map[string]bool
	twice  []string
	begun  map[string]int
	ended  map[string]int // with a value
	starts []time.Time
	added  int
	unit   time.Duration
}

func newRates(rng *rand.Rand) *rates {
	return &rates{rng: rng, unit: 300 * time.Microsecond, under: map[string]bool{}, begun: map[string]int{}, ended: map[string]int{}}
}

func (r *rates) body(t *spec.TaskSpec) (body.Runner, error) { return crowded{t, r}, nil }

func (c crowded) Run(context.Context, *body.Slot, *body.Job) (*body.Result, error) { panic("alone") }
func (c crowded) Close(context.Context)                                            {}

func (c crowded) RunBatch(ctx context.Context, _ *body.Slot, jobs []*body.Job, b body.Batch) {
	r := c.rates
	type held struct {
		n    int
		name string
	}
	var under []held
	next, failed := 0, false
	wake := make(chan struct{}, 1)
	end := func(k int, f *body.Failure) {
		h := under[k]
		under = slices.Delete(under, k, k+1)
		r.mu.Lock()
		delete(r.under, h.name)
		if f == nil {
			r.ended[h.name]++
		}
		r.mu.Unlock()
		if f != nil {
			failed = failed || len(jobs) > 0
			b.Done(h.n, nil, f)
			return
		}
		b.Done(h.n, &body.Result{Items: []value.Value{value.FromJSON([]byte(`1`))}, Usage: body.Usage{Start: time.Now(), Wall: time.Second}}, nil)
	}
	for {
		for len(under) < c.t.Body.Concurrency && !failed && ctx.Err() == nil && !b.Stopped() {
			if len(jobs) == 0 && next > 0 {
				jobs = b.More(c.t.Body.Concurrency-len(under), func() {
					select {
					case wake <- struct{}{}:
					default:
					}
				})
				r.mu.Lock()
				r.added += len(jobs)
				r.mu.Unlock()
			}
			if len(jobs) == 0 {
				break
			}
			name := c.t.Name + jobs[0].Coord.Format(c.t.ContextNames())
			r.mu.Lock()
			if r.under[name] {
				r.twice = append(r.twice, name)
			}
			r.under[name] = true
			r.begun[name]++
			r.starts = append(r.starts, time.Now())
			r.mu.Unlock()
			under = append(under, held{next, name})
			jobs, next = jobs[1:], next+1
		}
		if len(under) == 0 {
			return
		}
		r.mu.Lock()
		what, k := r.rng.IntN(100), r.rng.IntN(len(under))
		r.mu.Unlock()
		select {
		case <-wake:
			continue
		case <-ctx.Done():
			what = 0
		case <-time.After(time.Duration(what%4) * r.unit):
		}
		switch {
		case ctx.Err() != nil:
			for len(under) > 0 {
				end(0, &body.Failure{Kind: body.KindCancelled, Message: "stopped"})
			}
			return
		case what < 2: // it dies
			for len(under) > 0 {
				end(0, &body.Failure{Kind: body.KindExit, Exit: 1, Message: "died", Died: true})
			}
			return
		case what < 4: // it is stopped for one that is late
			late := k
			for k := len(under) - 1; k >= 0; k-- {
				f := &body.Failure{Kind: body.KindLost, Message: "lost", Died: true}
				if k == late {
					f = &body.Failure{Kind: body.KindTimeout, Message: "late", Died: true}
				}
				end(k, f)
			}
			return
		case what < 12:
			end(k, &body.Failure{Kind: body.KindExit, Exit: 1, Message: "no"})
		default:
			end(k, nil)
		}
	}
}

// Whatever jobs are added to, fails, dies or is stopped: each job ends once, never
// runs twice at once, and what has a value does not run again; nothing of the memo
// stays claimed, for then the run would not end.
func TestTopUpsOfRandomSchedules(t *testing.T) {
	t.Parallel()
	n := 10
	if os.Getenv("OPERON_LONG") != "" {
		n = 500
	}
	added := 0
	for seed := range uint64(n) {
		rng := rand.New(rand.NewPCG(seed, 77))
		// Two in three numbers are the same: their jobs have one key.
		p := newProject(t, fmt.Sprintf(`pipeline: crowds
pools:
  api: {size: %d}
defaults: {retry: {times: 40, backoff: 1ms, max_backoff: 1ms, on: [exit, timeout]}}
tasks:
  numbers: {out: Number<i>, source: {count: 60}}
  same: {in: Number, for: i, out: Same, jq: 'if . %% 3 == 0 then . else 1 end'}
  ask: {in: Same, for: i, out: Answer, pool: api, worker: {argv: [ask], concurrency: %d}}
  judge: {in: Answer, for: i, out: Verdict, pool: api, worker: {argv: [judge], concurrency: 3}}
  rate: {in: Number, for: i, out: Rating, pool: 1, worker: {argv: [rate], concurrency: 5}}
`, 1+rng.IntN(2), 2+rng.IntN(5)))
		r := newRates(rng)
		pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for round := 0; ; round++ {
			ctx, cancel := context.WithCancel(t.Context())
			o := engine.Options{Dir: p.dir, Jobs: 1 + int(seed%4), Workers: 1 + int(seed%2)}
			o.Bodies = p.workersOnly(pl, r.body)
			e, err := engine.New(pl, o)
			if err != nil {
				t.Fatal(err)
			}
			if round < 3 {
				left := time.Duration(5+seed%7*5) * time.Millisecond
				quit := time.AfterFunc(left, func() {
					if (seed+uint64(round))%2 == 0 {
						cancel()
					} else {
						_ = e.Quit(context.Background(), false)
					}
				})
				defer quit.Stop()
			}
			s, err := e.Run(ctx)
			cancel()
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if len(s.Failures) > 0 {
				t.Fatalf("seed %d: %+v", seed, s.Failures)
			}
			if len(r.under) > 0 || len(r.twice) > 0 {
				t.Fatalf("seed %d: under way %v, twice %v", seed, r.under, r.twice)
			}
			if s.State == engine.StateComplete {
				break
			}
		}
		for name, k := range r.ended {
			if k > 1 {
				t.Errorf("seed %d: %s has ended %d times", seed, name, k)
			}
		}
		for _, entity := range []string{"Answer", "Verdict", "Rating"} {
			if got := strings.Count(p.values(entity), "\n"); got != 60 {
				t.Errorf("seed %d: %d values of %s", seed, got, entity)
			}
		}
		added += r.added
	}
	if added < 10*n {
		t.Errorf("only %d jobs were added", added)
	}
	t.Logf("%d pipelines, %d jobs added", n, added)
}

// A rate holds for jobs that are added.
func TestARateHoldsForAddedJobs(t *testing.T) {
	p := newProject(t, `pipeline: rates
pools:
  api: {size: 1, rate: 200/s}
tasks:
  numbers: {out: Number<i>, source: {count: 60}}
  ask: {in: Number, for: i, out: Answer, pool: api, worker: {argv: [ask], concurrency: 8}}
`)
	r := newRates(rand.New(rand.NewPCG(1, 1)))
	r.unit = 10 * time.Millisecond // slower than the rate
	pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.run(engine.Options{Jobs: 2, Bodies: p.workersOnly(pl, r.body), KeepGoing: true}); err != nil {
		t.Fatal(err)
	}
	// So many starts can't lie closer together than the rate has it, late or not.
	first, last := r.starts[0], r.starts[len(r.starts)-1]
	least := time.Duration(len(r.starts)-1-4) * 5 * time.Millisecond
	if got := last.Sub(first); got < least || r.added == 0 {
		t.Errorf("%d starts in %v, which takes %v; %d added", len(r.starts), got, least, r.added)
	}
}
