package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"operon/engine"
	"operon/engine/body"
	"operon/engine/ticket/reference"
	"operon/engine/worker"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
)

// random is a pipeline that was drawn, with what its bodies return.
type random struct {
	*project
	pl      *spec.Pipeline
	lengths reference.Lengths
	want    reference.Values
	decl    reference.Pipeline
}

func newRandom(t *testing.T, seed uint64, tasks int) *random {
	t.Helper()
	decl := reference.Random(rand.New(rand.NewPCG(seed, 9)), reference.Limits{Tasks: tasks, Dims: 4, Crossed: seed%2 == 0})
	r := &random{project: newProject(t, decl.YAML()), lengths: reference.RandomLengths(seed, 2), decl: decl}
	var err error
	if r.pl, err = engine.LoadFile(r.file, engine.LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	r.want = reference.Evaluate(r.pl, r.lengths)
	return r
}

// tally is bodies that echo, and count the jobs that they return for.
type tally struct {
	lengths reference.Lengths
	mu      sync.Mutex
	calls   map[string]int
	most    map[string]int // at once, by task, and "" for all
	now     map[string]int
	takes   time.Duration // each body
	before  func(t *spec.TaskSpec, j *body.Job)
}

func newTally(lengths reference.Lengths) *tally {
	return &tally{lengths: lengths, calls: map[string]int{}, most: map[string]int{}, now: map[string]int{}}
}

type tallied struct {
	*tally
	echo
}

func (c tallied) Run(ctx context.Context, s *body.Slot, j *body.Job) (*body.Result, error) {
	if c.before != nil {
		c.before(c.t, j)
	}
	groups := []string{"", c.t.Name}
	if c.t.SharedPool != nil {
		groups = append(groups, "pool "+c.t.SharedPool.Name)
	}
	c.mu.Lock()
	c.calls[c.t.Name+"@"+j.Coord.Format(c.t.ContextNames())]++
	for _, g := range groups {
		c.now[g]++
		c.most[g] = max(c.most[g], c.now[g])
	}
	c.mu.Unlock()
	time.Sleep(c.takes)
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, g := range groups {
			c.now[g]--
		}
	}()
	return c.echo.Run(ctx, s, j)
}

func (c *tally) Body(t *spec.TaskSpec) (body.Runner, error) {
	return tallied{c, echo{t, c.lengths}}, nil
}

// twice are the jobs that ran more than once.
func (c *tally) twice() (out []string) {
	for name, n := range c.calls {
		if n > 1 {
			out = append(out, fmt.Sprintf("%s %d times", name, n))
		}
	}
	slices.Sort(out)
	return out
}

// check compares what the run ended with to the reference.
func (r *random) check(t *testing.T, s *engine.Summary) {
	t.Helper()
	if s.State != engine.StateComplete {
		t.Errorf("the run is %s: %+v", s.State, s)
	}
	for _, task := range r.pl.Tasks {
		checkEntity(t, r.project, task, r.want[task.Out.Name], r.decl)
	}
}

