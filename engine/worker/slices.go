package worker

import (
	"container/list"
	"sync"

	"operon/spec/coord"
)

// sliceKey names one slice: jobs that agree on the free coordinate share it.
type sliceKey struct {
	dataflow uint64
	input    int
	pins     coord.Coord
}

// sliceBytes bounds the slices that are kept for the jobs to come.
const sliceBytes = 32 << 20

// slices are the slices in use lately, so that one is read and digested once a
// free coordinate and not once a job. The most recent one is always kept.
type slices struct {
	mu     sync.Mutex
	recent *list.List // of *sliceEntry, most recent first
	byKey  map[sliceKey]*list.Element
	bytes  int
}

type sliceEntry struct {
	key   sliceKey
	once  sync.Once
	value assembled
	err   error
	size  int
}

func newSlices() *slices {
	return &slices{recent: list.New(), byKey: map[sliceKey]*list.Element{}}
}

func (s *slices) get(key sliceKey, read func() (assembled, error)) (assembled, error) {
	e := s.entry(key)
	e.once.Do(func() { e.value, e.err = read() })
	s.settle(e)
	return e.value, e.err
}

func (s *slices) entry(key sliceKey) *sliceEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if el, ok := s.byKey[key]; ok {
		s.recent.MoveToFront(el)
		return el.Value.(*sliceEntry)
	}
	e := &sliceEntry{key: key}
	s.byKey[key] = s.recent.PushFront(e)
	return e
}

// settle counts what e holds, and lets go of the oldest beyond the bound. One
// that could not be read is not kept.
func (s *slices) settle(e *sliceEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	el, held := s.byKey[e.key]
	if !held || el.Value.(*sliceEntry) != e {
		return
	}
	if e.err != nil {
		s.drop(el)
		return
	}
	s.bytes += e.value.size - e.size
	e.size = e.value.size
	for s.bytes > sliceBytes && s.recent.Len() > 1 {
		s.drop(s.recent.Back())
	}
}

func (s *slices) drop(el *list.Element) {
	e := s.recent.Remove(el).(*sliceEntry)
	delete(s.byKey, e.key)
	s.bytes -= e.size
}
