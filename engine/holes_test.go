package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"operon/engine"
	"operon/engine/body"
	"operon/engine/ticket/reference"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
)

const partsYAML = `pipeline: parts
tasks:
  split:
    out: Page<doc>
    exec: ["true"]
  cut:
    in: Page
    for: doc
    out: Bit<part>
    exec: ["true"]
    on_error: hole
  work:
    in: Bit
    for: [doc, part]
    out: Done
    exec: ["true"]
    on_error: hole
  sum:
    in: Done<part>
    for: doc
    out: Sum
    exec: ["true"]
  all:
    in: {sums: {from: Sum<doc>, holes: null}}
    out: All
    exec: ["true"]
  strict:
    in: Done<doc, part>
    out: Strict
    exec: ["true"]
`

// holes are an entity's holes: coordinate, then reason.
func (p *project) holes(entity string) string {
	p.t.Helper()
	var b strings.Builder
	p.state(func(s *engine.State) {
		dims := s.Pipeline().Entity(entity).DimNames()
		_, err := s.Values(context.Background(), engine.Query{Entity: entity}, func(it engine.Item) error {
			if it.Value.Kind == value.Hole {
				fmt.Fprintf(&b, "%s\n", strings.TrimSpace(it.Coord.Format(dims)+" "+it.Value.Reason()))
			}
			return nil
		})
		if err != nil {
			p.t.Fatal(err)
		}
	})
	return b.String()
}

// state opens the project's state for reading.
func (p *project) state(fn func(*engine.State)) {
	p.t.Helper()
	pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	dir, err := engine.StateDirOf(pl, engine.Options{Dir: p.dir})
	if err != nil {
		p.t.Fatal(err)
	}
	s, err := engine.OpenState(dir)
	if err != nil {
		p.t.Fatal(err)
	}
	defer s.Close()
	fn(s)
}

func TestHolesGoWhereTheyMust(t *testing.T) {
	p := newProject(t, partsYAML)
	l := p.start(engine.Options{Jobs: 3})
	l.r.OK("split", "", `0`, `1`, `2`)
	l.r.OK("cut", "doc=0", `"a"`, `"b"`)
	l.r.Fail("cut", "doc=1", body.KindExit, "exit status 1")
	l.r.OK("cut", "doc=2", `"c"`)
	l.r.OK("work", "doc=0,part=0", `1`)
	l.r.Fail("work", "doc=0,part=1", body.KindExit, "exit status 2")
	l.r.OK("work", "doc=2,part=0", `3`)
	l.r.OK("sum", "doc=2", `3`)
	if got := l.r.Args("all", ""); len(got) != 1 || got[0] != `[null,null,3]` {
		t.Errorf("all takes %s", got)
	}
	l.r.OK("all", "", `"all"`)
	s := l.wait()
	if s.State != engine.StateComplete || !s.Asked || s.Executed != 7 || s.Holes != 5 || s.Failed != 0 || s.Blocked != 0 {
		t.Errorf("%+v", s)
	}
	if len(s.Failures) != 2 || !s.Failures[0].Hole {
		t.Errorf("%+v", s.Failures)
	}
	for entity, want := range map[string]string{
		"Bit":    "doc=1 exit status 1\n",
		"Done":   "doc=0,part=1 exit status 2\n",
		"Sum":    "doc=0 rests on work at doc=0,part=1, which failed\ndoc=1 rests on cut at doc=1, which failed\n",
		"Strict": "rests on cut at doc=1, which failed\n",
		"All":    "",
	} {
		if got := p.holes(entity); got != want {
			t.Errorf("holes of %s:\n%swant\n%s", entity, got, want)
		}
	}
	// Complete is complete: nothing runs again.
	l = p.start(engine.Options{})
	if s := l.wait(); s.Executed != 0 || s.Holes != 5 || s.Reused != 7 || s.State != engine.StateComplete {
		t.Errorf("again: %+v", s)
	}
	// What rests on the holes is what runs again, and nothing else.
	l = p.start(engine.Options{Jobs: 3, RetryHoles: true})
	l.r.OK("cut", "doc=1")
	l.r.OK("work", "doc=0,part=1", `2`)
	l.r.OK("sum", "doc=0", `3`)
	l.r.OK("sum", "doc=1", `0`)
	if got := l.r.Args("all", ""); len(got) != 1 || got[0] != `[3,0,3]` {
		t.Errorf("all takes %s", got)
	}
	l.r.OK("all", "", `"all"`)
	l.r.OK("strict", "", `"strict"`)
	if s := l.wait(); s.Executed != 6 || s.Holes != 0 || s.Reused != 6 || s.State != engine.StateComplete {
		t.Errorf("retried: %+v", s)
	}
}

