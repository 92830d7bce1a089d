package storage

import (
	"cmp"
	"slices"
)

// instances is a set of instance numbers. Numbers rise and are given once, so those
// of what is gone lie close to each other: as ranges, the set takes no more than
// what is still there between them.
type instances struct {
	ranges []instRange // rising, none touches the next
}

// instRange is the numbers from first to last.
type instRange struct{ first, last uint64 }

// find is the index of the range that has inst, or else of the one after it.
func (s *instances) find(inst uint64) (n int, has bool) {
	n, _ = slices.BinarySearchFunc(s.ranges, inst, func(r instRange, inst uint64) int { return cmp.Compare(r.last, inst) })
	return n, n < len(s.ranges) && s.ranges[n].first <= inst
}

func (s *instances) has(inst uint64) bool {
	_, has := s.find(inst)
	return has
}

func (s *instances) add(inst uint64) {
	n, has := s.find(inst)
	if has {
		return
	}
	follows := n > 0 && s.ranges[n-1].last+1 == inst
	leads := n < len(s.ranges) && inst+1 == s.ranges[n].first
	switch {
	case follows && leads:
		s.ranges[n-1].last = s.ranges[n].last
		s.ranges = slices.Delete(s.ranges, n, n+1)
	case follows:
		s.ranges[n-1].last = inst
	case leads:
		s.ranges[n].first = inst
	default:
		s.ranges = slices.Insert(s.ranges, n, instRange{inst, inst})
	}
}

func (s *instances) clone() instances { return instances{slices.Clone(s.ranges)} }

// all are the members, rising.
func (s *instances) all(yield func(uint64) bool) {
	for _, r := range s.ranges {
		for inst := r.first; ; inst++ {
			if !yield(inst) {
				return
			}
			if inst == r.last {
				break
			}
		}
	}
}
