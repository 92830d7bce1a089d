package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fairMachine is a random machine that runs what pick says, as the loop does it.
type fairMachine struct {
	tasks   []limits
	passed  []int
	turns   uint64
	room    room
	now     time.Time
	running []int
	starts  []int // of each task
}

// fill starts what may start.
func (m *fairMachine) fill() {
	for {
		n, _, _ := pick(m.tasks, m.room, m.now)
		if n < 0 {
			return
		}
		t := &m.tasks[n]
		t.ready--
		t.running++
		m.room.free--
		m.room.left = m.room.left.minus(t.needs)
		if t.shared != noPool {
			m.room.pools[t.shared].running++
		}
		m.running = append(m.running, n)
		m.starts[n]++
		m.passed[n], t.turn = 0, 0
		for i := range m.tasks {
			if o := &m.tasks[i]; i != n && o.turn == 0 && o.passedBy(t.needs, m.room, m.now) {
				if m.passed[i]++; m.passed[i] >= patience {
					m.turns++
					o.turn = m.turns
				}
			}
		}
	}
}

// end ends a command, by its place among those that run.
func (m *fairMachine) end(i int) {
	n := m.running[i]
	m.running[i] = m.running[len(m.running)-1]
	m.running = m.running[:len(m.running)-1]
	t := &m.tasks[n]
	t.running--
	m.room.free++
	m.room.left = m.room.left.plus(t.needs)
	if t.shared != noPool {
		m.room.pools[t.shared].running--
	}
}

func newMachine(t *rapid.T, ready int, pools bool) *fairMachine {
	all := needs{cpus: rapid.Int64Range(1, 8).Draw(t, "cpus"), mem: rapid.Int64Range(0, 8).Draw(t, "mem"), gpus: rapid.IntRange(0, 4).Draw(t, "gpus")}
	m := &fairMachine{room: room{free: 40, left: all, pools: make([]pool, 2)}, now: time.Unix(1000, 0)}
	for n := range m.room.pools {
		m.room.pools[n].size = rapid.IntRange(0, 2).Draw(t, "size")
	}
	m.tasks = make([]limits, rapid.IntRange(2, 6).Draw(t, "tasks"))
	m.passed, m.starts = make([]int, len(m.tasks)), make([]int, len(m.tasks))
	for n := range m.tasks {
		task := limits{
			ready: ready, shared: noPool, batch: 1, flow: n, pool: rapid.IntRange(0, 3).Draw(t, "pool"),
			needs: needs{cpus: rapid.Int64Range(1, all.cpus).Draw(t, "need cpus"), mem: rapid.Int64Range(0, all.mem).Draw(t, "need mem"), gpus: rapid.IntRange(0, all.gpus).Draw(t, "need gpus")},
		}
		if pools {
			task.shared = rapid.IntRange(noPool, 1).Draw(t, "shared")
			if rapid.Bool().Draw(t, "free") {
				task.needs = needs{}
			}
		}
		m.tasks[n] = task
	}
	return m
}

// However many jobs others have, a task that fits the machine starts again and
// again, and however they end.
func TestNothingThatFitsWaitsForEver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t, 1<<40, false)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		last := make([]int, len(m.tasks)) // step of the last start
		before := make([]int, len(m.tasks))
		const most = 2000
		for step := range 6 * most {
			m.fill()
			for n, starts := range m.starts {
				if starts > before[n] {
					before[n], last[n] = starts, step
				} else if step-last[n] > most && m.tasks[n].running == 0 {
					t.Fatalf("task %d has not started for %d steps: %v of %+v", n, most, m.starts, m.tasks)
				}
			}
			if len(m.running) == 0 {
				t.Fatal("nothing runs")
			}
			m.end(rng.IntN(len(m.running)))
		}
	})
}

// With pools, too, everything runs to its end, and room stays free only for a
// reason: it is kept for who is in front.
func TestEverythingRunsToItsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t, 30, true)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		for {
			m.fill()
			large := frontOf(m.tasks).large
			for n := range m.tasks {
				if large < 0 && whyNot(m.tasks[n], m.room, m.now) == "" {
					t.Fatalf("task %d could start, and nobody is in front: %+v", n, m.tasks)
				}
			}
			if large >= 0 && len(m.running) == 0 {
				t.Fatalf("task %d waits, and nothing runs: %+v", large, m.tasks[large])
			}
			if len(m.running) == 0 {
				break
			}
			m.end(rng.IntN(len(m.running)))
		}
		for n, task := range m.tasks {
			if task.ready > 0 || m.starts[n] != 30 {
				t.Errorf("task %d has %d jobs left", n, task.ready)
			}
		}
	})
}

// The one job that needs two CPUs starts although small ones keep coming; without
// such a job, nothing is kept free.
func TestALargeJobIsNotPushedBackForEver(t *testing.T) {
	small := limits{ready: 1000, shared: noPool, batch: 1, flow: 0, needs: needs{cpus: 1}}
	large := limits{ready: 1, shared: noPool, batch: 1, flow: 1, needs: needs{cpus: 2}}
	other := limits{ready: 1000, shared: noPool, batch: 1, flow: 2, needs: needs{mem: 1}}
	m := &fairMachine{
		tasks: []limits{small, large, other}, passed: make([]int, 3), starts: make([]int, 3),
		room: room{free: 3, left: needs{cpus: 2, mem: 1}}, now: time.Unix(0, 0),
	}
	m.fill() // two small ones, one other
	for m.starts[1] == 0 {
		if m.starts[0] > patience+2 {
			t.Fatalf("%d small jobs have started, and the large one has not", m.starts[0])
		}
		m.end(0) // one of the two small ones, as long as these run
		m.fill()
	}
	if m.starts[0] < patience {
		t.Errorf("only %d small jobs were let in before", m.starts[0])
	}
	if m.starts[2] == 0 {
		t.Error("who takes nothing of what the large job needs was kept out")
	}
}
