package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
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
)

// gate stalls one incarnation of a worker at its next command.
type gate struct {
	worker int
	shut   atomic.Bool
	opened chan struct{}
	once   sync.Once
	mu     sync.Mutex
	dies   map[int]bool // workers whose next command is their last
}

func newGate(t *testing.T, worker int) *gate {
	g := &gate{worker: worker, opened: make(chan struct{}), dies: map[int]bool{}}
	t.Cleanup(g.open)
	return g
}

func (g *gate) open() { g.once.Do(func() { close(g.opened) }) }

func (g *gate) fault(n int, incarnation uint64, point string) {
	if point != worker.PointCommand || incarnation > 0 {
		return
	}
	if n == g.worker && g.shut.Load() {
		<-g.opened
	}
	g.mu.Lock()
	die := g.dies[n]
	delete(g.dies, n)
	g.mu.Unlock()
	if die {
		panic("told to")
	}
}

func (g *gate) kill(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dies[n] = true
}

func (l *live) whole() *engine.Status {
	l.t.Helper()
	s, err := l.e.Status(context.Background())
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// pinned are the frozen dataflows, with the workers that pin them.
func pinned(s *engine.Status) string {
	var out []string
	for _, f := range s.Frozen {
		out = append(out, fmt.Sprintf("%s%v", f.Task, f.Pins))
	}
	return strings.Join(out, " ")
}

const sidePipeline = livePipeline + `  side: {in: Item, for: i, out: Side, exec: ["true"]}
  count: {in: Side<i>, out: Count, exec: ["true"]}
`

// While a worker takes no command, nothing that it may still schedule is let go,
// and everything else goes on; when it wakes up, all is let go at once.
func TestStallWhileReconciled(t *testing.T) {
	p := newProject(t, fmt.Sprintf(sidePipeline, "", "", ""))
	g := newGate(t, 2)
	l := p.start(engine.Options{Jobs: 9, Workers: 3, Fault: g.fault, StallLimit: time.Hour})
	l.r.OK("split", "", `1`, `2`, `3`)
	l.r.OK("work", "i=0", `1`)
	l.awaitDone("work", 1)
	for i := 1; i < 3; i++ {
		l.r.Await("work", fmt.Sprintf("i=%d", i))
	}
	for i := range 3 {
		l.r.Await("side", fmt.Sprintf("i=%d", i))
	}
	old := l.status("work").Dataflow
	g.shut.Store(true)
	l.reconcile(p, fmt.Sprintf(sidePipeline, `, "edited"`, "", ""),
		"split keep, work replace fingerprint, sum replace upstream, side keep, count keep")
	await(t, "only the one that stalls pins", func() bool { return strings.Contains(pinned(l.whole()), "work[2] sum[2]") })
	await(t, "the worker is named", func() bool { return l.whole().Workers[2].Stalled })
	for i := range 3 {
		l.r.OK("side", fmt.Sprintf("i=%d", i), `1`)
	}
	l.r.OK("count", "", `3`)
	l.awaitDone("count", 1)
	s := l.whole()
	if !strings.Contains(pinned(s), "work[2] sum[2]") || s.Tasks[1].Dataflow == old || s.Tasks[1].Running != 0 {
		t.Errorf("while it stalls: %s, %+v", pinned(s), s.Tasks[1])
	}
	if f := s.Frozen[0]; f.Outcome != "dropped" || f.Dataflow != old && s.Frozen[1].Dataflow != old {
		t.Errorf("%+v", s.Frozen)
	}
	d := l.reconcile(p, fmt.Sprintf(sidePipeline, `, "edited", "twice"`, "", ""),
		"split keep, work replace fingerprint, sum replace upstream, side keep, count keep")
	if n := slices.Index(l.r.Started(), "work@i=0"); n < 0 || slices.Contains(l.r.Started()[n+1:], "work@i=0") {
		t.Errorf("%v: work runs while what it replaces may run, after %+v", l.r.Started(), d)
	}
	g.open()
	for i := range 3 {
		l.r.OK("work", fmt.Sprintf("i=%d", i), `1`)
	}
	l.r.OK("sum", "", `3`)
	if s := l.wait(); s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
	p.deep("after a stall")
}

// A worker that stalls for too long while tasks are replaced is replaced, too.
func TestStallForEverWhileReconciled(t *testing.T) {
	p := newProject(t, fmt.Sprintf(sidePipeline, "", "", ""))
	g := newGate(t, 2)
	l := p.start(engine.Options{Jobs: 9, Workers: 3, Fault: g.fault, StallLimit: 2 * time.Second}) // far more than one that is well takes
	l.r.OK("split", "", `1`, `2`)
	l.r.Await("work", "i=0")
	l.r.Await("work", "i=1")
	g.shut.Store(true)
	l.reconcile(p, fmt.Sprintf(sidePipeline, `, "edited"`, "", ""),
		"split keep, work replace fingerprint, sum replace upstream, side keep, count keep")
	await(t, "it is replaced", func() bool { return l.whole().Workers[2].Incarnation > 0 })
	g.open() // it wakes up too late
	for i := range 2 {
		l.r.OK("work", fmt.Sprintf("i=%d", i), `1`)
		l.r.OK("side", fmt.Sprintf("i=%d", i), `1`)
	}
	l.r.OK("sum", "", `2`)
	l.r.OK("count", "", `2`)
	if s := l.wait(); s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
	p.deep("after a stall for ever")
}

// A worker that has let go of a dataflow, and dies while another pins it, is
// replaced by one that never had it.
func TestDeathWhileAnotherPins(t *testing.T) {
	p := newProject(t, fmt.Sprintf(sidePipeline, "", "", ""))
	g := newGate(t, 2)
	l := p.start(engine.Options{Jobs: 9, Workers: 3, Fault: g.fault, StallLimit: time.Hour})
	l.r.OK("split", "", `1`)
	l.r.Await("work", "i=0")
	l.r.Await("side", "i=0")
	g.shut.Store(true)
	l.reconcile(p, fmt.Sprintf(sidePipeline, `, "edited"`, "", ""),
		"split keep, work replace fingerprint, sum replace upstream, side keep, count keep")
	await(t, "only the one that stalls pins", func() bool { return strings.Contains(pinned(l.whole()), "work[2] sum[2]") })
	g.kill(0)
	l.reconcile(p, fmt.Sprintf(sidePipeline, `, "edited"`, "", `, "edited"`),
		"split keep, work keep, sum replace fingerprint, side keep, count keep")
	await(t, "it is replaced", func() bool { return l.whole().Workers[0].Incarnation == 1 })
	g.open()
	l.r.OK("work", "i=0", `1`)
	l.r.OK("side", "i=0", `1`)
	l.r.OK("sum", "", `1`)
	l.r.OK("count", "", `1`)
	if s := l.wait(); s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
	p.deep("after a death")
}

// Workers die at every point while what is wanted changes; what the run ends with
// is as if none had.
func TestPanicsWhileReconciled(t *testing.T) {
	rounds := 3
	if os.Getenv("OPERON_LONG") != "" {
		rounds = 60
	}
	died := map[string]int{}
	for _, point := range []string{worker.PointCommand, worker.PointInstall, worker.PointJob, worker.PointRetract} {
		for round := range rounds {
			seed := uint64(round)
			rng := rand.New(rand.NewPCG(seed, 59))
			e := edited{decl: reference.Random(rng, reference.Limits{Tasks: 7, Dims: 3}), salt: map[string]int{}}
			p := newProject(t, e.yaml())
			var mu sync.Mutex
			armed := 0 // the panic comes when it has counted down to 1
			options := engine.Options{Dir: p.dir, Jobs: 3, Workers: 1 + round%3, Fault: func(_ int, _ uint64, at string) {
				if at != point {
					return
				}
				mu.Lock()
				now := armed == 1
				armed = max(0, armed-1)
				if now {
					died[point]++
				}
				mu.Unlock()
				if now {
					panic("told to")
				}
			}, Bodies: func(task *spec.TaskSpec) (body.Runner, error) {
				return slow{salted{task}, func() time.Duration { return time.Duration(rand.IntN(4000)) * time.Microsecond }}, nil
			}}
			pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			eng, err := engine.New(pl, options)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			var s *engine.Summary
			go func() {
				var err error
				s, err = eng.Run(context.Background())
				done <- err
			}()
			var before []edited
			var story []string
			for range 6 {
				time.Sleep(time.Duration(rng.IntN(4000)) * time.Microsecond)
				before = append(before, e.clone())
				story = append(story, e.edit(rng, before))
				p.edit(e.yaml())
				pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
				if err != nil {
					t.Fatal(err)
				}
				mu.Lock()
				armed = 1 + rng.IntN(3)
				mu.Unlock()
				if _, err := eng.Reconcile(t.Context(), pl, engine.Options{}); err != nil {
					break // it was over; the run below does it
				}
			}
			mu.Lock()
			armed = 0
			mu.Unlock()
			if err := <-done; err != nil {
				t.Fatalf("%s, seed %d, after %v: %v", point, seed, story, err)
			}
			if err := eng.Close(); err != nil {
				t.Fatal(err)
			}
			p.deep(fmt.Sprintf("%s, seed %d", point, seed))
			runSalted(t, p)
			fresh := newProject(t, e.yaml())
			runSalted(t, fresh)
			for _, d := range e.decl {
				if got, want := p.values(d.Out), fresh.values(d.Out); got != want {
					t.Errorf("%s, seed %d: %s is\n%swant\n%s", point, seed, d.Out, got, want)
				}
			}
			if t.Failed() {
				t.Fatalf("%s, seed %d, after %v: %+v\n%s", point, seed, story, s, e.yaml())
			}
		}
	}
	t.Logf("deaths: %v, differences: 0", died)
	for _, point := range []string{worker.PointCommand, worker.PointInstall, worker.PointJob, worker.PointRetract} {
		if died[point] == 0 {
			t.Errorf("nobody died at %s", point)
		}
	}
}