// runWith runs it to its end.
func (r *random) runWith(t *testing.T, o engine.Options) *engine.Summary {
	t.Helper()
	o.Dir = r.dir
	e, err := engine.New(r.pl, o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Run(t.Context())
	if err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if s == nil {
		t.FailNow()
	}
	return s
}

func scale(short, long int) int {
	if os.Getenv("OPERON_LONG") != "" {
		return long
	}
	return short
}

// How many workers there are makes no difference to what comes out.
func TestWorkersDoNotMatter(t *testing.T) {
	t.Parallel()
	n, jobs := scale(12, 200), int64(0)
	for seed := range uint64(n) {
		for _, workers := range []int{1, 2, 3, 8} {
			r := newRandom(t, seed, 9)
			c := newTally(r.lengths)
			s := r.runWith(t, engine.Options{Workers: workers, Jobs: 1 + int(seed%5), Bodies: c.Body})
			r.check(t, s)
			if names := c.twice(); len(names) > 0 {
				t.Errorf("%v", names)
			}
			if most := 1 + int(seed%5); c.most[""] > most {
				t.Errorf("%d ran at once, want at most %d", c.most[""], most)
			}
			if jobs += s.Executed; t.Failed() {
				t.Fatalf("seed %d, %d workers\n%s", seed, workers, r.decl)
			}
		}
	}
	t.Logf("%d pipelines with 1, 2, 3 and 8 workers, %d jobs, differences: 0", n, jobs)
}

// faultAt calls do at the n-th call of a point, over all workers.
func faultAt(point string, n int64, do func()) (fault func(int, uint64, string), reached func() bool) {
	var calls atomic.Int64
	return func(_ int, _ uint64, at string) {
		if at == point && calls.Add(1) == n {
			do()
		}
	}, func() bool { return calls.Load() >= n }
}

var allPoints = []string{worker.PointCommand, worker.PointInstall, worker.PointJob, worker.PointRetract}

// A worker that dies, wherever that is, loses nothing: what comes out is what comes
// out without, and since these jobs end whatever happens, and are answered before
// their worker is over, none runs again.
func TestAWorkerDiesAtEachCall(t *testing.T) {
	t.Parallel()
	seeds, most, runs := scale(1, 6), int64(scale(5, 400)), 0
	for seed := range uint64(seeds) {
		for _, workers := range []int{1, 3} {
			for _, point := range allPoints {
				for n := int64(1); n <= most; n++ {
					r := newRandom(t, 100+seed, 6)
					c := newTally(r.lengths)
					fault, reached := faultAt(point, n, func() { panic("as the test says") })
					s := r.runWith(t, engine.Options{Workers: workers, Jobs: 4, Bodies: c.Body, Fault: fault})
					r.check(t, s)
					if names := c.twice(); len(names) > 0 {
						t.Errorf("%v ran, for all were answered before their worker died", names)
					}
					if t.Failed() {
						t.Fatalf("seed %d, %d workers, died at call %d of %s\n%s", 100+seed, workers, n, point, r.decl)
					}
					runs++
					if !reached() {
						break
					}
				}
			}
		}
	}
	t.Logf("%d runs in which a worker died, differences: 0", runs)
}

// Workers that die all the time are replaced as long as there is progress.
func TestWorkersDieAllTheTime(t *testing.T) {
	n, deaths := scale(6, 100), int64(0)
	for seed := range uint64(n) {
		r := newRandom(t, 300+seed, 7)
		c := newTally(r.lengths)
		var calls, died atomic.Int64
		rng := rand.New(rand.NewPCG(seed, 5))
		var mu sync.Mutex
		s := r.runWith(t, engine.Options{Workers: 1 + int(seed%3), Jobs: 4, Bodies: c.Body, Fault: func(int, uint64, string) {
			mu.Lock()
			die := calls.Add(1) > 4 && rng.IntN(60) == 0
			mu.Unlock()
			if die {
				died.Add(1)
				panic("as the test says")
			}
		}})
		r.check(t, s)
		if names := c.twice(); len(names) > 0 {
			t.Errorf("%v", names)
		}
		if deaths += died.Load(); t.Failed() {
			t.Fatalf("seed %d, %d deaths\n%s", 300+seed, died.Load(), r.decl)
		}
	}
	t.Logf("%d runs, %d deaths, differences: 0", n, deaths)
}

// A worker that stalls for less than the limit goes on where it was.
func TestAStallBelowTheLimit(t *testing.T) {
	for _, point := range allPoints {
		r := newRandom(t, 100, 6)
		c := newTally(r.lengths)
		var incarnations atomic.Uint64
		wake := make(chan struct{})
		stall, _ := faultAt(point, 3, func() {
			time.AfterFunc(50*time.Millisecond, func() { close(wake) })
			<-wake
		})
		s := r.runWith(t, engine.Options{Workers: 2, Jobs: 4, Bodies: c.Body, Fault: func(w int, inc uint64, at string) {
			if inc > incarnations.Load() {
				incarnations.Store(inc)
			}
			stall(w, inc, at)
		}})
		r.check(t, s)
		if names := c.twice(); len(names) > 0 || incarnations.Load() > 0 {
			t.Errorf("%s: %v ran again; incarnation %d", point, names, incarnations.Load())
		}
		if t.Failed() {
			t.Fatalf("%s\n%s", point, r.decl)
		}
	}
}

// One that stalls for longer is replaced, and the run ends without it. When it
// wakes up it does nothing, and is gone.
func TestAStallBeyondTheLimit(t *testing.T) {
	most, runs := int64(scale(2, 40)), 0
	for _, workers := range []int{1, 2} {
		for _, point := range []string{worker.PointCommand, worker.PointInstall, worker.PointRetract} {
			for n := int64(1); n <= most; n++ {
				r := newRandom(t, 100, 6)
				c := newTally(r.lengths)
				before := runtime.NumGoroutine()
				wake := make(chan struct{})
				stall, reached := faultAt(point, n, func() { <-wake })
				s := r.runWith(t, engine.Options{Workers: workers, Jobs: 4, Bodies: c.Body, Fault: stall, StallLimit: 200 * time.Millisecond})
				r.check(t, s)
				if names := c.twice(); len(names) > 0 {
					t.Errorf("%v", names)
				}
				close(wake)
				await(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before })
				if t.Failed() {
					t.Fatalf("%d workers, stalled at call %d of %s\n%s", workers, n, point, r.decl)
				}
				if runs++; !reached() {
					break
				}
			}
		}
	}
	t.Logf("%d runs in which a worker stalled for good", runs)
}

