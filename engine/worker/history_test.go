package worker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"operon/engine/frontier"
)

// model is what commands come to, as the doc comments have it.
type model struct {
	open      bool // a session that is not complete
	begun     bool
	gathered  []Command
	installed map[uint64]modelFlow
	ended     map[uint64]frontier.Outcome
	next      uint64
}

type modelFlow struct {
	df        *Dataflow
	scheduled bool
}

func newModel() *model {
	return &model{installed: map[uint64]modelFlow{}, ended: map[uint64]frontier.Outcome{}, next: 1}
}

func (m *model) take(c Command) {
	switch _, complete := c.(InitializationComplete); {
	case isHello(c):
		m.open, m.begun, m.gathered = true, true, nil
	case m.open && !complete:
		m.gathered = append(m.gathered, c)
	case m.open:
		m.open = false
		m.initialize()
	case m.begun:
		m.apply(c)
	}
}

func isHello(c Command) bool { _, ok := c.(Hello); return ok }

func (m *model) initialize() {
	named := map[uint64]bool{}
	for _, c := range m.gathered {
		if create, ok := c.(CreateDataflow); ok {
			named[create.Dataflow.ID] = true
		}
	}
	for id := range m.installed {
		if !named[id] {
			m.end(id, frontier.Dropped)
		}
	}
	for _, c := range m.gathered {
		m.apply(c)
	}
	m.gathered = nil
}

func (m *model) end(id uint64, o frontier.Outcome) {
	delete(m.installed, id)
	m.ended[id] = o
}

func (m *model) apply(c Command) {
	switch c := c.(type) {
	case CreateDataflow:
		m.create(c.Dataflow)
	case UpdateConfiguration:
		if f, ok := m.installed[c.Dataflow.ID]; ok {
			m.installed[c.Dataflow.ID] = modelFlow{c.Dataflow, f.scheduled}
		}
	case Schedule:
		if f, ok := m.installed[c.ID]; ok {
			m.installed[c.ID] = modelFlow{f.df, true}
		}
	case AllowCompaction:
		if _, ok := m.installed[c.ID]; ok {
			m.end(c.ID, c.Outcome)
		}
	}
}

func (m *model) create(d *Dataflow) {
	if f, ok := m.installed[d.ID]; ok {
		m.installed[d.ID] = modelFlow{d, f.scheduled}
		return
	}
	if d.ID < m.next {
		return // it is over
	}
	m.next = d.ID + 1
	m.installed[d.ID] = modelFlow{df: d}
}

func replay(entries []Entry) *model {
	m := newModel()
	for _, e := range entries {
		m.take(e.Command)
	}
	return m
}

// same holds what a model, or a worker, has come to against the truth. What is
// over nobody needs to be told.
func same(t *rapid.T, who string, got, want *model, over map[uint64]bool) {
	t.Helper()
	if !maps.Equal(got.installed, want.installed) {
		t.Fatalf("%s has installed %v, want %v", who, ids(got.installed), ids(want.installed))
	}
	for id, o := range want.ended {
		if !over[id] && got.ended[id] != o {
			t.Fatalf("%s: %d ended as %v, want %v", who, id, got.ended[id], o)
		}
	}
}

func ids(flows map[uint64]modelFlow) []string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(flows)) {
		out = append(out, fmt.Sprintf("%d (%p, %v)", id, flows[id].df, flows[id].scheduled))
	}
	return out
}

