package spec

import (
	"container/heap"
	"slices"
	"strings"
)

// ranks is a heap of positions in Pipeline.Tasks, the least first.
type ranks []int

func (h ranks) Len() int           { return len(h) }
func (h ranks) Less(i, j int) bool { return h[i] < h[j] }
func (h ranks) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *ranks) Push(x any)        { *h = append(*h, x.(int)) }
func (h *ranks) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// graph sorts tasks by need. It walks with counters, never by recursion: a chain
// may be as long as there are tasks.
type graph struct {
	tasks   []*TaskSpec
	needs   [][]*TaskSpec // by position: what the task needs
	users   [][]int       // by position: who needs it
	waiting []int         // by position: how many of needs are not sorted yet
	ready   ranks
	sorted  []*TaskSpec
	done    []bool
}

func newGraph(tasks []*TaskSpec) *graph {
	g := &graph{tasks: tasks}
	n := len(tasks)
	g.needs, g.users, g.waiting, g.done = make([][]*TaskSpec, n), make([][]int, n), make([]int, n), make([]bool, n)
	for i, t := range tasks {
		g.needs[i] = t.Upstream()
		g.waiting[i] = len(g.needs[i])
		for _, up := range g.needs[i] {
			g.users[up.Index] = append(g.users[up.Index], i)
		}
		if g.waiting[i] == 0 {
			g.ready = append(g.ready, i)
		}
	}
	heap.Init(&g.ready)
	return g
}

// sort takes every task whose needs have been taken, those of the file's start
// first.
func (g *graph) sort() {
	for g.ready.Len() > 0 {
		i := heap.Pop(&g.ready).(int)
		g.take(i)
		g.sorted = append(g.sorted, g.tasks[i])
	}
}

// take takes a task out and makes ready who waited for it alone.
func (g *graph) take(i int) {
	g.done[i] = true
	for _, user := range g.users[i] {
		g.waiting[user]--
		if g.waiting[user] == 0 && !g.done[user] {
			heap.Push(&g.ready, user)
		}
	}
}

// circle is a circle of tasks among those that sort had to leave, from its task
// that the file has first, or nil if none is left. Each needs the next.
func (g *graph) circle(from int) []*TaskSpec {
	for from < len(g.tasks) && g.done[from] {
		from++
	}
	if from == len(g.tasks) {
		return nil
	}
	at := map[*TaskSpec]int{}
	var path []*TaskSpec
	t := g.tasks[from]
	for {
		if start, met := at[t]; met {
			return firstToFront(path[start:])
		}
		at[t] = len(path)
		path = append(path, t)
		for _, up := range g.needs[t.Index] {
			if !g.done[up.Index] {
				t = up
				break
			}
		}
	}
}

func firstToFront(circle []*TaskSpec) []*TaskSpec {
	first := 0
	for i, t := range circle {
		if t.Index < circle[first].Index {
			first = i
		}
	}
	return slices.Concat(circle[first:], circle[:first])
}

// checkCycles checks rule 2: the graph of tasks has no cycle. Every cycle that
// shares no task with one before it is reported, as the path of names.
func (l *loader) checkCycles() bool {
	g := newGraph(l.pipeline.Tasks)
	g.sort()
	for {
		circle := g.circle(0)
		if circle == nil {
			break
		}
		l.reportCycle(circle)
		for _, t := range circle {
			g.take(t.Index)
		}
		g.sort()
	}
	if len(g.sorted) < len(g.tasks) {
		return false
	}
	l.pipeline.Topo = g.sorted
	return true
}

func (l *loader) reportCycle(circle []*TaskSpec) {
	var path, why []string
	for i, t := range circle {
		next := circle[(i+1)%len(circle)]
		path = append(path, t.Name)
		if len(why) < 5 {
			why = append(why, "`"+t.Name+"` "+t.needOf(next))
		}
	}
	if len(why) == 5 && len(circle) > 5 {
		why = append(why, "…")
	}
	path = append(path, circle[0].Name)
	if len(path) > 20 {
		path = slices.Concat(path[:10], []string{"…"}, path[len(path)-9:])
	}
	d := l.drafts[circle[0].Index]
	e := l.errorf(d.name.at, "cycle", "take one of these away", "tasks wait for one another in a circle: %s (%s)", strings.Join(path, " → "), strings.Join(why, ", "))
	for _, t := range circle[1:min(len(circle), 5)] {
		e.note(l.text.rangeOf(l.drafts[t.Index].name.at), "in the circle")
	}
}

// needOf says what t needs of up.
func (t *TaskSpec) needOf(up *TaskSpec) string {
	for _, in := range t.In {
		if in.Entity.Producer == up {
			return "takes " + in.Entity.Name
		}
	}
	return "iterates over " + up.Spawn.Name
}
