package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"operon/engine"
)

// planned is what a run would do: task, action, jobs to run and to reuse, and
// why, a line a task.
func (p *project) planned() string {
	p.t.Helper()
	pl, err := engine.LoadFile(p.file, engine.LoadOptions{LookupEnv: os.LookupEnv})
	if err != nil {
		p.t.Fatal(err)
	}
	plan, err := engine.PlanRun(context.Background(), pl, engine.Options{Dir: p.dir})
	if err != nil {
		p.t.Fatal(err)
	}
	var b strings.Builder
	for _, t := range plan.Tasks {
		jobs := "?"
		if t.Jobs != nil {
			jobs = fmt.Sprintf("%d/%d", t.Jobs.Run, t.Jobs.Reuse)
		}
		fmt.Fprintf(&b, "%s %s %s %s\n", t.Task, t.Action, jobs, t.Reason)
	}
	return b.String()
}

func (p *project) wantPlan(what, want string) {
	p.t.Helper()
	if got := p.planned(); strings.TrimSpace(got) != strings.TrimSpace(want) {
		p.t.Errorf("%s: the plan is\n%swant\n%s", what, got, want)
	}
}

func TestPlan(t *testing.T) {
	p := newProject(t, counted)
	p.write("data.txt", "alpha\nbeta\ngamma\n")
	p.wantPlan("before anything", `
lines run 1/0 never ran
upper unknown ? never ran
first unknown ? never ran
all run 1/0 never ran`)
	if _, err := os.Stat(filepath.Join(p.dir, ".operon")); !os.IsNotExist(err) {
		t.Error("a plan made a state directory")
	}
	p.mustRun(engine.Options{})
	p.wantPlan("after a run", `
lines keep 0/1 
upper keep 0/3 
first keep 0/3 
all keep 0/1`)
	p.edit("# a comment\n" + counted)
	p.wantPlan("a comment", `
lines keep 0/1 
upper keep 0/3 
first keep 0/3 
all keep 0/1`)
	p.edit(strings.Replace(counted, "cut -c1", "cut -c2", 1))
	p.wantPlan("a body edited", `
lines keep 0/1 
upper keep 0/3 
first replace 3/0 body: echo first >> ran; cut -c1 → echo first >> ran; cut -c2
all replace 1/0 it needs first (first: body: echo first >> ran; cut -c1 → echo first >> ran; cut -c2)`)
	p.edit(counted)
	p.write("data.txt", "delta\nalpha\nbeta\ngamma\n")
	p.wantPlan("a line in front", `
lines replace 1/0 its source changed: data.txt
upper unknown ? it needs lines (lines: its source changed: data.txt)
first unknown ? it needs upper (upper ← lines: its source changed: data.txt)
all replace 1/0 it needs first (first ← upper ← lines: its source changed: data.txt)`)
	p.write("data.txt", "alpha\nbeta\ngamma\n")
	p.edit(strings.Replace(counted, "  all:\n", "  total:\n", 1))
	p.wantPlan("renamed", `
lines keep 0/1 
upper keep 0/3 
first keep 0/3 
total run 0/1 never ran
all drop 0/0 the pipeline has it no more`)
	if got := p.ran(); got["upper"] != 3 {
		t.Errorf("%v", got)
	}
}

// What a plan says, the run does.
func TestPlanAgreesWithTheRun(t *testing.T) {
	t.Parallel()
	p := newProject(t, counted)
	p.write("data.txt", "a\nb\nc\nb\n")
	p.mustRun(engine.Options{})
	for n, edit := range []string{
		strings.Replace(counted, "tr a-z A-Z", "tr a-y A-Y", 1),
		strings.Replace(counted, "cut -c1", "cut -c1-1", 1),
		counted,
		strings.Replace(counted, "tr -d", "tr -s", 1),
	} {
		p.edit(edit)
		pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := engine.PlanRun(context.Background(), pl, engine.Options{Dir: p.dir})
		if err != nil {
			t.Fatal(err)
		}
		s := p.mustRun(engine.Options{})
		for i, task := range plan.Tasks {
			got := s.Tasks[i]
			if task.Jobs == nil || task.Jobs.Run < got.Executed || !task.AtMost && task.Jobs.Run != got.Executed {
				text, _ := json.Marshal(task)
				t.Errorf("edit %d: planned %s, executed %d, reused %d", n, text, got.Executed, got.Reused)
			}
		}
	}
}

func TestARunThatWasStoppedIsResumedWithItsParams(t *testing.T) {
	p := newProject(t, `pipeline: p
params:
  n: {default: 1, type: int}
tasks:
  a: {out: A, exec: [echo, "{n}"]}
  b: {in: A, out: B, exec: ["false"]}
`)
	load := func(o engine.LoadOptions) string {
		t.Helper()
		pl, err := engine.LoadFile(p.file, o)
		if err != nil {
			t.Fatal(err)
		}
		return pl.Param("n").Text()
	}
	pl, err := engine.LoadFile(p.file, engine.LoadOptions{Params: map[string]string{"n": "7"}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(pl, engine.Options{Dir: p.dir})
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Run(context.Background())
	if err != nil || s.State != engine.StateFailed {
		t.Fatalf("%+v %v", s, err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if n := load(engine.LoadOptions{Remember: true}); n != "7" {
		t.Errorf("n is %s on the way back, want 7", n)
	}
	if n := load(engine.LoadOptions{Remember: true, Params: map[string]string{"n": "3"}}); n != "3" {
		t.Errorf("n is %s where 3 is asked for", n)
	}
	if n := load(engine.LoadOptions{}); n != "1" {
		t.Errorf("n is %s, not the default", n)
	}
}
