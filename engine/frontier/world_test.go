package frontier

import (
	"fmt"
	"maps"
	"slices"
)

// The world: workers as they will be, each with its place in the command log,
// its dataflows and its own view, and a pipe between every two of them, itself
// included. A test decides what happens next; the world checks that nothing is
// released which somebody may still schedule, and that everything is released
// once.
type world struct {
	fatalf func(format string, args ...any)
	log    []command
	lives  []*life // of all workers that ever were
	ids    uint64  // created
	crash  bool    // some worker crashed
	sent   int     // batches
	frozen int     // the most that one worker had frozen at a time
}

type commandKind string

const (
	cmdCreate commandKind = "create"
	cmdDrop   commandKind = "drop"
	cmdJoin   commandKind = "join"
	cmdRetire commandKind = "retire" // asks a worker to leave
	cmdLeave  commandKind = "leave"  // says that it has
	cmdCrash  commandKind = "crash"
)

type command struct {
	kind  commandKind
	id    uint64       // of the dataflow; for a change of membership, the next one
	hosts map[int]bool // of a new dataflow
	life  *life
}

// life is one incarnation of one worker.
type life struct {
	identity
	world *world
	pos   int // in the log
	next  uint64
	since uint64 // it joined there
	view  *View
	pipes []*pipe // out of it

	building map[uint64]bool // under construction; true: drop once that is done
	running  map[uint64]bool
	tombs    map[uint64]bool // dropped before it was created
	frozen   map[uint64]bool
	built    map[uint64]int // constructions
	ends     map[uint64]Outcome
	released map[uint64]int
	toldSelf map[uint64]uint64 // number of its own batch that retracts an id

	retiring, dead, crashed bool
}

// pipe carries batches from one life to another.
type pipe struct {
	from, to *life
	unsent   ChangeBatch
	any      bool // something is unsent
	queue    []packet
	seq      uint64
	since    uint64
}

type packet struct {
	seq   uint64
	batch ChangeBatch
}

func newWorld(workers int, fatalf func(string, ...any)) *world {
	w := &world{fatalf: fatalf}
	for i := range workers {
		w.lives = append(w.lives, w.newLife(i, 0, 0, 0, NewView(workers)))
	}
	for _, a := range w.lives {
		for _, b := range w.lives {
			a.open(b, 0)
		}
	}
	return w
}

func (w *world) newLife(worker int, incarnation, next uint64, pos int, v *View) *life {
	return &life{
		identity: identity{worker, incarnation},
		world:    w,
		pos:      pos,
		next:     next,
		since:    next,
		view:     v,
		building: map[uint64]bool{},
		running:  map[uint64]bool{},
		tombs:    map[uint64]bool{},
		frozen:   map[uint64]bool{},
		built:    map[uint64]int{},
		ends:     map[uint64]Outcome{},
		released: map[uint64]int{},
		toldSelf: map[uint64]uint64{},
	}
}

// GoString is what a failed property prints.
func (n *life) GoString() string {
	return fmt.Sprintf("worker %d, life %d, at %d", n.worker, n.incarnation, n.next)
}

func (p *pipe) GoString() string { return fmt.Sprintf("pipe from %#v to %#v", p.from, p.to) }

func (n *life) open(to *life, since uint64) {
	n.pipes = append(n.pipes, &pipe{from: n, to: to, since: since})
}

// create appends a dataflow to the log; without hosts it is placed everywhere.
func (w *world) create(hosts ...int) uint64 {
	c := command{kind: cmdCreate, id: w.ids}
	if len(hosts) > 0 {
		c.hosts = map[int]bool{}
		for _, h := range hosts {
			c.hosts[h] = true
		}
	}
	w.log = append(w.log, c)
	w.ids++
	return c.id
}

func (w *world) drop(id uint64) { w.log = append(w.log, command{kind: cmdDrop, id: id}) }

// join lets a worker in: it is there at once, the others learn in their time.
func (w *world) join(worker int, incarnation uint64) *life {
	v := NewViewAt(0, w.ids)
	n := w.newLife(worker, incarnation, w.ids, len(w.log)+1, v)
	w.log = append(w.log, command{kind: cmdJoin, id: w.ids, life: n})
	w.lives = append(w.lives, n)
	for _, member := range w.membersAt(len(w.log)) {
		w.must(v.Join(member.worker, member.incarnation, w.ids))
		n.open(member, w.ids)
	}
	return n
}

