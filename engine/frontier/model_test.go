package frontier

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// The model: some workers that each go through the ids in order, installing or
// skipping them, and retract what they installed in any order; what each has
// said and one observer has not yet heard; and the observer. Every
// interleaving is visited, and in every state the observer is held against the
// truth.

const (
	maxWorkers = 4
	maxQueue   = 8
)

type model struct {
	workers, ids int
	start        func() observer

	reorder   bool  // batches of one worker overtake each other
	duplicate uint8 // how often a batch may be delivered a second time
	lose      bool  // batches may be lost
	coalesce  bool  // the last two batches may be merged before they are sent
	split     bool  // each item of a batch is a message: the mutation of F09
	labels    bool  // retractions complete or drop, and the end is compared
	reduce    bool  // states that differ by sequence numbers or names count as one

	member memberEvent
	at     uint8 // where the joiner joins
	since  uint8 // the observer joined there, and is sent nothing about older ids
}

// memberEvent is the one change of membership in a run. Worker 0 is then the
// observer: it hears the command when it gets to it, before it passes the id
// that the command stands at.
type memberEvent uint8

const (
	memberNone    memberEvent = iota
	memberJoin                // one more worker is let in at a place in the order
	memberJoined              // the same, seen by the one that joins
	memberAsync               // it just says that it is there: the mutation of F25
	memberLeave               // worker 1 leaves
	memberCrash               // worker 1 crashes and comes back
	memberZombie              // the same, but the old life goes on: F28
	memberReplace             // worker 1 crashes, and its next life goes on with some of what it had
)

type recordKind uint8

const (
	recordNone recordKind = iota
	recordJoin
	recordLeave
	recordCrash
	recordReplace
)

// record is a command about membership that the observer has yet to reach.
type record struct {
	kind    recordKind
	at      uint8 // the id it stands before
	batches uint8
	holds   uint8 // what the next life goes on with
}

// message is a batch under way; batch is an index into what was interned.
type message struct {
	batch    uint16
	seq, inc uint8
}

// actor is the truth about one life of a worker.
type actor struct {
	worker, inc uint8
	next, live  uint8 // live is a set of bits
	ends        uint8 // two bits for each id: how this worker's share ended
	seq         uint8
	stopped     bool // runs nothing any more, ever
	leaving     bool
	queued      uint8
	queue       [maxQueue]message
}

// state is comparable.
type state struct {
	seen   int32 // the observer, interned
	dups   uint8
	lost   bool
	moved  bool // the change of membership has begun
	record record
	actors [maxWorkers]actor
	n      uint8
}

type result struct {
	states    int
	edges     int
	violation string
	trace     []string
}

type explorer struct {
	model
	observers []observer
	masks     []uint8 // beyond, by observer
	byKey     map[string]int32
	memo      map[delivery]int32
	batches   []ChangeBatch
	byBatch   map[string]uint16
	sums      map[[2]uint16]uint16
	said      map[word]uint16
	renamed   map[renaming]int32

	pending []state // to be expanded, in the order of their numbers
	parents []int32 // by number of the state
	acts    []action
	seen    map[[2]uint64]struct{} // two hashes of each state: the states would not fit
	seeds   [2]maphash.Seed
	current int32 // number of the state that is being expanded
	mask    uint8 // and what is beyond there
	result
}

type delivery struct {
	seen   int32
	worker uint8
	m      message
	record record
}

// word is what a worker says about one id, before it is made a batch.
type word struct {
	what string
	id   uint8
}

type action struct {
	what   string
	worker uint8
	detail uint8
}

func (a action) String() string { return fmt.Sprintf("%s worker %d (%d)", a.what, a.worker, a.detail) }

