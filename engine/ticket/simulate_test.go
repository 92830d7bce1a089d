package ticket

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"operon/engine/ticket/reference"
	"operon/spec"
	"operon/spec/coord"
)

// ticketAt names a job of a simulation.
type ticketAt struct {
	task int
	c    coord.Coord
}

// simulation runs a pipeline on a Table, job by job in an order that its caller
// picks, and keeps the naive model beside it: tickets that explode one by one.
type simulation struct {
	p       *spec.Pipeline
	table   *Table
	lengths reference.Lengths
	fails   reference.Holes // nil: no job
	ready   []ticketAt
	holed   map[ticketAt]bool // put out as holes
	have    reference.Values
	model   [][]coord.Coord // of each task: its tickets, unbound slots as such
	done    []map[coord.Coord]bool
	known   map[string]uint32 // dimension@coordinate
	jobs    int
}

func load(t testing.TB, p reference.Pipeline) *spec.Pipeline {
	t.Helper()
	out, err := spec.Load([]byte(p.YAML()), spec.Options{File: "reference.yaml"})
	if err != nil {
		t.Fatalf("%v\n%s", err, p.YAML())
	}
	return out
}

func newSimulation(p *spec.Pipeline, lengths reference.Lengths, r rules) *simulation {
	s := &simulation{p: p, lengths: lengths, have: reference.Values{}, known: map[string]uint32{}, holed: map[ticketAt]bool{}}
	for _, t := range p.Tasks {
		s.have[t.Out.Name] = map[coord.Coord]string{}
		free := make([]uint32, len(t.Context))
		for i := range free {
			free[i] = unbound
		}
		s.model = append(s.model, []coord.Coord{coord.Of(free...)})
		s.done = append(s.done, map[coord.Coord]bool{})
	}
	var runnable []Range
	s.table, runnable = newTable(p, r)
	s.push(runnable)
	return s
}

func (s *simulation) push(runnable []Range) {
	for _, r := range runnable {
		for i := r.Lo; i < r.Hi; i++ {
			job := ticketAt{r.Task, At(len(s.p.Tasks[r.Task].Context), r.Prefix, i)}
			s.ready = append(s.ready, job)
			s.holed[job] = r.Hole
		}
	}
}

// finish ends the n-th ready job. The error says what is wrong with that.
func (s *simulation) finish(n int) (err error) {
	job := s.ready[n]
	s.ready = append(s.ready[:n], s.ready[n+1:]...)
	task := s.p.Tasks[job.task]
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("task %s at %q ran early: %v", task.Name, job.c.Format(task.ContextNames()), p)
		}
	}()
	if s.done[job.task][job.c] {
		return fmt.Errorf("task %s at %q ran twice", task.Name, job.c.Format(task.ContextNames()))
	}
	value := reference.Job(task, reference.Bind(task.Context, job.c), s.knownLengths, s.have)
	if takes := value == reference.Hole; takes != s.holed[job] || takes != s.table.TakesHole(job.task, job.c) {
		return fmt.Errorf("task %s at %q takes a hole: %v, and was put out as one: %v", task.Name, job.c.Format(task.ContextNames()), takes, s.holed[job])
	}
	if value == reference.Hole || s.fails != nil && s.fails(task.Name, job.c.Indices()) {
		return s.hole(task, job)
	}
	extent := uint32(1)
	if task.Spawn == nil {
		s.have[task.Out.Name][job.c] = value
	} else {
		extent = s.lengths(task.Spawn.Name, job.c.Indices())
		for i := range extent {
			s.have[task.Out.Name][job.c.Append(i)] = reference.ItemOf(value, i)
		}
		s.explode(task.Spawn, job.c, extent)
	}
	s.done[job.task][job.c] = true
	s.jobs++
	runnable, err := s.table.OnJob(job.task, job.c, extent)
	s.push(runnable)
	return err
}

// hole ends a job as a hole, and checks what the table says is the cause.
func (s *simulation) hole(task *spec.TaskSpec, job ticketAt) error {
	if s.holed[job] {
		if _, err := s.table.OnJob(job.task, job.c, 1); err == nil {
			return fmt.Errorf("task %s at %q takes a hole, and could be done", task.Name, job.c.Format(task.ContextNames()))
		}
	}
	if n, at := s.table.Cause(job.task, job.c); s.fails != nil && !s.fails(s.p.Tasks[n].Name, at.Indices()) {
		return fmt.Errorf("task %s at %q is a hole because of %s at %v, which did not fail", task.Name, job.c.Format(task.ContextNames()), s.p.Tasks[n].Name, at.Indices())
	}
	s.have[task.Out.Name][job.c] = reference.Hole
	if task.Spawn != nil {
		s.explode(task.Spawn, job.c, 0)
	}
	s.done[job.task][job.c] = true
	runnable, err := s.table.OnHole(job.task, job.c)
	s.push(runnable)
	return err
}