// TestHistory: what a history comes to is the same before and after it was
// reduced, however sessions begin, break off and follow each other, and whatever
// comes afterwards.
func TestHistory(t *testing.T) {
	task := testTask(t)
	if long() {
		defer rapidChecks(t, 20_000)()
	}
	rapid.Check(t, func(t *rapid.T) {
		d := &drawer{T: t, truth: newModel(), over: map[uint64]bool{}, flow: func(id uint64) *Dataflow {
			return &Dataflow{ID: id, Task: task, Runner: plain{}}
		}}
		d.some()
		d.history.Reduce()
		reduced := d.history.Entries()
		checkReduced(t, &d.history, d.whole)
		same(t, "the model", replay(reduced), d.truth, d.over)

		next := uint64(1) // of a worker that starts now, in the place of another
		var holds []uint64
		for _, e := range d.whole {
			if create, ok := e.Command.(CreateDataflow); ok {
				next = max(next, create.Dataflow.ID+1)
			}
		}
		for _, e := range reduced {
			if create, ok := e.Command.(CreateDataflow); ok {
				holds = append(holds, create.Dataflow.ID)
			}
		}
		before := len(d.whole)
		d.some()
		again := append(reduced, d.whole[before:]...)
		same(t, "the model, later", replay(again), d.truth, d.over)
		same(t, "a worker", runCommands(t, d.whole, 1, nil), d.truth, nil)
		same(t, "its successor", runCommands(t, again, next, holds), d.truth, d.over)
		same(t, "the model, at the end", replay(d.history.Entries()), d.truth, d.over)
	})
}

// checkReduced holds a reduced history against what is said of it.
func checkReduced(t *rapid.T, h *History, whole []Entry) {
	t.Helper()
	once := h.Entries()
	h.Reduce()
	twice := h.Entries()
	if !slices.Equal(once, twice) {
		t.Fatalf("reduced %v, reduced again %v", once, twice)
	}
	if !slices.IsSortedFunc(once, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Index, b.Index), 1) }) {
		t.Fatalf("the indices of %v do not ascend", once)
	}
	var had, has []uint64
	for _, e := range whole {
		if c, ok := e.Command.(CreateDataflow); ok && !slices.Contains(had, c.Dataflow.ID) {
			had = append(had, c.Dataflow.ID)
		}
	}
	for _, e := range once {
		if c, ok := e.Command.(CreateDataflow); ok && !slices.Contains(has, c.Dataflow.ID) {
			has = append(has, c.Dataflow.ID)
		}
	}
	had = slices.DeleteFunc(had, func(id uint64) bool { return !slices.Contains(has, id) })
	if !slices.Equal(had, has) {
		t.Fatalf("created in the order %v, and then %v", had, has)
	}
	if len(once) > 0 && h.Last() < once[len(once)-1].Index {
		t.Fatalf("the last index is %d, and %d was given", h.Last(), once[len(once)-1].Index)
	}
}

// runCommands has a worker take commands, and says what it has come to.
func runCommands(t *rapid.T, entries []Entry, next uint64, holds []uint64) *model {
	t.Helper()
	responses := make(chan Response, 16)
	w, err := New(context.Background(), Config{Next: next, Holds: holds}, responses)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		w.Send(e.Command)
	}
	out := newModel()
	done := make(chan error, 1)
	go func() { done <- w.Close(patience) }()
	hear := func(r Response) {
		switch a := r.Body.(type) {
		case Frontiers:
			for id, o := range a.Batch.Outcomes() {
				if _, twice := out.ended[id]; twice {
					t.Errorf("%d ends twice", id)
				}
				out.ended[id] = o
			}
		case Died:
			t.Errorf("the worker died: %v", a.Err)
		}
	}
	for waiting := true; waiting; {
		select {
		case r := <-responses:
			hear(r)
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			waiting = false
		}
	}
	for len(responses) > 0 {
		hear(<-responses)
	}
	for id, in := range w.installed {
		out.installed[id] = modelFlow{in.now.df, in.scheduled}
	}
	return out
}

// drawer draws commands as a scheduler may give them.
type drawer struct {
	*rapid.T
	flow    func(id uint64) *Dataflow
	whole   []Entry
	history History
	truth   *model
	over    map[uint64]bool
	ids     uint64 // given so far
	hellos  int
}

func (d *drawer) say(c Command) {
	d.whole = append(d.whole, d.history.Append(c))
	d.truth.take(c)
}

func (d *drawer) some() {
	if !d.truth.begun {
		d.session()
	}
	for range rapid.SampledFrom([]int{3, 10, 60}).Draw(d.T, "commands") {
		if rapid.IntRange(0, 7).Draw(d.T, "what") == 0 {
			d.session()
		} else {
			d.one()
		}
	}
}

