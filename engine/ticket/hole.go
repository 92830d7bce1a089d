package ticket

import "operon/spec/coord"

// sliceHoles are the holes that a share's slice has.
type sliceHoles struct {
	whole bool // there is no list: the slice itself is a hole
	inner bool // an item or an inner list is one
	noted bool
	first job // the one that comes first by task and coordinate, for the reason
}

// job names a job.
type job struct {
	task int
	at   coord.Coord
}

// OnHole applies that the job at c of a task has become a hole: done, without a
// value. A spawning one has no items. Runnable is as of OnJob.
func (t *Table) OnHole(task int, c coord.Coord) (runnable []Range, err error) {
	tk := t.tasks[task]
	row, last, err := t.open(tk, c)
	if err != nil {
		return nil, err
	}
	t.holed = true
	row.holes.add(last) // first: who walks over its length must see what it is of
	if tk.spec.Spawn != nil {
		if err := t.OnResolution(tk.spec.Spawn.Index, c, 0); err != nil {
			row.holes.remove(last)
			return nil, err
		}
	}
	tk.counts.Holes++
	t.ended(tk, row, last, c)
	return t.take(), nil
}

// noteItem notes that the producer's job at c is a hole. That of a list is met
// by the walk, which knows where the list would stand.
func (s *share) noteItem(tk *task, c coord.Coord) {
	if tk.spec.Spawn == nil {
		s.holes.inner = true
		s.holes.note(tk, c)
	}
}

// noteList notes that the walk has met an empty list at a level, if a hole is
// why it is empty.
func (s *share) noteList(t *Table, level int, at coord.Coord) {
	spawner := s.ref.slice[level].dim.spawner
	if !t.holed || t.Status(spawner.index, at) != Hole {
		return
	}
	s.holes.whole = s.holes.whole || level == 0
	s.holes.inner = s.holes.inner || level > 0
	s.holes.note(spawner, at)
}

// note keeps the first of the holes, whatever the order in which they came.
func (h *sliceHoles) note(tk *task, c coord.Coord) {
	if !h.noted || tk.index < h.first.task || tk.index == h.first.task && c < h.first.at {
		h.noted, h.first = true, job{tk.index, c}
	}
}

// givesHole reports whether the reference gives the ticket at (prefix, last) a
// hole that makes it one.
func (t *Table) givesHole(r *ref, prefix coord.Coord, last uint32) bool {
	if !t.holed {
		return false
	}
	_, hole := t.holeOf(r, prefix, last)
	return hole
}

func (t *Table) anyGivesHole(refs []*ref, prefix coord.Coord, last uint32) bool {
	if !t.holed {
		return false
	}
	for _, r := range refs {
		if t.givesHole(r, prefix, last) {
			return true
		}
	}
	return false
}

// holeOf is the hole that the reference gives to the ticket at (prefix, last),
// if it gives one.
func (t *Table) holeOf(r *ref, prefix coord.Coord, last uint32) (job, bool) {
	var buf [4 * coord.MaxDims]byte
	pins := coord.Coord(r.pins(buf[:0], prefix, last))
	if r.shares == nil {
		// Nothing is sliced: the pins are the producer's whole context.
		return job{r.up.index, pins}, t.Status(r.up.index, pins) == Hole
	}
	s := r.shares[pins]
	if s == nil {
		return job{}, false
	}
	return s.holes.first, s.holes.whole || s.holes.inner && !r.holesNull
}

// TakesHole reports whether the promoted ticket at c of a task takes a hole.
func (t *Table) TakesHole(task int, c coord.Coord) bool {
	tk := t.tasks[task]
	prefix, last := tk.split(c)
	return t.anyGivesHole(tk.refs, prefix, last)
}

// Cause is the job without which the ticket at c of a task would not have been a
// hole, or would not take one: the first that it rests on, by the order of
// inputs, that has failed itself.
func (t *Table) Cause(task int, c coord.Coord) (int, coord.Coord) {
	for {
		tk := t.tasks[task]
		prefix, last := tk.split(c)
		found := false
		for _, r := range tk.refs {
			if up, hole := t.holeOf(r, prefix, last); hole {
				task, c, found = up.task, up.at, true
				break
			}
		}
		if !found {
			return task, c
		}
	}
}