// A run that is stopped resumes with its holes, and makes those that it had no
// time for.
func TestHolesSurviveAStop(t *testing.T) {
	p := newProject(t, partsYAML)
	l := p.start(engine.Options{Jobs: 1})
	l.r.OK("split", "", `0`, `1`)
	l.r.Fail("cut", "doc=0", body.KindExit, "exit status 1")
	l.r.Await("cut", "doc=1")
	if err := l.e.Quit(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if s := l.wait(); s.State != engine.StateStopped || s.Asked || s.Holes != 2 {
		t.Errorf("%+v", s)
	}
	p.state(func(s *engine.State) {
		st, err := s.Status(t.Context())
		if err != nil || st.Tasks[1].Holes != 1 || st.Tasks[3].Holes != 1 {
			t.Errorf("%+v %v", st, err)
		}
	})
	l = p.start(engine.Options{Jobs: 1})
	l.r.OK("cut", "doc=1")
	l.r.OK("sum", "doc=1", `0`)
	l.r.OK("all", "", `"all"`)
	if s := l.wait(); s.State != engine.StateComplete || s.Holes != 3 || s.Executed != 3 || s.Reused != 1 {
		t.Errorf("%+v", s)
	}
}

func TestOnErrorContinueIsAFailureAndGoesOn(t *testing.T) {
	p := fanProject(t, "on_error: continue")
	l := p.start(engine.Options{Jobs: 1})
	l.r.OK("split", "", `0`, `1`)
	l.r.Fail("work", "i=0", body.KindExit, "exit status 1")
	l.r.OK("work", "i=1", `1`)
	if s := l.wait(); s.State != engine.StateFailed || s.Failed != 1 || s.Blocked != 1 || s.Executed != 2 {
		t.Errorf("%+v", s)
	}
}

func TestMaxFailures(t *testing.T) {
	for _, policy := range []string{"stop", "continue", "hole"} {
		p := fanProject(t, "on_error: "+policy)
		l := p.start(engine.Options{Jobs: 1, MaxFailures: 2})
		l.r.OK("split", "", `0`, `1`, `2`, `3`)
		l.r.Fail("work", "i=0", body.KindExit, "exit status 1")
		l.r.OK("work", "i=1", `1`)
		l.r.Fail("work", "i=2", body.KindExit, "exit status 1")
		s := l.wait() // 3 does not start
		if s.Failed+s.Holes < 2 || s.Executed != 2 || s.Asked {
			t.Errorf("%s: %+v", policy, s)
		}
	}
}

// With holes in the first list everything below is one, and the run is complete.
func TestEverythingIsAHole(t *testing.T) {
	p := newProject(t, strings.Replace(partsYAML, `    out: Page<doc>
    exec: ["true"]`, `    out: Page<doc>
    exec: ["true"]
    on_error: hole`, 1))
	l := p.start(engine.Options{Jobs: 1})
	l.r.Fail("split", "", body.KindTimeout, "took longer than 1s")
	s := l.wait()
	if s.State != engine.StateComplete || s.Holes != 3 || s.Executed != 0 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

// holedEcho is a body that fails where it is told to, and else returns what the
// reference says.
type holedEcho struct {
	echo
	fails reference.Holes
}

func (x holedEcho) Run(ctx context.Context, slot *body.Slot, j *body.Job) (*body.Result, error) {
	if x.fails(x.t.Name, j.Coord.Indices()) {
		return nil, &body.Failure{Kind: body.KindExit, Exit: 1, Message: "exit status 1"}
	}
	return x.echo.Run(ctx, slot, j)
}

// Values and holes that an engine ends with are those of the reference, however
// often it was stopped; and when the holes are tried again and nothing fails any
// more, all is as if nothing ever had.
func TestConfluenceWithHoles(t *testing.T) {
	t.Parallel()
	n := 15
	if os.Getenv("OPERON_LONG") != "" {
		n = 600
	}
	holes, stops := int64(0), 0
	for seed := range uint64(n) {
		rng := rand.New(rand.NewPCG(seed, 10))
		decl := reference.Random(rng, reference.Limits{Tasks: 9, Dims: 4, Holes: true, Crossed: seed%3 == 0})
		for i := range decl {
			decl[i].OnError = "hole"
		}
		lengths := reference.RandomLengths(seed, 2)
		one := 2 + seed%6
		fails := reference.Holes(func(task string, at []uint32) bool {
			return uint64(reference.RandomLengths(seed, 1<<30)("hole of "+task, at))%one == 1
		})
		p := newProject(t, decl.YAML())
		pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		run := func(fails reference.Holes, o engine.Options, mayStop bool) *engine.Summary {
			o.Bodies = func(task *spec.TaskSpec) (body.Runner, error) { return holedEcho{echo{task, lengths}, fails}, nil }
			return runBodies(t, p, pl, o, rng, mayStop)
		}
		for round := 0; ; round++ {
			s := run(fails, engine.Options{}, round < 3)
			if s.State == engine.StateComplete {
				holes += s.Holes
				break
			}
			stops++
		}
		p.equals(pl, reference.EvaluateHoles(pl, lengths, fails))
		never := func(string, []uint32) bool { return false }
		if s := run(never, engine.Options{RetryHoles: true}, rng.IntN(2) == 0); s.State != engine.StateComplete {
			run(never, engine.Options{}, false)
		}
		p.equals(pl, reference.Evaluate(pl, lengths))
		if t.Failed() {
			t.Fatalf("seed %d\n%s", seed, decl)
		}
	}
	t.Logf("%d pipelines, %d holes, stopped and resumed %d times, differences: 0", n, holes, stops)
	if holes < 10 {
		t.Error("too few holes to tell anything")
	}
}

// equals holds what the state holds against what it should.
func (p *project) equals(pl *spec.Pipeline, want reference.Values) {
	p.t.Helper()
	for _, task := range pl.Tasks {
		got := map[coord.Coord]string{}
		p.state(func(s *engine.State) {
			_, err := s.Values(context.Background(), engine.Query{Entity: task.Out.Name}, func(it engine.Item) error {
				got[it.Coord], _ = it.Value.Text()
				if it.Value.Kind == value.Hole {
					got[it.Coord] = reference.Hole
				}
				return nil
			})
			if err != nil {
				p.t.Fatal(err)
			}
		})
		if diff := cmp.Diff(want[task.Out.Name], got); diff != "" {
			p.t.Errorf("%s: %s", task.Out.Name, diff)
		}
	}
}
