package frontier

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestRandomReplacements has one observer and workers that crash and are replaced
// all the time, each by a life that goes on with some of what it had, while
// batches of the lives before still come: late, in any order, twice.
func TestRandomReplacements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 5).Draw(t, "workers")
		c := &cluster{T: t, view: NewView(workers), ids: rapid.SampledFrom([]uint64{2, 6, 40}).Draw(t, "ids"), released: map[uint64]bool{}}
		for w := range workers {
			c.lives = append(c.lives, newMember(w, 0, 0))
		}
		for range rapid.SampledFrom([]int{10, 60, 300}).Draw(t, "steps") {
			c.step()
			c.check()
		}
		c.settle()
	})
}

// cluster is the truth: the present life of each worker, and what is under way.
type cluster struct {
	*rapid.T
	view     *View
	ids      uint64
	lives    []*member
	pipes    []sent
	released map[uint64]bool
}

// sent is a batch under way.
type sent struct {
	identity
	seq   uint64
	batch ChangeBatch
}

func (c *cluster) say(m *member, b ChangeBatch) {
	c.pipes = append(c.pipes, sent{m.identity, m.seq, b})
	m.seq++
}

func (c *cluster) step() {
	n := rapid.IntRange(0, len(c.lives)-1).Draw(c.T, "worker")
	m := c.lives[n]
	switch what := rapid.IntRange(0, 9).Draw(c.T, "what"); {
	case what < 3 && m.next < c.ids:
		b := Skip(m.next)
		if what > 0 {
			b = Install(m.next)
			m.live[m.next] = struct{}{}
		}
		m.next++
		c.say(m, b)
	case what < 5 && len(m.live) > 0:
		id := rapid.SampledFrom(slices.Sorted(maps.Keys(m.live))).Draw(c.T, "id")
		delete(m.live, id)
		c.say(m, Retract(id, Completed))
	case what < 9 && len(c.pipes) > 0:
		i := rapid.IntRange(0, len(c.pipes)-1).Draw(c.T, "batch")
		c.hear(c.pipes[i])
		if rapid.IntRange(0, 3).Draw(c.T, "keep") > 0 {
			c.pipes = slices.Delete(c.pipes, i, i+1)
		}
	case what == 9:
		c.replace(n)
	}
}

func (c *cluster) hear(s sent) {
	if err := c.view.ApplyFrom(s.worker, s.incarnation, s.seq, s.batch); err != nil {
		c.Fatalf("refused: %v", err)
	}
}

// replace crashes a worker; its next life starts at any id that is not before it,
// with any of what it held or had not passed.
func (c *cluster) replace(n int) {
	m := c.lives[n]
	next := rapid.Uint64Range(m.next, c.ids).Draw(c.T, "next")
	mayGoOn := slices.Sorted(maps.Keys(m.live))
	for id := m.next; id < next; id++ {
		mayGoOn = append(mayGoOn, id)
	}
	life := newMember(m.worker, m.incarnation+1, next)
	var holds []uint64
	for _, id := range mayGoOn {
		if rapid.Bool().Draw(c.T, "go on") {
			holds = append(holds, id)
			life.live[id] = struct{}{}
		}
	}
	before := map[uint64]bool{}
	for id := range c.ids {
		before[id] = c.view.Beyond(id)
	}
	if err := c.view.Replace(m.worker, life.incarnation, next, holds); err != nil {
		c.Fatalf("refused: %v", err)
	}
	for id := range c.ids {
		if c.view.Beyond(id) && !before[id] {
			c.Fatalf("%d is beyond again", id)
		}
	}
	c.lives[n] = life
}

// check: what is not beyond nobody may schedule, and each is released once.
func (c *cluster) check() {
	for _, id := range c.view.Released() {
		if c.released[id] {
			c.Fatalf("%d is released again", id)
		}
		c.released[id] = true
	}
	for id := range c.ids {
		for _, m := range c.lives {
			if m.pins(id) && !c.view.Beyond(id) {
				c.Fatalf("%d is not beyond, and worker %d may schedule it", id, m.worker)
			}
		}
	}
}

// settle lets all that is under way arrive, and all that is held be retracted.
func (c *cluster) settle() {
	for _, m := range c.lives {
		for id := range m.live {
			c.say(m, Retract(id, Completed))
		}
		m.live = map[uint64]struct{}{}
		for ; m.next < c.ids; m.next++ {
			c.say(m, Skip(m.next))
		}
	}
	for _, s := range c.pipes {
		c.hear(s)
	}
	c.check()
	for id := range c.ids {
		if c.view.Beyond(id) {
			c.Fatalf("%d is pinned by %v", id, c.view.Pins(id))
		}
	}
	if gaps := c.view.Gaps(); len(gaps) > 0 {
		c.Fatalf("gaps %v", gaps)
	}
}
