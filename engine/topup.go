package engine

import (
	"cmp"
	"slices"
	"time"

	"operon/engine/worker"
)

// Jobs of a process that stays run several at once, and end one by one. In the
// place of each that ends another one of its task may run there at once: else a
// command would be as slow as its slowest job, and most of its places empty.
//
// But a command that never ends would keep what it has from everybody else. So one
// is given further jobs only where, had it ended now, its task would be given what
// it has: file order, pauses, pools, rates, and what is kept for who is in front
// hold as if each of its jobs were a command. Where another task would start in its
// place, it is left to end, and as many others as that one needs no more.

// topUp adds ready jobs to the commands that have places free.
func (l *loop) topUp() {
	orders := l.withRoom()
	if len(orders) == 0 || !l.mayStart() {
		return
	}
	now := time.Now()
	o := l.outlook()
	for _, r := range orders {
		o = l.topUpOne(o, r, now)
		if !l.mayStart() {
			return
		}
	}
}

// roomy is an open command with places that are free.
type roomy struct {
	*order
	room int
}

// withRoom are the commands that ready jobs may be added to: first those with most
// places free, which are the first to end if they get nothing.
func (l *loop) withRoom() (out []roomy) {
	for _, o := range l.crew.open {
		if n := o.room(); n > 0 {
			out = append(out, roomy{o, n})
		}
	}
	slices.SortStableFunc(out, func(a, b roomy) int { return cmp.Compare(b.room, a.room) })
	return out
}

// room is how many jobs may be added to a command. It is none if it is about to
// end, or its task has changed since: what it needs, or how long its jobs take.
func (o *order) room() int {
	f := o.flow
	if len(o.jobs) == 0 || f.frozen || !f.opens() || f.ready() == 0 || o.hand.stalled ||
		o.df != f.df || o.shared != f.shared || o.needs != f.needs {
		return 0
	}
	return max(0, o.df.Batches()-len(o.jobs))
}

// heed takes note of processes that die. That costs each job that one held an
// attempt, so it must not meet the next death for being put behind others: nothing
// is added to the task's commands until one has ended well that was not added to.
func (f *flow) heed(o *order, done *worker.JobsDone) {
	for i := range done.Results {
		if failure := done.Results[i].Failure; failure != nil && failure.Died {
			o.died, f.wary = true, true
		}
	}
	if !done.More && !o.cmd.Open && !o.died {
		f.wary = false
	}
}

// topUpOne gives a command the jobs that would start in its place, if they are of
// its task; else it is taken for ended.
func (l *loop) topUpOne(s outlook, r roomy, now time.Time) outlook {
	without := s.without(r.order)
	n, jobs, wait := pick(without.limits, without.room, now)
	if n < 0 {
		if wait > 0 && (l.nextStart == 0 || wait < l.nextStart) {
			l.nextStart = wait
		}
		return s
	}
	pin := without.pins[n]
	if l.flows[without.limits[n].flow] != r.flow || !without.suits(r.order, pin) {
		return without.start(now)
	}
	batch := l.takeJobs(r.flow, pin, min(jobs, r.room))
	for i := range batch {
		batch[i].Env = r.env
	}
	l.begin(r.order, len(batch))
	l.crew.add(r.order, batch)
	if r.added += len(batch); r.added >= r.df.Batches() { // as many as a command takes
		r.added = 0
		l.passOver(s.entries, n, now)
	}
	s.limits[n].ready -= len(batch)
	return s
}

// outlook is what dispatch goes by, with some commands taken for ended, and those
// for started that would then start.
type outlook struct {
	entries
	room room
	free []string // GPUs
}

func (l *loop) outlook() outlook {
	o := outlook{entries: l.entries(), room: l.room, free: l.gpus}
	o.room.free = min(o.room.free, l.crew.free())
	return o
}

// without is the outlook if a command had ended.
func (s outlook) without(o *order) outlook {
	s = s.clone()
	s.room.free++
	s.room.left = s.room.left.plus(o.needs)
	if o.shared != noPool {
		s.room.pools[o.shared].running--
	}
	s.count(o.flow.task.Index, -1)
	s.free = append(s.free, o.gpus...)
	s.kept = nil
	s.bar(s.free)
	return s
}

func (s outlook) clone() outlook {
	s.limits = slices.Clone(s.limits)
	s.room.pools = slices.Clone(s.room.pools)
	s.free = slices.Clone(s.free)
	return s
}

func (s *outlook) count(flow, commands int) {
	for n := range s.limits {
		if s.limits[n].flow == flow {
			s.limits[n].running += commands
		}
	}
}

// suits reports whether jobs that would start may have just the GPUs that a command
// has.
func (s *outlook) suits(o *order, pin *pinned) bool {
	if pin != nil {
		return slices.Equal(pin.env, o.env)
	}
	return !slices.ContainsFunc(o.gpus, func(gpu string) bool { return slices.Contains(s.kept, gpu) })
}

// start is the outlook once all has started that can.
func (s outlook) start(now time.Time) outlook {
	for {
		n, jobs, _ := pick(s.limits, s.room, now)
		if n < 0 {
			return s
		}
		t := s.limits[n]
		s.room.free--
		s.room.left = s.room.left.minus(t.needs)
		if t.shared != noPool {
			s.room.pools[t.shared].running++
		}
		s.limits[n].ready -= jobs
		s.count(t.flow, 1)
		s.take(s.pins[n], t.needs.gpus)
	}
}

// take takes GPUs of those that are free: those of a retry that waits for them, or
// any that are not kept.
func (s *outlook) take(pin *pinned, n int) {
	if n == 0 {
		return
	}
	s.free = slices.DeleteFunc(s.free, func(gpu string) bool {
		mine := n > 0 && !slices.Contains(s.kept, gpu)
		if pin != nil {
			mine = slices.Contains(pin.gpus, gpu)
		} else if mine {
			n--
		}
		return mine
	})
	s.kept = nil
	s.bar(s.free)
}