// A job at which workers die is at fault itself, in the end; what runs beside it,
// and what goes with it in one command, is not.
func TestAJobThatKillsWorkers(t *testing.T) {
	for _, kind := range []string{`exec: ["true"]`, `func: work`} {
		for _, workers := range []int{1, 2} {
			p := fanProject(t, "")
			p.edit(strings.Replace(fmt.Sprintf(fan, ""), "    for: i\n    out: Done\n    exec: [\"true\"]", "    for: i\n    out: Done\n    "+kind, 1))
			var deaths atomic.Int64
			c := newTally(func(string, []uint32) uint32 { return 40 })
			c.before = func(task *spec.TaskSpec, j *body.Job) {
				if task.Name == "work" && j.Coord == coord.Of(7) {
					deaths.Add(1)
					panic("as the test says")
				}
			}
			s, err := p.run(engine.Options{Workers: workers, Jobs: 4, KeepGoing: true, Bodies: c.Body, Funcs: []engine.Function{{Name: "work"}}})
			if err != nil {
				t.Fatal(err)
			}
			if s.Failed != 1 || s.Executed != 40 || s.Blocked != 1 || deaths.Load() != 3 {
				t.Errorf("%s, %d workers: failed %d, executed %d, blocked %d, %d deaths", kind, workers, s.Failed, s.Executed, s.Blocked, deaths.Load())
			}
			if len(s.Failures) != 1 || s.Failures[0].Kind != string(body.KindInternal) || s.Failures[0].Sample.Coord != coord.Of(7) {
				t.Errorf("%+v", s.Failures)
			}
		}
	}
}

// The bounds on what runs at once are those of all workers together.
func TestPoolsHoldOverWorkers(t *testing.T) {
	p := newProject(t, `pipeline: pools
pools: {api: 3}
tasks:
  split: {out: Item<i>, exec: ["true"]}
  ask: {in: Item, for: i, out: Answer, exec: ["true"], pool: api}
  rate: {in: Item, for: i, out: Rate, exec: ["true"], pool: api}
  own: {in: Item, for: i, out: Own, exec: ["true"], pool: 2}
  free: {in: Item, for: i, out: Free, exec: ["true"]}
`)
	c := newTally(func(string, []uint32) uint32 { return 60 })
	c.takes = 200 * time.Microsecond // so that as many run at once as may
	var calls atomic.Int64
	s := p.mustRun(engine.Options{Workers: 4, Jobs: 6, Bodies: c.Body, Fault: func(_ int, _ uint64, point string) {
		if n := calls.Add(1); point == worker.PointJob && n%97 == 0 {
			panic("as the test says") // a successor has no more room
		}
	}})
	if s.State != engine.StateComplete || s.Executed != 241 {
		t.Errorf("%+v", s)
	}
	for what, most := range map[string]int{"": 6, "pool api": 3, "own": 2} {
		if c.most[what] > most {
			t.Errorf("%q: %d at once, want at most %d", what, c.most[what], most)
		}
	}
}

// Of jobs with one key the first runs, and the others wait. They do not wait for
// one whose worker died.
func TestAClaimDiesWithItsWorker(t *testing.T) {
	for _, workers := range []int{1, 2, 3} {
		for _, point := range []string{"job", "body"} {
			p := fanProject(t, "")
			once := sync.Once{}
			c := newTally(func(string, []uint32) uint32 { return 12 })
			start := make(chan struct{})
			same := func(task *spec.TaskSpec) (body.Runner, error) {
				r, _ := c.Body(task)
				if task.Name == "split" {
					return equal{12}, nil
				}
				return r, nil
			}
			c.before = func(task *spec.TaskSpec, _ *body.Job) {
				if task.Name == "work" && point == "body" {
					once.Do(func() {
						<-start // the others have come, and wait
						panic("as the test says")
					})
				}
			}
			l := &live{t: t, done: make(chan struct{})}
			pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var jobs atomic.Int64
			l.e, err = engine.New(pl, engine.Options{Dir: p.dir, Workers: workers, Jobs: 6, Bodies: same, Fault: func(_ int, _ uint64, at string) {
				if at == worker.PointJob && jobs.Add(1) == 2 && point == "job" {
					panic("as the test says")
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				defer close(l.done)
				l.sum, l.err = l.e.Run(t.Context())
			}()
			if point == "body" {
				await(t, "the others wait", func() bool { return jobs.Load() == 13 })
			}
			close(start)
			if s := l.wait(); s.State != engine.StateComplete || s.Executed+s.Reused != 14 || s.Executed != 3 {
				t.Errorf("%d workers, %s: %+v", workers, point, s)
			}
		}
	}
}

// equal is a body that returns a list of equal values.
type equal struct{ n int }

func (e equal) Run(context.Context, *body.Slot, *body.Job) (*body.Result, error) {
	res := &body.Result{}
	for range e.n {
		res.Items = append(res.Items, value.FromText("the same"))
	}
	return res, nil
}
