package engine

import (
	"maps"
	"slices"

	"operon/engine/worker"
)

// A worker's processes stay while its task may have more jobs, and with them the
// memory and the GPUs that they have taken. As long as nobody else needs these,
// that costs nothing. Where another task does, the processes of a task that has no
// job ready or under way are ended before its command starts: ending them is a
// command of its own, for all workers, which takes what they hold until they are
// gone.

// stay is what the processes that a task keeps may hold.
type stay struct {
	processes int                // at most: as many as ran at once
	gpus      []string           // that they were started with
	resting   bool               // they are being ended
	taken     []string           // GPUs that this has taken from those that are free
	held      needs              // what this takes of the machine
	waits     map[*hand]struct{} // workers that have not said so yet
}

// keep takes note of a command of a task whose processes stay.
func (f *flow) keep(o *order) {
	if !f.df.Stays() {
		return
	}
	f.stay.processes = max(f.stay.processes, f.running)
	for _, gpu := range o.gpus {
		if !slices.Contains(f.stay.gpus, gpu) {
			f.stay.gpus = append(f.stay.gpus, gpu)
		}
	}
}

// idles reports whether the task keeps processes that have nothing to do.
func (f *flow) idles() bool {
	return f.stay.processes > 0 && !f.stay.resting && !f.over && f.running == 0 && f.ready() == 0
}

func (f *flow) stayingMem() int64 { return int64(f.stay.processes) * f.needs.mem }

// makeRoom begins to end processes that idle if a command of f would not fit beside
// them, and reports whether it did: f is to wait for that. p is nil if any GPUs
// will do, but for those that are kept.
func (l *loop) makeRoom(f *flow, p *pinned, kept []string) bool {
	if f.needs.mem == 0 && f.needs.gpus == 0 {
		return false
	}
	var gpus []string
	if p != nil {
		gpus = p.gpus
	}
	mem := l.room.left.mem
	free := slices.DeleteFunc(slices.Clone(l.gpus), func(gpu string) bool { return slices.Contains(kept, gpu) && gpus == nil })
	keepers := l.keepers()
	for _, g := range keepers {
		if g != f && g.idles() {
			mem -= g.stayingMem()
			free = slices.DeleteFunc(free, func(gpu string) bool { return slices.Contains(g.stay.gpus, gpu) })
		}
	}
	noMem := f.needs.mem > 0 && mem < f.needs.mem
	noGPU := len(free) < f.needs.gpus || slices.ContainsFunc(gpus, func(gpu string) bool { return !slices.Contains(free, gpu) })
	for _, g := range keepers {
		if g != f && g.idles() && (noMem && g.needs.mem > 0 || noGPU && g.needs.gpus > 0) {
			l.rest(g)
			return true
		}
	}
	return false
}

// keepers are the dataflows that may keep processes: those of the tasks, and those
// that were one's and are on their way out.
func (l *loop) keepers() []*flow {
	out := slices.Clone(l.flows)
	for _, id := range slices.Sorted(maps.Keys(l.frozen)) {
		if f := l.frozen[id]; f.gone {
			out = append(out, f)
		}
	}
	return out
}

// rest ends the processes of a task.
func (l *loop) rest(f *flow) {
	l.running++
	f.stay.resting, f.stay.taken = true, nil
	l.gpus = slices.DeleteFunc(l.gpus, func(gpu string) bool {
		taken := slices.Contains(f.stay.gpus, gpu)
		if taken {
			f.stay.taken = append(f.stay.taken, gpu)
		}
		return taken
	})
	f.stay.held = needs{mem: f.stayingMem(), gpus: len(f.stay.taken)}
	l.room.left = l.room.left.minus(f.stay.held)
	l.resting[f.id] = f
	f.stay.waits = map[*hand]struct{}{}
	for _, h := range l.crew.hands {
		f.stay.waits[h] = struct{}{}
		h.Send(worker.Rest{Dataflow: f.id})
	}
}

// rested takes in that they have ended on a worker.
func (l *loop) rested(f *flow, h *hand) {
	if _, waited := f.stay.waits[h]; !waited {
		return
	}
	if delete(f.stay.waits, h); len(f.stay.waits) > 0 {
		return
	}
	delete(l.resting, f.id)
	l.running--
	l.room.left = l.room.left.plus(f.stay.held)
	l.gpus = append(l.gpus, f.stay.taken...)
	begun := stay{processes: f.running} // since
	if f.running > 0 {
		begun.gpus = f.stay.gpus
	}
	f.stay = begun
}

// byStay orders GPUs for a command of f: first those that its own processes were
// started with, last those that others keep.
func (l *loop) byStay(f *flow) func(a, b string) int {
	keepers := l.keepers()
	kept := func(gpu string) int {
		switch {
		case slices.Contains(f.stay.gpus, gpu):
			return 0
		case slices.ContainsFunc(keepers, func(g *flow) bool { return g != f && !g.over && slices.Contains(g.stay.gpus, gpu) }):
			return 2
		}
		return 1
	}
	return func(a, b string) int {
		if ka, kb := kept(a), kept(b); ka != kb {
			return ka - kb
		}
		return compareGPUs(a, b)
	}
}