func (s *simulation) knownLengths(dim string, at []uint32) uint32 {
	n, ok := s.known[fmt.Sprint(dim, at)]
	if !ok {
		panic(fmt.Sprintf("length of %s at %v is not known", dim, at))
	}
	return n
}

func (s *simulation) explode(d *spec.Dim, c coord.Coord, n uint32) {
	s.known[fmt.Sprint(d.Name, c.Indices())] = n
	for i, t := range s.p.Tasks {
		pos := -1
		for k, x := range t.Context {
			if x == d {
				pos = k
			}
		}
		if pos < 0 {
			continue
		}
		var next []coord.Coord
		for _, ticket := range s.model[i] {
			at := reference.Bind(t.Context, ticket)
			if ticket.At(pos) != unbound || reference.Coord(d.Prec, at) != c {
				next = append(next, ticket)
				continue
			}
			for x := range n {
				at[d] = x
				next = append(next, reference.Coord(t.Context, at))
			}
		}
		s.model[i] = next
	}
}

// check holds the table against the model: the number of tickets, and for every
// share quota = agreeing producer tickets, done = those of them that are done.
func (s *simulation) check() error {
	for i, t := range s.table.tasks {
		if got, want := t.counts.Tickets, int64(len(s.model[i])); got != want {
			return fmt.Errorf("task %s has %d tickets, want %d", t.spec.Name, got, want)
		}
		for _, r := range t.refs {
			for pins, share := range r.shares {
				quota, done := uint64(0), uint64(0)
				for _, ticket := range s.model[r.up.index] {
					if ticket.Project(r.pinsUp) != pins {
						continue
					}
					quota++
					if s.done[r.up.index][ticket] {
						done++
					}
				}
				if share.quota != quota || share.done != done {
					return fmt.Errorf("task %s input %s at %v: done %d of %d, want %d of %d",
						t.spec.Name, t.spec.In[r.index], pins.Indices(), share.done, share.quota, done, quota)
				}
			}
		}
	}
	return nil
}

// verify compares what the simulation ended with against the reference.
func (s *simulation) verify() error {
	if !s.table.Complete() {
		return fmt.Errorf("stuck: %s", s.table.Waits())
	}
	fails := s.fails
	if fails == nil {
		fails = func(string, []uint32) bool { return false }
	}
	want := reference.EvaluateHoles(s.p, s.lengths, fails)
	holes := int64(0)
	for _, t := range s.p.Tasks {
		got := s.have[t.Out.Name]
		if len(got) != len(want[t.Out.Name]) {
			return fmt.Errorf("entity %s has %d values, want %d", t.Out.Name, len(got), len(want[t.Out.Name]))
		}
		holes += s.table.Counts(t.Index).Holes
		for c, v := range want[t.Out.Name] {
			if v == reference.Hole {
				holes--
			}
			if got[c] != v {
				return fmt.Errorf("entity %s at %q is %q, want %q", t.Out.Name, c.Format(t.Out.DimNames()), got[c], v)
			}
		}
	}
	if holes != 0 {
		return fmt.Errorf("the table counts %d holes too many", holes)
	}
	return nil
}

// run finishes ready jobs in the order that pick says, checking after each.
func (s *simulation) run(pick func(n int) int, checked bool) error {
	for len(s.ready) > 0 {
		if err := s.finish(pick(len(s.ready))); err != nil {
			return err
		}
		if checked {
			if err := s.check(); err != nil {
				return err
			}
		}
	}
	return s.verify()
}

// picks are the orders that hide races worst: any, newest first, oldest first,
// and last task first.
func picks(rng *rand.Rand) map[string]func(n int) int {
	return map[string]func(n int) int{
		"random": rng.IntN,
		"newest": func(n int) int { return n - 1 },
		"oldest": func(n int) int { return 0 },
	}
}

func mustRun(t *testing.T, text string, lengths reference.Lengths, seeds int) {
	t.Helper()
	p := load(t, reference.Parse(text))
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		for name, pick := range picks(rng) {
			s := newSimulation(p, lengths, rules{})
			if err := s.run(pick, true); err != nil {
				t.Fatalf("order %s, seed %d: %v\n%s", name, seed, err, strings.TrimSpace(text))
			}
		}
	}
}

// fixed gives every list of a dimension the same length, or the lengths by the
// last index of its coordinate.
func fixed(lengths map[string][]uint32) reference.Lengths {
	return func(dim string, at []uint32) uint32 {
		l := lengths[dim]
		if len(at) == 0 || len(l) == 1 {
			return l[0]
		}
		return l[int(at[len(at)-1])%len(l)]
	}
}
