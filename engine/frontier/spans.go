package frontier

import (
	"cmp"
	"slices"
	"sort"
)

// spans is a set of ids as disjoint ascending ranges, each without its end.
type spans []span

type span struct{ from, to uint64 }

// with is the set with the range added; the old one is used up.
func (s spans) with(from, to uint64) spans {
	if from >= to {
		return s
	}
	s = append(s, span{from, to})
	slices.SortFunc(s, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	out := s[:1]
	for _, next := range s[1:] {
		if last := &out[len(out)-1]; next.from <= last.to {
			last.to = max(last.to, next.to)
		} else {
			out = append(out, next)
		}
	}
	return out
}

func (s spans) has(id uint64) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].to > id })
	return i < len(s) && s[i].from <= id
}
