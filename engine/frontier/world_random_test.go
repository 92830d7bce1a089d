package frontier

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestRandomWorlds runs clusters of up to eight workers and 200 dataflows under
// a scheduler that may do anything: F12 to F18, F24, F26, F27.
func TestRandomWorlds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.SampledFrom([]int{2, 3, 1, 5, 8}).Draw(t, "workers")
		w := newWorld(workers, t.Fatalf)
		d := &driver{
			T:         t,
			world:     w,
			maxIDs:    rapid.SampledFrom([]uint64{2, 5, 20, 200}).Draw(t, "ids"),
			reorder:   rapid.Bool().Draw(t, "reorder"),
			duplicate: rapid.Bool().Draw(t, "duplicate"),
			changes:   rapid.IntRange(0, 3).Draw(t, "changes of membership"),
		}
		for range rapid.SampledFrom([]int{10, 50, 200, 1000}).Draw(t, "steps") {
			d.step()
		}
		w.settle()
	})
}

// driver draws what happens next.
type driver struct {
	*rapid.T
	*world
	maxIDs             uint64
	reorder, duplicate bool
	changes            int
}

func (d *driver) step() {
	n := rapid.SampledFrom(d.lives).Draw(d.T, "worker")
	switch rapid.IntRange(0, 11).Draw(d.T, "what") {
	case 0, 1:
		if d.ids < d.maxIDs {
			d.create(d.hosts()...)
		}
	case 2:
		if d.ids > 0 {
			d.drop(d.id("drop"))
		}
	case 3, 4:
		n.step()
	case 5:
		if id, ok := d.pick(n.building); ok {
			n.finish(id, rapid.IntRange(0, 4).Draw(d.T, "construction") > 0)
		}
	case 6:
		if id, ok := d.pick(n.running); ok {
			n.complete(id)
		}
	case 7:
		if d.ids > 0 { // told directly, past the log
			n.drop(d.id("drop directly"))
		}
	case 8, 9, 10:
		d.network(n)
	case 11:
		if d.changes > 0 {
			d.changes--
			d.change(n)
		}
	}
}

func (d *driver) id(label string) uint64 {
	return rapid.Uint64Range(0, d.ids-1).Draw(d.T, label)
}

func (d *driver) hosts() []int {
	if rapid.Bool().Draw(d.T, "everywhere") {
		return nil
	}
	return []int{
		rapid.IntRange(0, 8).Draw(d.T, "host"),
		rapid.IntRange(0, 8).Draw(d.T, "host"),
	}
}

func (d *driver) pick(ids map[uint64]bool) (uint64, bool) {
	if len(ids) == 0 {
		return 0, false
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(ids))).Draw(d.T, "id"), true
}

// network sends what one worker has to say to another, or delivers some of it.
func (d *driver) network(n *life) {
	if len(n.pipes) == 0 {
		return
	}
	p := rapid.SampledFrom(n.pipes).Draw(d.T, "pipe")
	if rapid.Bool().Draw(d.T, "send") && !n.dead {
		p.send()
	}
	if len(p.queue) == 0 {
		return
	}
	i := 0
	if d.reorder {
		i = rapid.IntRange(0, len(p.queue)-1).Draw(d.T, "packet")
	}
	p.deliver(i, d.duplicate && rapid.Bool().Draw(d.T, "keep"))
}

// change lets a worker join, retires one, or kills one and brings it back.
func (d *driver) change(n *life) {
	members := d.membersAt(len(d.log))
	switch rapid.IntRange(0, 2).Draw(d.T, "change") {
	case 0:
		if len(d.lives) < 10 {
			d.join(100+len(d.lives), 0)
		}
	case 1:
		if !n.dead && slices.Contains(members, n) {
			d.retire(n)
		}
	case 2:
		if !n.dead && slices.Contains(members, n) {
			d.kill(n)
			d.join(n.worker, n.incarnation+1)
		}
	}
}
