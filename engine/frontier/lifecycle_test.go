package frontier

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// catchUp lets a worker go through the log, and finish what it builds.
func catchUp(n *life) {
	for n.step() {
	}
	for id := range n.building {
		n.finish(id, true)
	}
}

// TestLaggard is F13: one worker that has not started pins all that the others
// are through with; once it has caught up, all of it goes.
func TestLaggard(t *testing.T) {
	const workers, ids = 4, 100
	w := newWorld(workers, t.Fatalf)
	for range ids {
		w.drop(w.create())
	}
	laggard := w.lives[workers-1]
	for _, n := range w.lives[:workers-1] {
		catchUp(n)
		for id := range uint64(ids) {
			n.drop(id)
		}
	}
	w.exchange()
	for _, n := range w.lives[:workers-1] {
		if len(n.frozen) != ids || n.view.Low() != 0 {
			t.Fatalf("worker %d has %d frozen, low %d", n.worker, len(n.frozen), n.view.Low())
		}
		if got := n.view.Pins(7); !slices.Equal(got, []int{workers - 1}) {
			t.Fatalf("7 is pinned by %v", got)
		}
	}
	catchUp(laggard)
	for id := range uint64(ids) {
		laggard.drop(id)
	}
	before := w.sent
	w.exchange()
	w.checkSettled()
	t.Logf("peak frozen on one worker: %d; batches to let go: %d", w.frozen, w.sent-before)
	if w.sent-before > workers {
		t.Errorf("%d batches to let %d ids go", w.sent-before, ids)
	}
}

// TestNeverInstalled is F14: what a worker does not host, it passes; one that
// does not even pass is named, and pins all that come later.
func TestNeverInstalled(t *testing.T) {
	w := newWorld(2, t.Fatalf)
	w.create(0)
	a, b := w.lives[0], w.lives[1]
	catchUp(a)
	a.complete(0)
	w.exchange()
	if !a.frozen[0] || !slices.Equal(a.view.Pins(0), []int{1}) {
		t.Fatalf("frozen %v, pinned by %v", a.frozen, a.view.Pins(0))
	}
	catchUp(b)
	w.exchange()
	w.checkSettled()
	if len(b.built) > 0 {
		t.Error("built what is not hosted")
	}
}

// TestDropBeforeInstallElsewhere is F15: A is through with a dataflow that B has
// not reached; and F16: B hears of the drop first, and builds nothing.
func TestDropBeforeInstallElsewhere(t *testing.T) {
	for _, row := range []struct {
		name string
		hear func(b *life)
		want Outcome
		seen int // releases on B
	}{
		{"B installs and completes", func(b *life) { catchUp(b); b.complete(0) }, Dropped, 1},
		{"B installs and drops", func(b *life) { catchUp(b); b.drop(0) }, Dropped, 1},
		{"B hears of the drop before the create", func(b *life) { b.drop(0); catchUp(b) }, Dropped, 0},
		{"B hears of the drop while it builds", func(b *life) { b.step(); b.drop(0); catchUp(b) }, Dropped, 1},
		{"B fails to build", func(b *life) { b.step(); b.finish(0, false) }, Dropped, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(2, t.Fatalf)
			w.create()
			a, b := w.lives[0], w.lives[1]
			catchUp(a)
			a.drop(0)
			w.exchange()
			if !a.frozen[0] {
				t.Fatal("A released what B has not reached")
			}
			row.hear(b)
			w.exchange()
			w.checkSettled()
			if b.released[0] != row.seen || b.built[0] != row.seen {
				t.Errorf("B built it %d times and released it %d times, want %d", b.built[0], b.released[0], row.seen)
			}
			for _, n := range w.lives {
				if o, final := n.view.Outcome(0); o != row.want || !final {
					t.Errorf("worker %d sees %v, final %v", n.worker, o, final)
				}
			}
		})
	}
}

