package worker

import (
	"slices"

	"operon/engine/frontier"
)

// Entry is a command of the history with its place in the order of all.
type Entry struct {
	Index   uint64 // from 1
	Command Command
}

// History is the lifecycle commands in the order that all workers take them in:
// what a worker has to be told to be where the others are. It is reduced when it
// has doubled, so its length is that of what there is, not of what has been.
// (After the command history of Materialize's compute protocol.)
type History struct {
	entries []Entry
	last    uint64 // index given last
	reduced int    // length after it was reduced last
	times   int    // it was reduced
	over    map[uint64]struct{}
}

// minReduce is the length from which a history is worth reducing.
const minReduce = 64

// Append takes a command in, which must be a lifecycle one, and returns it with
// its index. A dataflow is created before anything else is said of it, and not
// again after it was dropped.
func (h *History) Append(c Command) Entry {
	h.last++
	e := Entry{h.last, c}
	h.entries = append(h.entries, e)
	if len(h.entries) >= 2*max(h.reduced, minReduce) {
		h.Reduce()
	}
	return e
}

// Over says that no worker will ever schedule a dataflow again, so nobody needs
// to be told of it. Until then one that was dropped stays in the history: a
// worker that starts in the place of another has to retract it, too.
func (h *History) Over(id uint64) {
	if h.over == nil {
		h.over = map[uint64]struct{}{}
	}
	h.over[id] = struct{}{}
}

// Len is the number of commands.
func (h *History) Len() int { return len(h.entries) }

// Last is the index that was given last.
func (h *History) Last() uint64 { return h.last }

// Reductions is how often it was reduced: then entries that were taken before are
// no more.
func (h *History) Reductions() int { return h.times }

// Entries are the commands, in the order in which they are to be taken.
func (h *History) Entries() []Entry { return slices.Clone(h.entries) }

// Reduce leaves out what makes no difference to who takes the whole history from
// its start: earlier sessions, configurations that were replaced, dataflows that
// are over. What is left comes in this order: Hello, CreateInstance, the
// dataflows in the order of their ids, each under its last configuration, what
// schedules them, what drops them, InitializationComplete. They are numbered anew.
func (h *History) Reduce() {
	r := reduction{of: map[uint64]*kept{}}
	var open []Entry // a session that is not complete was not applied, and may be yet
	for _, said := range sessions(h.entries) {
		open = r.session(said)
	}
	h.entries = append(r.entries(h.over), open...)
	for n := range h.entries {
		h.entries[n].Index = uint64(n + 1)
	}
	h.last = max(h.last, uint64(len(h.entries)))
	h.reduced = len(h.entries)
	h.times++
	h.forget(open)
}

// forget lets go of what is over, but for what a session that is open speaks of:
// of all others no command is left, and none comes.
func (h *History) forget(open []Entry) {
	over := h.over
	h.over = nil
	for _, e := range open {
		id, about := About(e.Command)
		if _, is := over[id]; about && is {
			h.Over(id)
		}
	}
}

// sessions splits a history before each Hello.
func sessions(entries []Entry) (out [][]Entry) {
	from := 0
	for n, e := range entries {
		if _, hello := e.Command.(Hello); hello && n > from {
			out = append(out, entries[from:n])
			from = n
		}
	}
	if from < len(entries) {
		out = append(out, entries[from:])
	}
	return out
}

// reduction is what a history comes to.
type reduction struct {
	hello, instance, complete Entry
	order                     []uint64 // of the dataflows
	of                        map[uint64]*kept
}

// kept are the commands of one dataflow that still count, in their order.
type kept struct {
	create, schedule, drop Entry
}

// session takes in what one session said. If it never became complete, nothing
// of it was applied, and all of it is returned.
func (r *reduction) session(said []Entry) (open []Entry) {
	complete := slices.IndexFunc(said, func(e Entry) bool {
		_, ok := e.Command.(InitializationComplete)
		return ok
	})
	if complete < 0 {
		return said
	}
	named := map[uint64]bool{}
	for _, e := range said[:complete] {
		if c, ok := e.Command.(CreateDataflow); ok {
			named[c.Dataflow.ID] = true
		}
	}
	for _, id := range r.order { // first, as a worker does
		if k := r.of[id]; !named[id] && k.drop.Command == nil {
			k.drop.Command = AllowCompaction{id, frontier.Dropped}
		}
	}
	for _, e := range said[:complete] {
		r.take(e)
	}
	r.complete = said[complete]
	for _, e := range said[complete+1:] {
		r.take(e)
	}
	return nil
}

func (r *reduction) take(e Entry) {
	switch c := e.Command.(type) {
	case Hello:
		r.hello = e
	case CreateInstance:
		r.instance = e
	case CreateDataflow:
		r.configure(c.Dataflow)
	case UpdateConfiguration:
		if r.of[c.Dataflow.ID] != nil {
			r.configure(c.Dataflow)
		}
	case Schedule:
		if k := r.of[c.ID]; k != nil && k.schedule.Command == nil {
			k.schedule = e
		}
	case AllowCompaction:
		if k := r.of[c.ID]; k != nil && k.drop.Command == nil {
			k.drop = e
		}
	}
}

// configure notes a dataflow under its last configuration.
func (r *reduction) configure(d *Dataflow) {
	k := r.of[d.ID]
	if k == nil {
		k = &kept{}
		r.of[d.ID] = k
		r.order = append(r.order, d.ID)
	}
	k.create.Command = CreateDataflow{d}
}

// entries are what is left, but for what is over.
func (r *reduction) entries(over map[uint64]struct{}) []Entry {
	var out []Entry
	add := func(e Entry) {
		if e.Command != nil {
			out = append(out, e)
		}
	}
	add(r.hello)
	add(r.instance)
	for _, part := range []func(*kept) Entry{
		func(k *kept) Entry { return k.create },
		func(k *kept) Entry { return k.schedule },
		func(k *kept) Entry { return k.drop },
	} {
		for _, id := range r.order {
			if _, gone := over[id]; !gone {
				add(part(r.of[id]))
			}
		}
	}
	add(r.complete)
	return out
}