// membersAt is the members at a place in the log.
func (w *world) membersAt(pos int) []*life {
	var out []*life
	for _, n := range w.lives {
		in := n.incarnation == 0 && !slices.ContainsFunc(w.log, func(c command) bool { return c.kind == cmdJoin && c.life == n })
		for _, c := range w.log[:pos] {
			switch {
			case c.life != n:
			case c.kind == cmdJoin:
				in = true
			case c.kind == cmdLeave, c.kind == cmdCrash:
				in = false
			}
		}
		if in {
			out = append(out, n)
		}
	}
	return out
}

// kill ends a life without notice, and says so in the log.
func (w *world) kill(n *life) {
	n.dead, n.crashed = true, true
	w.crash = true
	for id := range n.installed() {
		n.ends[id] = Failed
	}
	for id := n.next; id < w.ids; id++ {
		n.ends[id] = Failed
	}
	w.log = append(w.log, command{kind: cmdCrash, id: w.ids, life: n})
}

func (w *world) retire(n *life) {
	w.log = append(w.log, command{kind: cmdRetire, id: w.ids, life: n})
}

// sayLeft says in the log that a worker has left, once it has.
func (w *world) sayLeft(n *life) bool {
	if !n.retiring || n.dead || len(n.installed()) > 0 {
		return false
	}
	for _, p := range n.pipes {
		p.send()
	}
	n.dead = true
	w.log = append(w.log, command{kind: cmdLeave, id: w.ids, life: n})
	return true
}

func (w *world) must(err error) {
	if err != nil {
		w.fatalf("refused: %v", err)
	}
}

// step takes the next command of the log.
func (n *life) step() bool {
	if n.dead || n.retiring || n.pos == len(n.world.log) {
		return false
	}
	c := n.world.log[n.pos]
	n.pos++
	switch c.kind {
	case cmdCreate:
		n.pass(c)
	case cmdDrop:
		n.drop(c.id)
	case cmdRetire:
		n.retiring = c.life == n
		if n.retiring {
			for id := range n.installed() {
				n.drop(id)
			}
		}
	case cmdJoin:
		n.world.must(n.view.Join(c.life.worker, c.life.incarnation, c.id))
		n.open(c.life, c.id)
	case cmdLeave:
		n.world.must(n.view.Leave(c.life.worker, c.life.incarnation, c.life.batchesTo(n)))
	case cmdCrash:
		n.world.must(n.view.Crash(c.life.worker, c.life.incarnation, c.id))
	}
	n.release()
	return true
}

func (n *life) batchesTo(to *life) uint64 {
	for _, p := range n.pipes {
		if p.to == to {
			return p.seq
		}
	}
	return 0
}

// pass goes past a new dataflow, in one of three ways.
func (n *life) pass(c command) {
	if c.id != n.next {
		n.world.fatalf("worker %d is at %d, and is told to create %d", n.worker, n.next, c.id)
	}
	n.next++
	switch hosted := c.hosts == nil || c.hosts[n.worker]; {
	case !hosted:
		n.say(Skip(c.id))
	case n.tombs[c.id]:
		n.ends[c.id] = Dropped
		b := Install(c.id)
		b.Merge(Retract(c.id, Dropped))
		n.say(b)
	default:
		n.say(InstallAs(c.id, fmt.Sprint("flow ", c.id)))
		n.built[c.id]++
		n.building[c.id] = false
	}
	delete(n.tombs, c.id)
}

// finish ends a construction, well or not.
func (n *life) finish(id uint64, ok bool) {
	drop, building := n.building[id]
	if !building || n.dead {
		return
	}
	delete(n.building, id)
	n.running[id] = true
	switch {
	case !ok:
		n.retract(id, Failed)
	case drop:
		n.retract(id, Dropped)
	}
}

// drop stops a dataflow, whatever has become of it here.
func (n *life) drop(id uint64) {
	if n.dead {
		return
	}
	if _, building := n.building[id]; building {
		n.building[id] = true
		return
	}
	if id >= n.next {
		n.tombs[id] = true
		return
	}
	n.retract(id, Dropped)
}

// complete is the natural end of a dataflow.
func (n *life) complete(id uint64) { n.retract(id, Completed) }

// retract is where every path ends; only the first that comes takes the id out.
func (n *life) retract(id uint64, o Outcome) {
	if n.dead || !n.running[id] {
		return
	}
	delete(n.running, id)
	if _, twice := n.ends[id]; twice {
		n.world.fatalf("worker %d retracts %d twice", n.worker, id)
	}
	n.ends[id] = o
	n.frozen[id] = true
	n.world.frozen = max(n.world.frozen, len(n.frozen))
	for _, p := range n.pipes {
		if p.to == n {
			n.toldSelf[id] = p.seq
		}
	}
	n.say(Retract(id, o))
}