// TestOneRetraction is F18: whichever way a dataflow ends first takes it out,
// and no other says so again.
func TestOneRetraction(t *testing.T) {
	const id = 0
	end := map[string]func(*life){
		"complete":     func(n *life) { n.complete(id) },
		"drop":         func(n *life) { n.drop(id) },
		"fail":         func(n *life) { n.retract(id, Failed) },
		"skip a round": func(n *life) { n.world.exchange() },
	}
	for first := range end {
		for second := range end {
			for third := range end {
				w := newWorld(1, t.Fatalf)
				w.create()
				catchUp(w.lives[0])
				for _, name := range []string{first, second, third} {
					end[name](w.lives[0])
				}
				w.settle()
				for name, n := range map[string]int{"retractions": len(w.lives[0].ends), "releases": w.lives[0].released[id]} {
					if n != 1 {
						t.Errorf("%s, %s, %s: %d %s", first, second, third, n, name)
					}
				}
			}
		}
	}
}

// TestCrashAnywhere is F27 with all workers in it: one is killed after any
// number of steps, and comes back.
func TestCrashAnywhere(t *testing.T) {
	for at := range 12 {
		w := newWorld(3, t.Fatalf)
		for range 3 {
			w.create()
		}
		n := w.lives[1]
		for i := range at {
			switch i % 3 {
			case 0:
				n.step()
			case 1:
				n.finish(n.next-1, true)
				n.pipes[0].send()
			case 2:
				n.complete(n.next - 1)
				n.pipes[2].send()
			}
		}
		w.kill(n)
		w.join(1, 1)
		w.create()
		w.settle()
		for id := range w.ids {
			want := Completed
			if n.ends[id] == Failed {
				want = Failed
			}
			if o, _ := w.lives[0].view.Outcome(id); o < want {
				t.Errorf("killed at step %d: %d is %v, want %v", at, id, o, want)
			}
		}
	}
}

// TestOtherOrder is F32: a worker that creates in another order is told so by
// the first batch in which it shows.
func TestOtherOrder(t *testing.T) {
	v := NewView(2)
	right, wrong := []string{"a", "b", "c"}, []string{"a", "c", "b"}
	for id, name := range right {
		must(t, v.Apply(0, uint64(id), InstallAs(uint64(id), name)))
	}
	for id, name := range wrong {
		err := v.Apply(1, uint64(id), InstallAs(uint64(id), name))
		if differs := right[id] != name; differs != errors.Is(err, ErrFingerprint) || !differs && err != nil {
			t.Errorf("%d as %s: got %v", id, name, err)
		}
		if err != nil {
			break
		}
	}
}

// TestNoClosingAfterADrop is F33: a consumer on each worker may publish only when
// its view says that the upstream is over and completed. With one worker that
// drops and others that complete, none ever may, in any order of delivery.
func TestNoClosingAfterADrop(t *testing.T) {
	for dropper := range 3 {
		for order := range 6 {
			w := newWorld(3, t.Fatalf)
			id := w.create()
			for _, n := range w.lives {
				catchUp(n)
				if n.worker == dropper {
					n.drop(id)
				} else {
					n.complete(id)
				}
			}
			senders := permutation(order)
			for _, from := range senders {
				for _, p := range w.lives[from].pipes {
					p.send()
					p.deliver(0, false)
					if o, final := p.to.view.Outcome(id); final && o == Completed {
						t.Fatalf("worker %d closes what worker %d dropped", p.to.worker, dropper)
					}
				}
			}
			w.checkSettled()
		}
	}
}

func permutation(i int) [3]int {
	all := [6][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	return all[i]
}

// ExampleView is the life of one dataflow on two workers.
func ExampleView() {
	v := NewView(2)
	v.Apply(0, 0, Install(0))
	v.Apply(0, 1, Retract(0, Completed))
	fmt.Println(v.Beyond(0), v.Pins(0))
	v.Apply(1, 0, Skip(0))
	fmt.Println(v.Beyond(0), v.Released())
	fmt.Println(v.Outcome(0))
	// Output:
	// true [1]
	// false [0]
	// completed true
}
