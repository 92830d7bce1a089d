package engine_test

import (
	"strings"
	"testing"

	"operon/engine"
	"operon/storage"
)

// released are the tasks whose values were deleted, as the data says.
func (p *project) released(name string) string {
	p.t.Helper()
	d, _, done := p.open(name)
	defer done()
	var out []string
	err := d.View(func(r *storage.Reader) error {
		headers, err := r.Headers()
		for _, h := range headers {
			if h.State == storage.Released {
				out = append(out, h.Task)
			}
		}
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.Join(out, " ")
}

// Values that are not to be kept stay as long as a job of a task that is no more
// may read them, and then go.
func TestReleaseWaitsForWhoIsGone(t *testing.T) {
	const rest = `pipeline: live
tasks:
  make: {out: Item, exec: ["true"], keep: false}
  work: {in: Item, out: Done, exec: ["true"]}
  hold: {out: Hold, exec: ["true"]}
`
	p := newProject(t, rest+"  late: {in: Item, out: Late, exec: [\"true\"]}\n")
	l := p.startStubborn("late", engine.Options{Jobs: 4})
	l.r.OK("make", "", `1`)
	l.r.OK("work", "", `2`)
	l.r.Await("late", "")
	l.r.Await("hold", "")
	l.reconcile(p, rest, "make keep, work keep, hold keep, late drop")
	await(t, "only late is pinned", func() bool { return pinned(l.whole()) == "late[0]" })
	if got := p.copied(func(*project) {}).released("live"); got != "" {
		t.Errorf("while its reader runs, the values of %s are gone", got)
	}
	l.r.OK("late", "", `3`) // nobody wants it
	await(t, "nothing is pinned", func() bool { return pinned(l.whole()) == "" })
	if got := p.copied(func(*project) {}).released("live"); got != "make" {
		t.Errorf("released: %q", got)
	}
	l.r.OK("hold", "", `0`)
	l.wait()
	p.deep("after a release")
}

// What was released is made again when a version needs it, and the holes, the
// saved files and the values of the last version are those of a fresh run.
func TestReconcileOfWhatWasReleased(t *testing.T) {
	first := `pipeline: live
pools: {narrow: 1}
tasks:
  list: {out: Item<i>, exec: ["true"], keep: false}
  make: {in: Item, for: i, out: Made, exec: ["true"], keep: false, pool: narrow, on_error: hole}
  work: {in: {m: {from: "Made<i>", holes: null}}, out: Done, exec: ["true"], pool: narrow, save: out/done.txt}
  hold: {out: Hold, exec: ["true"]}
`
	p := newProject(t, first)
	l := p.start(engine.Options{Jobs: 4})
	l.r.OK("list", "", `1`, `2`)
	l.r.OK("make", "i=0", `10`)
	l.r.Fail("make", "i=1", "exit", "no")
	if got := l.r.Args("work", ""); len(got) != 1 || got[0] != "[10,null]" {
		t.Errorf("%q", got)
	}
	l.r.OK("work", "", `"w"`)
	l.awaitDone("work", 1)
	l.r.Await("hold", "")
	await(t, "nothing is pinned", func() bool { return pinned(l.whole()) == "" })
	await(t, "it is saved", func() bool { return p.saved("out")["done.txt"] == "w\n" })
	l.reconcile(p, strings.Replace(strings.Replace(first, "narrow: 1", "narrow: 2", 1), `["true"], pool: narrow, save`, `["true", "2"], pool: narrow, save`, 1),
		"list replace released, make replace released, work replace fingerprint, hold keep")
	l.r.OK("list", "", `1`, `2`)
	l.r.OK("make", "i=0", `11`)
	l.r.OK("make", "i=1", `12`)
	if got := l.r.Args("work", ""); len(got) != 1 || got[0] != "[11,12]" {
		t.Errorf("%q", got)
	}
	l.r.OK("work", "", `"v"`)
	l.r.OK("hold", "", `0`)
	if s := l.wait(); s.State != engine.StateComplete || s.Holes != 0 {
		t.Errorf("%+v", s)
	}
	if got := p.saved("out")["done.txt"]; got != "v\n" {
		t.Errorf("saved %q", got)
	}
	if got := p.released("live"); got != "list make" {
		t.Errorf("released: %q", got)
	}
	p.deep("after what was released was made again")
}