func (n *life) installed() map[uint64]bool {
	out := maps.Clone(n.running)
	for id := range n.building {
		out[id] = true
	}
	return out
}

// say adds to what is unsent, for everyone.
func (n *life) say(b ChangeBatch) {
	for _, p := range n.pipes {
		p.unsent.Merge(b.Since(p.since))
		p.any = true
	}
}

func (p *pipe) send() bool {
	if !p.any {
		return false
	}
	p.queue = append(p.queue, packet{p.seq, p.unsent})
	p.seq++
	p.from.world.sent++
	p.unsent, p.any = ChangeBatch{}, false
	return true
}

// deliver hands over packet i, and keeps it in the pipe if it is to come twice.
func (p *pipe) deliver(i int, keep bool) {
	got := p.queue[i]
	if !keep {
		p.queue = slices.Delete(p.queue, i, i+1)
	}
	if p.to.dead {
		return
	}
	p.from.world.must(p.to.view.ApplyFrom(p.from.worker, p.from.incarnation, got.seq, got.batch))
	p.to.release()
}

// release frees what the view has let go, and holds each against the truth.
func (n *life) release() {
	for _, id := range n.view.Released() {
		n.world.checkOver(n, id)
		if !n.frozen[id] {
			continue
		}
		delete(n.frozen, id)
		if n.released[id]++; n.released[id] > 1 {
			n.world.fatalf("worker %d releases %d again", n.worker, id)
		}
		if own := n.view.members[n.identity]; own.seq <= n.toldSelf[id] {
			n.world.fatalf("worker %d releases %d before it has heard itself retract it", n.worker, id)
		}
	}
}

// checkOver: if n sees that nobody can schedule id, then nobody can, and how it
// ended is no better than it really did.
func (w *world) checkOver(n *life, id uint64) {
	var end Outcome
	for _, peer := range w.lives {
		if !peer.dead && peer.mayRun(id) {
			w.fatalf("worker %d releases %d, which worker %d may run", n.worker, id, peer.worker)
		}
		end = max(end, peer.told(id))
	}
	got, final := n.view.Outcome(id)
	if !final || got < end || got > end && !w.crash {
		w.fatalf("worker %d takes %d for %v (final: %v), but it is %v", n.worker, id, got, final, end)
	}
}

// told is how a share ended, as everybody has to hear: of one that crashed, that
// it was dropped may have been lost, but not that it was not completed.
func (n *life) told(id uint64) Outcome {
	if n.crashed {
		return min(n.ends[id], Failed)
	}
	return n.ends[id]
}

// mayRun: one that is leaving installs nothing any more.
func (n *life) mayRun(id uint64) bool {
	return id >= n.next && !n.retiring || n.installed()[id]
}

// settle lets everything happen that is left to: constructions end, dataflows
// complete, batches arrive.
func (w *world) settle() {
	for moved := true; moved; {
		moved = false
		for _, n := range w.lives {
			for n.step() {
				moved = true
			}
			for _, id := range slices.Sorted(maps.Keys(n.installed())) {
				n.finish(id, true)
				n.complete(id)
				moved = moved || !n.dead
			}
			moved = w.sayLeft(n) || moved
		}
		moved = w.exchange() || moved
	}
	w.checkSettled()
}

// exchange delivers all that is said, in order.
func (w *world) exchange() bool {
	moved := false
	for _, n := range w.lives {
		for _, p := range n.pipes {
			moved = !n.dead && p.send() || moved
			for len(p.queue) > 0 {
				p.deliver(0, false)
				moved = true
			}
		}
	}
	return moved
}

// checkSettled: nothing is pinned, and all that was frozen is free, once.
func (w *world) checkSettled() {
	for _, n := range w.lives {
		if n.dead {
			continue
		}
		if len(n.frozen) > 0 || n.view.Low() != w.ids || len(n.view.Gaps()) > 0 {
			w.fatalf("worker %d: frozen %v, low %d of %d, gaps %v", n.worker, n.frozen, n.view.Low(), w.ids, n.view.Gaps())
		}
		for id := range w.ids {
			if n.view.Beyond(id) || len(n.view.Pins(id)) > 0 {
				w.fatalf("worker %d: %d is pinned by %v", n.worker, id, n.view.Pins(id))
			}
		}
		for id := range n.built {
			if n.released[id] != 1 {
				w.fatalf("worker %d released %d %d times", n.worker, id, n.released[id])
			}
		}
	}
}
