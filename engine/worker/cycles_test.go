package worker

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"operon/engine/body"
	"operon/engine/frontier"
	"operon/spec"
	"operon/storage"
)

// team is workers and what their scheduler keeps: a view, a history, and the
// dataflows that are frozen.
type team struct {
	testing.TB
	*bodies
	task      *spec.TaskSpec
	store     *storage.Store
	workers   []*Worker
	caches    *Caches
	responses chan Response
	view      *frontier.View
	history   History
	frozen    map[uint64]bool
	batches   []int // heard, by worker
	answers   int
	faults    []*faults
}

func newTeam(t testing.TB, workers int) *team {
	t.Helper()
	dir := t.TempDir()
	m := &team{
		TB: t, bodies: newBodies(t), task: testTask(t), caches: NewCaches(), responses: make(chan Response, 64),
		view: frontier.NewViewAt(workers, 1), frozen: map[uint64]bool{}, batches: make([]int, workers),
	}
	m.auto = true
	var err error
	if m.store, err = storage.Open(filepath.Join(dir, "state"), storage.Options{}); err != nil {
		t.Fatal(err)
	}
	for n := range workers {
		f := &faults{blocked: make(chan struct{}, 1), free: make(chan struct{})}
		m.faults = append(m.faults, f)
		w, err := New(t.Context(), Config{
			Index: n, Slots: 2, FirstSlot: 2 * n, Next: 1, Store: m.store, Caches: m.caches, Fault: f.at,
			Logs: filepath.Join(dir, "logs"), Dir: dir, Scratch: filepath.Join(dir, "scratch"), Token: "test", RunID: "run",
		}, m.responses)
		if err != nil {
			t.Fatal(err)
		}
		m.workers = append(m.workers, w)
	}
	for _, c := range []Command{Hello{"s"}, CreateInstance{}, InitializationComplete{}} {
		m.broadcast(c)
	}
	return m
}

func (m *team) broadcast(c Command) {
	m.history.Append(c)
	for _, w := range m.workers {
		w.Send(c)
	}
}

// hear takes in one response, and lets go of what nobody may schedule any more.
func (m *team) hear() {
	m.Helper()
	select {
	case r := <-m.responses:
		switch a := r.Body.(type) {
		case Frontiers:
			m.batches[r.Worker]++
			if err := m.view.ApplyFrom(r.Worker, r.Incarnation, a.Seq, a.Batch); err != nil {
				m.Fatal(err)
			}
		case JobsDone:
			for _, res := range a.Results {
				if res.Output == nil {
					m.Errorf("%+v", res)
					continue
				}
				res.Output.Discard()
			}
			m.answers++
		default:
			m.Fatalf("heard %+v", a)
		}
	case <-time.After(patience):
		m.Fatal("nothing is heard")
	}
	for _, id := range m.view.Released() {
		if o, final := m.view.Outcome(id); !m.frozen[id] || o != frontier.Completed || !final {
			m.Errorf("%d is released, frozen %v, as %v", id, m.frozen[id], o)
		}
		delete(m.frozen, id)
		m.history.Over(id)
		m.view.Forget(id)
		m.caches.Drop(id)
	}
}

// cycle installs a dataflow, has each of some workers run a job of it, and drops it.
func (m *team) cycle(id uint64, runner body.Runner, run ...int) {
	m.Helper()
	m.broadcast(CreateDataflow{&Dataflow{ID: id, Task: m.task, Runner: runner}})
	m.broadcast(Schedule{id})
	want := m.answers + len(run)
	for _, n := range run {
		m.workers[n].Send(RunJobs{Command: id*8 + uint64(n), Dataflow: id, Jobs: jobsAt(0)})
	}
	for m.answers < want {
		m.hear()
	}
	m.frozen[id] = true
	m.broadcast(AllowCompaction{id, frontier.Completed})
}

func (m *team) close() {
	m.Helper()
	done := make(chan error, len(m.workers))
	for _, w := range m.workers {
		go func() { done <- w.Close(patience) }()
	}
	for range m.workers {
		for waiting := true; waiting; {
			select {
			case <-m.responses:
			case err := <-done:
				if err != nil {
					m.Error(err)
				}
				waiting = false
			}
		}
	}
	if err := m.store.Close(); err != nil {
		m.Error(err)
	}
}

// usage is what a process takes up.
type usage struct {
	goroutines, files int
	heap              uint64
	history, members  int
	frozen            int
}

func (m *team) usage() usage {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	fds, _ := os.ReadDir("/proc/self/fd")
	u := usage{goroutines: runtime.NumGoroutine(), files: len(fds), heap: s.HeapAlloc, history: m.history.Len(), frozen: len(m.frozen)}
	for _, member := range m.view.Members() {
		u.members += len(member.Live)
	}
	return u
}

