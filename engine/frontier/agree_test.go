package frontier

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// pair is F03: a view, and the counts that a MutableAntichain makes of the same
// batches. Changes of membership are told the antichain as the changes of count
// that they amount to. It also has the truth, which every batch is taken from.
type pair struct {
	*rapid.T
	view    *View
	counted *MutableAntichain
	truth   map[int]*member
	maxID   uint64
	top     uint64 // Future(top) is counted while nobody is there
}

func TestFormsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(0, 4).Draw(t, "workers")
		start := rapid.Uint64Range(0, 2).Draw(t, "start")
		p := &pair{
			T:       t,
			view:    NewViewAt(workers, start),
			counted: &MutableAntichain{},
			truth:   map[int]*member{},
			maxID:   rapid.SampledFrom([]uint64{3, 10, 40}).Draw(t, "ids"),
			top:     start,
		}
		for w := range workers {
			p.truth[w] = newMember(w, 0, start)
		}
		p.count(byHand(Future(start), max(workers, 1)))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			p.step()
			p.compare()
		}
	})
}

func (p *pair) count(b ChangeBatch) {
	was := p.counted.Frontier()
	diff := counts(p.counted.Update(b))
	for _, x := range was {
		diff[x]++
	}
	maps.DeleteFunc(diff, func(_ Time, n int64) bool { return n == 0 })
	if got := slices.SortedFunc(maps.Keys(diff), Time.Compare); !slices.Equal(got, p.counted.Frontier()) {
		p.Fatalf("changes lead to %v, the frontier is %v", got, p.counted.Frontier())
	}
}

func (p *pair) step() {
	what := rapid.IntRange(0, 9).Draw(p.T, "what")
	if len(p.truth) == 0 || what == 9 {
		p.join()
		return
	}
	w := rapid.SampledFrom(slices.Sorted(maps.Keys(p.truth))).Draw(p.T, "worker")
	if what == 8 {
		p.end(p.truth[w])
		return
	}
	p.speak(p.truth[w])
}

// speak applies one batch: one or more things that a worker does.
func (p *pair) speak(m *member) {
	var b ChangeBatch
	for range rapid.IntRange(0, 3).Draw(p.T, "things") {
		b.Merge(p.do(m))
	}
	if err := p.view.Apply(m.worker, m.seq, b); err != nil {
		p.Fatalf("refused: %v", err)
	}
	m.seq++
	p.count(b)
}

func (p *pair) do(m *member) ChangeBatch {
	if len(m.live) > 0 && rapid.Bool().Draw(p.T, "retract") {
		id := rapid.SampledFrom(slices.Sorted(maps.Keys(m.live))).Draw(p.T, "id")
		delete(m.live, id)
		return Retract(id, Outcome(rapid.IntRange(0, 3).Draw(p.T, "outcome")))
	}
	id := m.next
	if id >= p.maxID {
		return ChangeBatch{}
	}
	m.next++
	p.top = max(p.top, m.next)
	if rapid.Bool().Draw(p.T, "skip") {
		return Skip(id)
	}
	m.live[id] = struct{}{}
	return InstallAs(id, fmt.Sprint(id))
}

func (p *pair) join() {
	worker := rapid.IntRange(0, 5).Draw(p.T, "worker")
	if p.truth[worker] != nil {
		return
	}
	incarnation := uint64(0)
	if last := p.view.newest[worker]; last != nil {
		incarnation = last.incarnation + 1
	}
	next := rapid.Uint64Range(p.view.Low(), p.top).Draw(p.T, "next")
	if err := p.view.Join(worker, incarnation, next); err != nil {
		p.Fatalf("refused: %v", err)
	}
	b := byHand(Future(next), 1)
	if len(p.truth) == 0 {
		b.Merge(byHand(Future(p.top), -1))
	}
	p.truth[worker] = newMember(worker, incarnation, next)
	p.count(b)
}

// end lets a worker crash, or leave with all that it has said heard.
func (p *pair) end(m *member) {
	var err error
	if rapid.Bool().Draw(p.T, "crash") {
		err = p.view.Crash(m.worker, m.incarnation, p.top)
	} else {
		err = p.view.Leave(m.worker, m.incarnation, m.seq)
	}
	if err != nil {
		p.Fatalf("refused: %v", err)
	}
	b := byHand(Future(m.next), -1)
	for id := range m.live {
		b.Merge(byHand(Installed(id), -1))
	}
	delete(p.truth, m.worker)
	if len(p.truth) == 0 {
		b.Merge(byHand(Future(p.top), 1))
	}
	p.count(b)
}

// compare holds both forms against each other and the closed form.
func (p *pair) compare() {
	if got, want := p.view.Frontier(), p.counted.Frontier(); !slices.Equal(got, want) {
		p.Fatalf("attributed %v, counted %v", got, want)
	}
	for id := range p.maxID + 2 {
		truth := len(p.truth) == 0 && id >= p.top
		var pins []int
		for _, w := range slices.Sorted(maps.Keys(p.truth)) {
			if m := p.truth[w]; m.pins(id) {
				truth, pins = true, append(pins, w)
			}
		}
		attributed, counted := p.view.Beyond(id), p.counted.LessEqual(Installed(id))
		if attributed != truth || counted != truth || !slices.Equal(p.view.Pins(id), pins) {
			p.Fatalf("beyond(%d): attributed %v, counted %v, truth %v; pins %v", id, attributed, counted, truth, pins)
		}
	}
}
