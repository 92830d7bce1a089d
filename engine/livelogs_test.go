package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"operon/engine"
	"operon/engine/body"
	"operon/spec"
)

// stubborn is a body whose jobs take no notice when they are to stop.
type stubborn struct{ body.Runner }

func (s stubborn) Run(ctx context.Context, slot *body.Slot, j *body.Job) (*body.Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
	defer cancel() // by then the test has failed
	return s.Runner.Run(ctx, slot, j)
}

// startStubborn is start with such bodies for one task.
func (p *project) startStubborn(task string, o engine.Options) *live {
	p.t.Helper()
	return p.startWith(o, func(inner bodies) bodies {
		return func(t *spec.TaskSpec) (body.Runner, error) {
			r, err := inner(t)
			if t.Name == task {
				r = stubborn{r}
			}
			return r, err
		}
	})
}

// A task runs again only when nothing of what it was before does, whatever came in
// between: versions that never ran, or that it was gone for a while.
func TestNoTwoWriters(t *testing.T) {
	probe := "  probe%d: {in: Item, for: i, out: Probe%d, exec: [\"true\"]}\n"
	version := func(work string) string { return fmt.Sprintf(livePipeline, work, "", "") }
	gone := strings.Split(version(""), "  work:")[0]
	for name, c := range map[string][2][2]string{
		"a version in between": {
			{version(`, "2"`), "split keep, work replace fingerprint, sum replace upstream, probe0 create"},
			{version(`, "3"`), "split keep, work replace fingerprint, sum replace upstream, probe1 create, probe0 drop"},
		},
		"gone in between": {
			{gone, "split keep, probe0 create, work drop, sum drop"},
			{version(`, "2"`), "split keep, work create, sum create, probe1 create, probe0 drop"},
		},
	} {
		p := newProject(t, version(""))
		l := p.startStubborn("work", engine.Options{Jobs: 8})
		l.r.OK("split", "", `1`)
		l.r.Await("work", "i=0")
		for n, step := range c {
			l.reconcile(p, step[0]+fmt.Sprintf(probe, n, n), step[1])
			l.r.Await(fmt.Sprintf("probe%d", n), "i=0") // is begun after what the file has before it
		}
		if s := l.status("work"); s.Running != 0 {
			t.Errorf("%s: %+v", name, s)
		}
		l.r.OK("work", "i=0", `1`) // of the first version: nobody wants it
		l.r.OK("work", "i=0", `2`)
		l.r.OK("sum", "", `2`)
		l.r.OK("probe1", "i=0", `0`)
		if s := l.wait(); s.State != engine.StateComplete || p.values("Done") != "i=0 2\n" {
			t.Errorf("%s: %+v %q", name, s, p.values("Done"))
		}
		p.deep(name)
	}
}