// settles takes the usage until it is as little as it should be: what has been
// answered may take a moment to be gone. It reports whether it never is.
func (m *team) settles(little func(usage) bool) (u usage, grown bool) {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if u = m.usage(); little(u) || time.Since(began) > patience {
			return u, !little(u)
		}
	}
}

// TestCyclesLeaveNothing: dataflows that come and go take up nothing when they are
// gone, neither at the workers nor at who commands them.
func TestCyclesLeaveNothing(t *testing.T) {
	cycles := uint64(1000)
	if long() {
		cycles = 10_000
	}
	for _, workers := range []int{1, 3} {
		m := newTeam(t, workers)
		var first usage
		warm := cycles / 5
		for id := uint64(1); id <= cycles; id++ {
			var runner body.Runner = plain{m.bodies, id}
			if id%2 == 0 {
				runner = &process{plain: plain{m.bodies, id}}
			}
			m.cycle(id, runner, int(id)%workers)
			for len(m.frozen) > 5 {
				m.hear()
			}
			m.forgetClosed()
			if id == warm {
				for len(m.frozen) > 0 {
					m.hear()
				}
				first = m.usage()
			}
		}
		for len(m.frozen) > 0 {
			m.hear()
		}
		last, grown := m.settles(func(u usage) bool {
			return u.goroutines <= first.goroutines+2 && u.files <= first.files+2 && u.heap <= first.heap+2<<20 && u.members == 0
		})
		if grown {
			t.Errorf("%d workers: %+v after %d cycles, %+v after %d", workers, first, warm, last, cycles)
		}
		if m.history.Len() > 2*minReduce {
			t.Errorf("%d commands in the history", m.history.Len())
		}
		m.close()
		for _, w := range m.workers {
			if len(w.installed)+len(w.condemned)+len(w.holds)+len(w.stash)+len(w.peeks)+len(w.backlog) > 0 {
				t.Errorf("a worker keeps %v, %v, %v, %v", w.installed, w.condemned, w.holds, w.stash)
			}
		}
		t.Logf("%d workers: %+v after %d cycles, %+v after %d", workers, first, warm, last, cycles)
	}
}

// forgetClosed checks what the test's bodies note of a dataflow's processes, and lets go
// of those that were closed.
func (m *team) forgetClosed() {
	m.bodies.mu.Lock()
	defer m.bodies.mu.Unlock()
	for p, n := range m.closes {
		if n > 1 {
			m.Errorf("processes of dataflow %d were closed %d times", p.id, n)
		}
		if n > 0 {
			delete(m.closes, p)
		}
	}
	clear(m.begun)
}

// TestAStalledWorkerPins: what comes and goes while one worker stalls stays, and the
// view says because of whom; once it wakes up all of it goes, with one batch.
func TestAStalledWorkerPins(t *testing.T) {
	const cycles = 300
	m := newTeam(t, 3)
	m.cycle(1, plain{m.bodies, 1}, 0, 1, 2)
	for len(m.frozen) > 0 {
		m.hear()
	}
	before := m.usage()
	f := m.faults[1]
	f.mu.Lock()
	f.block = PointInstall
	f.mu.Unlock()
	for id := uint64(2); id < 2+cycles; id++ {
		m.cycle(id, plain{m.bodies, id}, 0, 2)
	}
	<-f.blocked
	passed := func() bool {
		for _, member := range m.view.Members() {
			if member.Worker != 1 && (member.Next != 2+cycles || len(member.Live) > 0) {
				return false
			}
		}
		return true
	}
	for !passed() {
		m.hear()
	}
	if len(m.frozen) != cycles || m.history.Len() < 3*cycles {
		t.Errorf("%d of %d are frozen, and the history has %d commands", len(m.frozen), cycles, m.history.Len())
	}
	for id := uint64(2); id < 2+cycles; id++ {
		if pins := m.view.Pins(id); !slices.Equal(pins, []int{1}) {
			t.Fatalf("%d is pinned by %v", id, pins)
		}
	}
	if m.view.Low() != 2 || m.workers[1].Behind() == 0 {
		t.Errorf("low is %d, worker 1 is behind by %v", m.view.Low(), m.workers[1].Behind())
	}
	said := m.batches[1]
	f.free <- struct{}{}
	for len(m.frozen) > 0 {
		m.hear()
	}
	if n := m.batches[1] - said; n != 1 {
		t.Errorf("it took %d batches until all was released", n)
	}
	m.history.Reduce()
	after, grown := m.settles(func(u usage) bool {
		return u.history == 3 && u.members == 0 && u.goroutines <= before.goroutines
	})
	if grown {
		t.Errorf("%+v before, %+v after", before, after)
	}
	m.close()
	t.Logf("%d dataflows were pinned, and released with one batch", cycles)
}