// explore visits all states, breadth first, up to the first violation, so that
// its trace is a shortest one.
func (m model) explore() result {
	x := &explorer{
		model:   m,
		byKey:   map[string]int32{},
		memo:    map[delivery]int32{},
		byBatch: map[string]uint16{},
		sums:    map[[2]uint16]uint16{},
		said:    map[word]uint16{},
		renamed: map[renaming]int32{},
		seen:    map[[2]uint64]struct{}{},
		seeds:   [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		mask:    ^uint8(0),
	}
	x.visit(x.initial(), action{what: "start"})
	for len(x.pending) > 0 {
		level := x.pending
		x.pending = nil
		for _, s := range level {
			x.mask = x.masks[s.seen]
			x.expand(s)
			if x.violation != "" {
				return x.result
			}
			x.current++
		}
	}
	x.states = len(x.parents)
	return x.result
}

func (x *explorer) initial() state {
	s := state{seen: x.intern(x.start()), n: uint8(x.workers)}
	for w := range x.workers {
		s.actors[w] = actor{worker: uint8(w)}
	}
	if x.member == memberJoin || x.member == memberJoined || x.member == memberAsync {
		x.addJoiner(&s)
	}
	return s
}

// addJoiner lets one more worker run from the start: the command that lets it in
// is there, whether anyone else has got to it or not.
func (x *explorer) addJoiner(s *state) {
	joiner := &s.actors[s.n]
	*joiner = actor{worker: s.n, next: x.at}
	s.n++
	s.moved = true
	switch x.member {
	case memberJoin:
		s.record = record{kind: recordJoin, at: x.at}
	case memberAsync:
		var hello ChangeBatch
		hello.Update(Future(uint64(x.at)), 1)
		x.push(joiner, x.internBatch(hello))
	}
}

func (x *explorer) intern(o observer) int32 {
	key := o.key()
	if i, ok := x.byKey[key]; ok {
		return i
	}
	i := int32(len(x.observers))
	var mask uint8
	for id := range x.ids {
		if o.beyond(uint64(id)) {
			mask |= 1 << id
		}
	}
	x.observers = append(x.observers, o)
	x.masks = append(x.masks, mask)
	x.byKey[key] = i
	return i
}

// expand visits all that may happen next.
func (x *explorer) expand(s state) {
	for i := range s.n {
		x.work(s, i)
		for j := range s.actors[i].queued {
			x.network(s, i, j)
		}
		if n := s.actors[i].queued; x.coalesce && n >= 2 {
			x.merge(s, i)
		}
	}
	if s.record.kind != recordNone && s.actors[0].next == s.record.at {
		x.hearRecord(s)
	}
	if !s.moved && x.workers > 1 {
		x.move(s)
	}
	if s.actors[1].leaving && !s.actors[1].stopped && s.actors[1].live == 0 {
		x.eachPlace(s, func(s state, at uint8) {
			a := &s.actors[1]
			a.stopped = true
			s.record = record{kind: recordLeave, at: at, batches: a.seq}
			x.visit(s, action{"has left", 1, at})
		})
	}
}

// work is what one worker may do by itself.
func (x *explorer) work(s state, i uint8) {
	a := s.actors[i]
	if a.stopped {
		return
	}
	observerWaits := i == 0 && s.record.kind != recordNone && s.record.at == a.next
	if int(a.next) < x.ids && !a.leaving && !observerWaits {
		t := s
		b := &t.actors[i]
		b.next, b.live = a.next+1, a.live|1<<a.next
		x.tell(b, word{"install", a.next})
		x.visit(t, action{"install", i, a.next})

		t = s
		t.actors[i].next++
		x.tell(&t.actors[i], word{"skip", a.next})
		x.visit(t, action{"skip", i, a.next})
	}
	for id := range uint8(x.ids) {
		if a.live>>id&1 == 0 {
			continue
		}
		x.retract(s, i, id, Completed)
		if x.labels {
			x.retract(s, i, id, Dropped)
		}
	}
}

func (x *explorer) retract(s state, i, id uint8, o Outcome) {
	a := &s.actors[i]
	a.live &^= 1 << id
	if x.labels {
		a.ends |= uint8(o) << (2 * id)
	}
	x.tell(a, word{o.String(), id})
	x.visit(s, action{"retract, " + o.String() + ",", i, id})
}

// tell queues what the worker says about an id, if the observer is sent it.
func (x *explorer) tell(a *actor, w word) {
	if w.id < x.since {
		return
	}
	if !x.split {
		x.push(a, x.batchOf(w))
		return
	}
	for t, delta := range x.batches[x.batchOf(w)].All() {
		var item ChangeBatch
		item.Update(t, delta)
		x.push(a, x.internBatch(item))
	}
}

func (x *explorer) batchOf(w word) uint16 {
	i, ok := x.said[w]
	if ok {
		return i
	}
	id := uint64(w.id)
	switch w.what {
	case "install":
		i = x.internBatch(Install(id))
	case "skip":
		i = x.internBatch(Skip(id))
	case "completed":
		i = x.internBatch(Retract(id, Completed))
	case "dropped":
		i = x.internBatch(Retract(id, Dropped))
	}
	x.said[w] = i
	return i
}

func (x *explorer) push(a *actor, batch uint16) {
	a.queue[a.queued] = message{batch: batch, seq: a.seq, inc: a.inc}
	a.queued++
	a.seq++
}

func (x *explorer) internBatch(b ChangeBatch) uint16 {
	key := dumpBatch(b)
	i, ok := x.byBatch[key]
	if !ok {
		i = uint16(len(x.batches))
		x.batches = append(x.batches, b)
		x.byBatch[key] = i
	}
	return i
}

// merge makes one batch of the last two of a worker.
func (x *explorer) merge(s state, i uint8) {
	a := &s.actors[i]
	two := [2]uint16{a.queue[a.queued-2].batch, a.queue[a.queued-1].batch}
	merged, ok := x.sums[two]
	if !ok {
		var sum ChangeBatch
		sum.Merge(x.batches[two[0]])
		sum.Merge(x.batches[two[1]])
		merged = x.internBatch(sum)
		x.sums[two] = merged
	}
	a.queue[a.queued-1] = message{}
	a.queued--
	a.queue[a.queued-1].batch = merged
	a.seq--
	x.visit(s, action{"merge", i, a.queued})
}

// network is what may happen to message j of actor i: delivery, and whatever
// faults the model has. Those of a life that is over may also be lost.
func (x *explorer) network(s state, i, j uint8) {
	a := s.actors[i]
	stray := a.queue[j].inc != a.inc && (x.member == memberCrash || x.member == memberReplace)
	if j > 0 && !x.reorder && !stray {
		return
	}
	heard, ok := x.deliver(delivery{seen: s.seen, worker: a.worker, m: a.queue[j]})
	if !ok {
		return
	}
	rest := s
	rest.actors[i].remove(j)
	t := rest
	t.seen = heard
	x.visit(t, action{"deliver", i, j})
	if s.dups < x.duplicate {
		t = s
		t.seen = heard
		t.dups++
		x.visit(t, action{"deliver and keep", i, j})
	}
	if x.lose || stray {
		rest.lost = x.lose
		x.visit(rest, action{"lose", i, j})
	}
}

func (a *actor) remove(j uint8) {
	copy(a.queue[j:], a.queue[j+1:a.queued])
	a.queued--
	a.queue[a.queued] = message{}
}

// deliver lets the observer hear a message or a record. What it makes of it
// depends on nothing else, so each is tried once.
func (x *explorer) deliver(d delivery) (int32, bool) {
	if next, ok := x.memo[d]; ok {
		return next, true
	}
	var next observer
	var err error
	if o := x.observers[d.seen]; d.record.kind != recordNone {
		next, err = o.record(d.record, int(d.worker))
	} else {
		next, err = o.apply(int(d.worker), uint64(d.m.inc), uint64(d.m.seq), x.batches[d.m.batch])
	}
	if err != nil {
		x.fail(fmt.Sprintf("refused: %v", err))
		return 0, false
	}
	x.memo[d] = x.intern(next)
	return x.memo[d], true
}

func (x *explorer) hearRecord(s state) {
	worker := uint8(1)
	if s.record.kind == recordJoin {
		worker = uint8(x.workers)
	}
	heard, ok := x.deliver(delivery{seen: s.seen, worker: worker, record: s.record})
	if ok {
		at := s.record.at
		s.seen, s.record = heard, record{}
		x.visit(s, action{"hear the command about", worker, at})
	}
}

// move begins the change of membership.
func (x *explorer) move(s state) {
	s.moved = true
	a := &s.actors[1]
	switch x.member {
	case memberLeave:
		a.leaving = true
		x.visit(s, action{"ask to leave", 1, a.next})
	case memberCrash, memberZombie:
		x.eachPlace(s, func(s state, at uint8) {
			if x.member == memberZombie {
				s.actors[s.n] = s.actors[1]
				s.n++
				s.actors[1].queue, s.actors[1].queued = [maxQueue]message{}, 0
			}
			a := &s.actors[1]
			a.inc, a.next, a.live, a.seq = 1, at, 0, 0
			s.record = record{kind: recordCrash, at: at}
			x.visit(s, action{"crash", 1, at})
		})
	case memberReplace:
		x.eachPlace(s, func(s state, at uint8) {
			a := &s.actors[1]
			mayGoOn := a.live | (1<<at-1)&^(1<<a.next-1)
			for holds := uint8(0); holds <= mayGoOn; holds++ {
				if holds&^mayGoOn != 0 {
					continue
				}
				t := s
				b := &t.actors[1]
				b.inc, b.next, b.live, b.seq = 1, at, holds, 0
				t.record = record{kind: recordReplace, at: at, holds: holds}
				x.visit(t, action{"crash, go on with some as the next life,", 1, at})
			}
		})
	}
}

// eachPlace calls f with every place a new command may get: after all that any
// worker has acted on.
func (x *explorer) eachPlace(s state, f func(state, uint8)) {
	var first uint8
	for _, a := range s.actors[:s.n] {
		first = max(first, a.next)
	}
	for at := first; int(at) <= x.ids; at++ {
		f(s, at)
	}
}

// visit adds a state, and checks it and the step that led to it.
func (x *explorer) visit(s state, act action) {
	if x.violation != "" {
		return
	}
	x.edges++
	x.sortQueues(&s)
	if x.reduce {
		s = x.canonical(s)
	}
	if grown := x.masks[s.seen] &^ x.mask; grown != 0 {
		x.fail(fmt.Sprintf("S2: ids %v are beyond again", idsOf(grown)), act)
		return
	}
	hash := [2]uint64{maphash.Comparable(x.seeds[0], s), maphash.Comparable(x.seeds[1], s)}
	if _, ok := x.seen[hash]; ok {
		return
	}
	x.seen[hash] = struct{}{}
	x.pending = append(x.pending, s)
	x.parents = append(x.parents, x.current)
	x.acts = append(x.acts, act)
	if broken := x.check(s); broken != "" {
		x.fail(broken, act)
	}
}

// sortQueues makes queues that hold the same the same, where order is nothing.
func (x *explorer) sortQueues(s *state) {
	if !x.reorder {
		return
	}
	for i := range s.n {
		slices.SortFunc(s.actors[i].queue[:s.actors[i].queued], func(a, b message) int {
			return int(a.inc)<<8 + int(a.seq) - int(b.inc)<<8 - int(b.seq)
		})
	}
}

// check holds a state against the truth, by the closed form.
func (x *explorer) check(s state) string {
	var truth uint8 // may really be scheduled by somebody
	quiet := s.record.kind == recordNone
	for _, a := range s.actors[:s.n] {
		if !a.stopped {
			truth |= a.live | ^uint8(0)<<a.next
		}
		quiet = quiet && a.queued == 0
	}
	truth &= (1<<x.ids - 1) &^ (1<<x.since - 1)
	mask := x.masks[s.seen]
	switch {
	case truth&^mask != 0:
		return fmt.Sprintf("S1: ids %v may be scheduled, but are not beyond", idsOf(truth&^mask))
	case x.unheard(s)&^mask != 0:
		return fmt.Sprintf("F12: ids %v are not beyond, with a retraction under way", idsOf(x.unheard(s)&^mask))
	case x.lose && quiet:
		return x.checkGaps(s, mask != truth)
	case quiet && mask != truth:
		return fmt.Sprintf("L1, L2: ids %v are beyond, but nobody may schedule them", idsOf(mask&^truth))
	}
	return x.checkOutcomes(s)
}

// unheard is the ids that some worker in its present life has retracted without
// the observer having heard.
func (x *explorer) unheard(s state) uint8 {
	var out uint8
	if x.duplicate > 0 || x.split {
		return 0
	}
	for _, a := range s.actors[:s.n] {
		for _, m := range a.queue[:a.queued] {
			for t, delta := range x.batches[m.batch].All() {
				if t.installed && delta < 0 && m.inc == a.inc {
					out |= 1 << t.id
				}
			}
		}
	}
	return out
}

// checkGaps: once each worker has said a last nothing, the alarm is on if and
// only if a batch is lost, and it is if anything is stuck.
func (x *explorer) checkGaps(s state, stuck bool) string {
	v := cloneView(x.observers[s.seen].(viewObserver).v)
	for _, a := range s.actors[:s.n] {
		if err := v.Apply(int(a.worker), uint64(a.seq), ChangeBatch{}); err != nil {
			return "F08: heartbeat refused: " + err.Error()
		}
	}
	if alarm := len(v.Gaps()) > 0; alarm != s.lost || stuck && !alarm {
		return fmt.Sprintf("F08: gaps %v, batches lost: %v, stuck: %v", v.Gaps(), s.lost, stuck)
	}
	return ""
}

// checkOutcomes: an end that is final is the true one.
func (x *explorer) checkOutcomes(s state) string {
	o, ok := x.observers[s.seen].(viewObserver)
	if !x.labels || !ok {
		return ""
	}
	for id := range x.ids {
		var want Outcome
		for _, a := range s.actors[:s.n] {
			want = max(want, Outcome(a.ends>>(2*id)&3))
		}
		if got, final := o.v.Outcome(uint64(id)); final && got != want {
			return fmt.Sprintf("F33: %d is %v for good, but really %v", id, got, want)
		}
	}
	return ""
}

// fail records the violation, with how it came about.
func (x *explorer) fail(violation string, last ...action) {
	if x.violation != "" {
		return
	}
	x.violation = violation
	for _, a := range last {
		x.trace = append(x.trace, a.String())
	}
	for i := x.current; i > 0; i = x.parents[i] {
		x.trace = append(x.trace, x.acts[i].String())
	}
	slices.Reverse(x.trace)
}

func idsOf(mask uint8) []int {
	var out []int
	for id := range 8 {
		if mask>>id&1 != 0 {
			out = append(out, id)
		}
	}
	return out
}

func (r result) String() string {
	if r.violation == "" {
		return fmt.Sprintf("%d states, %d steps, violations: 0", r.states, r.edges)
	}
	return fmt.Sprintf("%s, after %d steps: %s", r.violation, len(r.trace), strings.Join(r.trace, "; "))
}
