package engine_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"operon/engine"
	"operon/engine/body"
	"operon/engine/ticket/reference"
	"operon/spec"
	"operon/spec/value"
	"operon/storage"
)

// edited is a random pipeline that is edited between runs. Each task has a salt,
// which is part of its body.
type edited struct {
	decl reference.Pipeline
	salt map[string]int // by task
}

// yaml is the pipeline with the salts in.
func (e *edited) yaml() string {
	text := e.decl.YAML()
	for task, salt := range e.salt {
		text = strings.Replace(text, "[\"true\", "+task, fmt.Sprintf("[\"true\", s%d, %s", salt, task), 1)
	}
	return strings.Replace(text, "pipeline: reference", "pipeline: edited", 1)
}

// salted is a body whose values follow from its text and its arguments, and whose
// lists are as long as these say, from 0 to 2.
type salted struct{ t *spec.TaskSpec }

func (s salted) Run(_ context.Context, _ *body.Slot, j *body.Job) (*body.Result, error) {
	var b strings.Builder
	for _, arg := range s.t.Body.Argv {
		b.WriteString(arg.String() + " ")
	}
	b.WriteString(j.Coord.Format(s.t.ContextNames()))
	// By name, as the order of the inputs is no part of a task.
	for n, a := range j.Args {
		fmt.Fprintf(&b, ";%s=", s.t.In[n].Arg)
		if a.Slice != nil {
			b.WriteString(nested(a.Slice))
			continue
		}
		text, _ := a.Value.Text()
		b.WriteString(text)
	}
	sum := sha256.Sum256([]byte(b.String()))
	v := hex.EncodeToString(sum[:6])
	if s.t.Spawn == nil {
		return &body.Result{Items: []value.Value{value.FromText(v)}}, nil
	}
	res := &body.Result{}
	for i := range uint32(sum[7] % 3) {
		res.Items = append(res.Items, value.FromText(reference.ItemOf(v, i)))
	}
	return res, nil
}

// edit changes one thing: a salt, the order of the file, a task that nothing
// needs, or one more; or takes an earlier state back.
func (e *edited) edit(rng *rand.Rand, before []edited) (what string) {
	switch rng.IntN(5) {
	case 0:
		rng.Shuffle(len(e.decl), func(i, j int) { e.decl[i], e.decl[j] = e.decl[j], e.decl[i] })
		return "reorder"
	case 1:
		used := map[string]bool{}
		for _, d := range e.decl {
			for _, in := range d.In {
				used[in.Entity] = true
			}
			for _, o := range e.decl {
				if d.Spawn != "" && slices.Contains(o.For, d.Spawn) {
					used[d.Out] = true
				}
				for _, in := range o.In {
					if slices.Contains(in.Slice, d.Spawn) {
						used[d.Out] = true
					}
				}
			}
		}
		for i, d := range e.decl {
			if !used[d.Out] && len(e.decl) > 1 {
				e.decl = slices.Delete(e.decl, i, i+1)
				return "remove " + d.Task
			}
		}
		fallthrough
	case 2:
		d := e.decl[rng.IntN(len(e.decl))]
		n := fmt.Sprintf("%d", rng.IntN(1000))
		for slices.ContainsFunc(e.decl, func(d reference.Decl) bool { return d.Task == "x"+n }) {
			n += "0" // the name is taken
		}
		e.decl = append(e.decl, reference.Decl{Task: "x" + n, Out: "X" + n, In: []reference.Ref{{Entity: d.Out}}, For: dimsOf(d)})
		return "add x" + n
	case 3:
		if len(before) > 0 {
			*e = before[rng.IntN(len(before))].clone()
			return "undo"
		}
		fallthrough
	default:
		d := e.decl[rng.IntN(len(e.decl))]
		e.salt[d.Task] = rng.IntN(4)
		return "salt " + d.Task
	}
}

func dimsOf(d reference.Decl) []string {
	dims := slices.Clone(d.For)
	if d.Spawn != "" {
		dims = append(dims, d.Spawn)
	}
	return dims
}

func (e *edited) clone() edited {
	out := edited{decl: slices.Clone(e.decl), salt: map[string]int{}}
	for k, v := range e.salt {
		out.salt[k] = v
	}
	return out
}

// After any edits a run ends with what a fresh run ends with, and executes just
// the jobs whose key was never seen.
func TestRandomEdits(t *testing.T) {
	t.Parallel()
	n := 6
	if os.Getenv("OPERON_LONG") != "" {
		n = 200
	}
	runs, executed, reused := 0, int64(0), int64(0)
	for seed := range uint64(n) {
		rng := rand.New(rand.NewPCG(seed, 31))
		e := edited{decl: reference.Random(rng, reference.Limits{Tasks: 7, Dims: 3}), salt: map[string]int{}}
		p := newProject(t, e.yaml())
		seen := map[value.Digest]bool{}
		var before []edited
		var story []string
		for range 6 {
			p.edit(e.yaml())
			s := runSalted(t, p)
			fresh := newProject(t, e.yaml())
			runSalted(t, fresh)
			for _, d := range e.decl {
				if got, want := p.values(d.Out), fresh.values(d.Out); got != want {
					t.Errorf("%s is\n%swant\n%s", d.Out, got, want)
				}
			}
			unseen := int64(0)
			for _, key := range keysOf(t, p.stateDir("edited")) {
				if !seen[key] {
					seen[key] = true
					unseen++
				}
			}
			if s.Executed != unseen {
				t.Errorf("executed %d, and %d keys were never seen", s.Executed, unseen)
			}
			if t.Failed() {
				t.Fatalf("seed %d, after %v:\n%s", seed, story, e.yaml())
			}
			runs, executed, reused = runs+1, executed+s.Executed, reused+s.Reused
			before = append(before, e.clone())
			story = append(story, e.edit(rng, before))
			if _, err := spec.Load([]byte(e.yaml()), spec.Options{}); err != nil {
				t.Fatalf("%v\n%s", err, e.yaml())
			}
		}
	}
	t.Logf("%d runs, %d jobs executed, %d reused, differences: 0", runs, executed, reused)
}

func runSalted(t *testing.T, p *project) *engine.Summary {
	t.Helper()
	s := p.mustRun(engine.Options{Jobs: 3, Bodies: func(task *spec.TaskSpec) (body.Runner, error) { return salted{task}, nil }})
	if s.State != engine.StateComplete {
		t.Fatalf("%+v", s)
	}
	return s
}

// keysOf are the job keys of the current dataflows.
func keysOf(t *testing.T, dir string) []value.Digest {
	t.Helper()
	s, err := storage.Open(filepath.Join(dir), storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out []value.Digest
	err = s.View(func(r *storage.Reader) error {
		headers, err := r.Headers()
		if err != nil {
			return err
		}
		for _, h := range headers {
			if h.State != storage.Current {
				continue
			}
			if err := r.Records(h.ID, "", func(rec storage.Record) error { out = append(out, rec.Key); return nil }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
