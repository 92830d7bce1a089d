package engine_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"operon/engine"
	"operon/engine/body"
	"operon/engine/ticket/reference"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
)

// echo is a body that returns what the reference says: a digest of its
// arguments, as many times as the list is to be long.
type echo struct {
	t       *spec.TaskSpec
	lengths reference.Lengths
}

func (e echo) Run(_ context.Context, _ *body.Slot, j *body.Job) (*body.Result, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s@%s", e.t.Name, j.Coord.Format(e.t.ContextNames()))
	for _, a := range j.Args {
		b.WriteByte(';')
		if a.Slice == nil {
			text, _ := a.Value.Text()
			b.WriteString(text)
			continue
		}
		b.WriteString(nested(a.Slice))
	}
	sum := sha256.Sum256([]byte(b.String()))
	v := hex.EncodeToString(sum[:8])
	res := &body.Result{}
	if e.t.Spawn == nil {
		res.Items = []value.Value{value.FromText(v)}
		return res, nil
	}
	for i := range e.lengths(e.t.Spawn.Name, j.Coord.Indices()) {
		res.Items = append(res.Items, value.FromText(reference.ItemOf(v, i)))
	}
	return res, nil
}

// nested prints a slice as the reference does: a blank behind each item.
func nested(s *value.Slice) string {
	at := make([]int, len(s.Lens)+1)
	var b strings.Builder
	var list func(level int)
	list = func(level int) {
		n := s.Lens[level][at[level]]
		at[level]++
		if n == value.NoList {
			b.WriteString("null")
			at[len(s.Lens)]++
			return
		}
		b.WriteByte('[')
		for range n {
			if level+1 < len(s.Lens) {
				list(level + 1)
			} else {
				item := s.Items[at[len(s.Lens)]]
				at[len(s.Lens)]++
				text, ok := item.Text()
				if !ok {
					text = "null" // a hole
				}
				b.WriteString(text)
			}
			b.WriteByte(' ')
		}
		b.WriteByte(']')
	}
	list(0)
	return b.String()
}

// The entities that an engine ends with depend on nothing but the pipeline and
// what the bodies return: not on how many jobs run at once, nor on how often it
// was stopped and resumed.
func TestConfluence(t *testing.T) {
	t.Parallel()
	n := 16
	if os.Getenv("OPERON_LONG") != "" {
		n = 600
	}
	jobs, stops := int64(0), 0
	for seed := range uint64(n) {
		rng := rand.New(rand.NewPCG(seed, 9))
		decl := reference.Random(rng, reference.Limits{Tasks: 9, Dims: 4, Crossed: seed%2 == 0})
		lengths := reference.RandomLengths(seed, 2)
		p := newProject(t, decl.YAML())
		pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := reference.Evaluate(pl, lengths)
		for round := 0; ; round++ {
			s := runEcho(t, p, pl, lengths, rng, round < 3)
			jobs += s.Executed
			if s.State == engine.StateComplete {
				break
			}
			stops++
		}
		for _, task := range pl.Tasks {
			checkEntity(t, p, task, want[task.Out.Name], decl)
		}
		if t.Failed() {
			t.Fatalf("seed %d\n%s", seed, decl)
		}
	}
	t.Logf("%d pipelines, %d jobs, stopped and resumed %d times, differences: 0", n, jobs, stops)
}

// runEcho runs the pipeline, and stops it at a random event if it may.
func runEcho(t *testing.T, p *project, pl *spec.Pipeline, lengths reference.Lengths, rng *rand.Rand, stop bool) *engine.Summary {
	t.Helper()
	return runBodies(t, p, pl, engine.Options{
		Bodies: func(task *spec.TaskSpec) (body.Runner, error) { return echo{task, lengths}, nil },
	}, rng, stop)
}

// runBodies runs the pipeline with the bodies of o, and stops it at a random
// event if it may.
func runBodies(t *testing.T, p *project, pl *spec.Pipeline, o engine.Options, rng *rand.Rand, stop bool) *engine.Summary {
	t.Helper()
	left := rng.IntN(12)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Dir, o.Jobs = p.dir, 1+rng.IntN(4)
	o.Events = func(ev engine.Event) {
		if left--; left == 0 && stop {
			cancel()
		}
	}
	e, err := engine.New(pl, o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

func checkEntity(t *testing.T, p *project, task *spec.TaskSpec, want map[coord.Coord]string, decl reference.Pipeline) {
	t.Helper()
	got := map[string]string{}
	for line := range strings.Lines(p.values(task.Out.Name)) {
		at, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok {
			at, text = "", at
		}
		text, _ = strconv.Unquote(text)
		got[at] = text
	}
	if len(got) != len(want) {
		t.Errorf("%s has %d values, want %d", task.Out.Name, len(got), len(want))
	}
	for c, v := range want {
		at := c.Format(task.Out.DimNames())
		if got[at] != v {
			t.Errorf("%s at %q is %q, want %q", task.Out.Name, at, got[at], v)
		}
	}
}
