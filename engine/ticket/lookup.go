package ticket

import "operon/spec/coord"

// Share is how many producer jobs that agree with pins have ended, and how many
// tickets do, by the ref-th input of a task; ok is false if that input slices
// nothing, or pins are not a coordinate of what it does not slice.
func (t *Table) Share(task, ref int, pins coord.Coord) (done, quota uint64, ok bool) {
	refs := t.tasks[task].refs
	if ref < 0 || ref >= len(refs) || refs[ref].shares == nil || pins.Len() != len(refs[ref].pinsUp) {
		return 0, 0, false
	}
	s := t.share(refs[ref], pins)
	return s.done, s.quota, true
}
