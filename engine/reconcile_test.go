package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"operon/engine/ticket/reference"
	"operon/spec"
	"operon/spec/value"
)

func loadSpec(t *testing.T, yaml string) *spec.Pipeline {
	t.Helper()
	p, err := spec.Load([]byte(yaml), spec.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, yaml)
	}
	return p
}

// factsOf are what a complete run of p leaves.
func factsOf(p *spec.Pipeline) facts {
	f := facts{old: map[string]oldFlow{}, content: map[string]bool{}, unfinished: map[string]bool{}, saves: saves{}}
	for n, t := range p.Tasks {
		o := oldFlow{ID: uint64(n + 1), Task: t.Name, Fingerprint: t.Fingerprint, Dims: t.ContextNames(), Fields: t.Fields}
		if t.Spawn != nil {
			o.Spawn = t.Spawn.Name
		}
		f.old[t.Name] = o
		if t.Body.Kind == spec.BodySource {
			f.content[t.Name] = true
		}
	}
	return f
}

// said is what was decided, one task after another in file order, then what is
// dropped.
func said(p *spec.Pipeline, decisions []decision, orphans []oldFlow) string {
	var out []string
	for n, d := range decisions {
		out = append(out, strings.TrimSpace(p.Tasks[n].Name+" "+string(d.Action)+" "+string(d.Rule)))
	}
	for _, o := range orphans {
		out = append(out, o.Task+" drop")
	}
	return strings.Join(out, ", ")
}

const reconciledYAML = `pipeline: p
tasks:
  list: {out: Item<i>, source: {count: 2}}
  work: {in: Item, for: i, out: Done, exec: ["true"], keep: false}
  sum: {in: Done<i>, out: Sum, exec: ["true"]}
  side: {in: Item, for: i, out: Side, exec: ["true"], cache: false}
`