// session begins a session that names some of what there is, and mostly completes
// it; what is said before that is part of it.
func (d *drawer) session() {
	d.hellos++
	d.say(Hello{fmt.Sprint("s", d.hellos)})
	d.say(CreateInstance{})
	for _, id := range slices.Sorted(maps.Keys(d.truth.installed)) {
		if rapid.IntRange(0, 3).Draw(d.T, "keep") > 0 {
			d.say(CreateDataflow{d.flow(id)})
		}
	}
	for range rapid.IntRange(0, 3).Draw(d.T, "commands in it") {
		d.one()
	}
	if rapid.IntRange(0, 3).Draw(d.T, "complete") > 0 {
		d.say(InitializationComplete{})
	}
}

func (d *drawer) one() {
	live := slices.Sorted(maps.Keys(d.truth.installed))
	what := rapid.IntRange(0, 9).Draw(d.T, "command")
	switch {
	case what < 3 || len(live) == 0 && what < 7:
		d.ids += uint64(rapid.SampledFrom([]int{1, 1, 1, 2, 4}).Draw(d.T, "step"))
		d.say(CreateDataflow{d.flow(d.ids)})
		return
	case what == 7 || what == 8:
		for _, id := range slices.Sorted(maps.Keys(d.truth.ended)) { // not before nobody is to be told
			if !d.truth.open && rapid.Bool().Draw(d.T, "over") {
				d.over[id] = true
				d.history.Over(id)
			}
		}
		return
	case what == 9:
		d.history.Reduce()
		return
	}
	if len(live) == 0 {
		return
	}
	id := rapid.SampledFrom(live).Draw(d.T, "id")
	switch what {
	case 3:
		d.say(UpdateConfiguration{d.flow(id)})
	case 4:
		d.say(Schedule{id})
	default:
		d.say(AllowCompaction{id, rapid.SampledFrom([]frontier.Outcome{frontier.Completed, frontier.Failed, frontier.Dropped}).Draw(d.T, "outcome")})
	}
}

// TestHistoryOfSessions: what is over is forgotten also where every reduction comes
// in the middle of a session.
func TestHistoryOfSessions(t *testing.T) {
	const names = 2*minReduce - 3
	task := testTask(t)
	var h History
	bound := 2 * minReduce
	for id := uint64(1); id <= 2_000; id++ {
		h.Append(Hello{fmt.Sprint(id)})
		h.Append(CreateInstance{})
		for range names {
			h.Append(CreateDataflow{&Dataflow{ID: id, Task: task}})
		}
		h.Append(InitializationComplete{})
		h.Over(id - 1) // this session did not name it
		if h.Len() > 2*bound || len(h.over) > bound {
			t.Fatalf("after %d sessions: %d commands, %d ids that are over", id, h.Len(), len(h.over))
		}
	}
	if h.Reduce(); h.Len() != 4 {
		t.Errorf("%d commands for one dataflow: %v", h.Len(), h.Entries())
	}
}

// TestHistoryStaysShort: it is as long as what there is, not as what has been.
func TestHistoryStaysShort(t *testing.T) {
	const live, cycles = 20, 10_000
	var h History
	task := testTask(t)
	h.Append(Hello{"s"})
	h.Append(CreateInstance{})
	h.Append(InitializationComplete{})
	most := 0
	for id := uint64(1); id <= cycles; id++ {
		h.Append(CreateDataflow{&Dataflow{ID: id, Task: task}})
		h.Append(Schedule{id})
		if id > live {
			h.Append(AllowCompaction{id - live, frontier.Completed})
			h.Over(id - live)
		}
		most = max(most, h.Len())
	}
	if bound := 2*max(minReduce, 3*live+3) + 1; most > bound || len(h.over) > bound {
		t.Errorf("%d commands at most, %d ids that are over; want at most %d", most, len(h.over), bound)
	}
	h.Reduce()
	if want := 3 + 2*live; h.Len() != want {
		t.Errorf("%d commands for %d dataflows, want %d", h.Len(), live, want)
	}
	t.Logf("%d cycles, %d commands in all, %d at most, reduced %d times", cycles, h.Last(), most, h.Reductions())
}