// Each rule, with what hangs on it: the first one that fails is named.
func TestReconcileRules(t *testing.T) {
	whole := loadSpec(t, reconciledYAML)
	old := func(f *facts, task string, change func(*oldFlow)) {
		o := f.old[task]
		change(&o)
		f.old[task] = o
	}
	for name, c := range map[string]struct {
		change func(f *facts)
		want   string
	}{
		"nothing changed": {func(*facts) {}, "list keep, work keep, sum keep, side keep"},
		"never ran":       {func(f *facts) { clear(f.old) }, "list create, work create, sum create, side create"},
		"a task is new":   {func(f *facts) { delete(f.old, "sum") }, "list keep, work keep, sum create, side keep"},
		"an upstream is new": {func(f *facts) { delete(f.old, "work") },
			"list keep, work create, sum replace upstream, side keep"},
		"shape": {func(f *facts) { old(f, "work", func(o *oldFlow) { o.Dims = []string{"j"} }) },
			"list keep, work replace shape, sum replace upstream, side keep"},
		"spawned dimension": {func(f *facts) { old(f, "list", func(o *oldFlow) { o.Spawn = "j" }) },
			"list replace shape, work replace upstream, sum replace upstream, side replace upstream"},
		"fingerprint": {func(f *facts) { old(f, "work", func(o *oldFlow) { o.Fingerprint = value.Digest{1} }) },
			"list keep, work replace fingerprint, sum replace upstream, side keep"},
		"shape comes before fingerprint": {func(f *facts) {
			old(f, "work", func(o *oldFlow) { o.Dims, o.Fingerprint = nil, value.Digest{1} })
		}, "list keep, work replace shape, sum replace upstream, side keep"},
		"fingerprint comes before upstream": {func(f *facts) {
			old(f, "list", func(o *oldFlow) { o.Fingerprint = value.Digest{1} })
			old(f, "sum", func(o *oldFlow) { o.Fingerprint = value.Digest{1} })
		}, "list replace fingerprint, work replace upstream, sum replace fingerprint, side replace upstream"},
		"dropped": {func(f *facts) { old(f, "work", func(o *oldFlow) { o.Dropped = true }) },
			"list keep, work replace dropped, sum replace upstream, side keep"},
		"cache, in a new run": {func(f *facts) { f.newRun = true }, "list keep, work keep, sum keep, side replace cache"},
		"source": {func(f *facts) { f.content["list"] = false },
			"list replace source, work replace upstream, sum replace upstream, side replace upstream"},
		"released, and nobody needs it": {func(f *facts) { old(f, "work", func(o *oldFlow) { o.Released = true }) },
			"list keep, work keep, sum keep, side keep"},
		"released, and a consumer is not done": {func(f *facts) {
			old(f, "work", func(o *oldFlow) { o.Released = true })
			f.unfinished["sum"] = true
		}, "list keep, work replace released, sum replace upstream, side keep"},
		"released, and a consumer is replaced": {func(f *facts) {
			old(f, "work", func(o *oldFlow) { o.Released = true })
			old(f, "sum", func(o *oldFlow) { o.Fingerprint = value.Digest{1} })
		}, "list keep, work replace released, sum replace fingerprint, side keep"},
		"released, and it is not done itself": {func(f *facts) {
			old(f, "work", func(o *oldFlow) { o.Released = true })
			f.unfinished["work"] = true
		}, "list keep, work replace released, sum replace upstream, side keep"},
		"orphans, in the order of their ids": {func(f *facts) {
			f.old["b"] = oldFlow{ID: 7, Task: "b"}
			f.old["a"] = oldFlow{ID: 9, Task: "a"}
		}, "list keep, work keep, sum keep, side keep, b drop, a drop"},
	} {
		f := factsOf(whole)
		c.change(&f)
		d, orphans := reconcile(whole, f)
		if got := said(whole, d, orphans); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}

// Of random pipelines with random facts: what is decided does not depend on the
// order of the file, an unchanged pipeline keeps everything, and what is kept has
// all that it takes kept.
func TestReconcileProperties(t *testing.T) {
	t.Parallel()
	kept, replaced := 0, 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 61))
		decl := reference.Random(rng, reference.Limits{Tasks: 9, Dims: 3})
		p := loadSpec(t, decl.YAML())
		f := factsOf(p)
		same, orphans := reconcile(p, f)
		for _, d := range same {
			if d.Action != actionKeep || len(orphans) > 0 {
				t.Fatalf("seed %d: unchanged, and %s", seed, said(p, same, orphans))
			}
		}
		for _, task := range p.Tasks {
			o := f.old[task.Name]
			switch rng.IntN(12) {
			case 0:
				delete(f.old, task.Name)
				continue
			case 1:
				o.Fingerprint = value.Digest{1}
			case 2:
				o.Dropped = true
			case 3:
				o.Dims = append(slices.Clone(o.Dims), "z")
			case 4, 5:
				o.Released = true
			case 6:
				f.unfinished[task.Name] = true
			}
			f.old[task.Name] = o
		}
		f.old["gone"] = oldFlow{ID: 1000, Task: "gone"}
		d, orphans := reconcile(p, f)
		for _, task := range p.Tasks {
			one := d[task.Index]
			if one.Action != actionKeep {
				replaced++
				continue
			}
			kept++
			for _, up := range task.AllUpstreamTasks() {
				if d[up.Index].Action != actionKeep {
					t.Errorf("seed %d: %s is kept, and %s is not", seed, task.Name, up.Name)
				}
			}
			if o := f.old[task.Name]; o.Dropped || o.Fingerprint != task.Fingerprint || o.ID != one.Old {
				t.Errorf("seed %d: %s is kept, and was %+v", seed, task.Name, o)
			}
		}
		shuffled := slices.Clone(decl)
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		q := loadSpec(t, shuffled.YAML())
		e, others := reconcile(q, f)
		byName := func(p *spec.Pipeline, d []decision) []string {
			var out []string
			for n, one := range d {
				out = append(out, fmt.Sprintln(p.Tasks[n].Name, one.Action, one.Rule, one.Old))
			}
			slices.Sort(out)
			return out
		}
		if got, want := byName(q, e), byName(p, d); !slices.Equal(got, want) || said(p, nil, orphans) != said(q, nil, others) {
			t.Errorf("seed %d: in another order\n%swant\n%s", seed, got, want)
		}
		if t.Failed() {
			t.Fatal(decl.YAML())
		}
	}
	t.Logf("%d kept, %d replaced or created", kept, replaced)
}
