package worker

import (
	"container/list"
	"sync"

	"operon/spec/coord"
)

// sliceKey names one slice: jobs that agree on the free coordinate share it.
type sliceKey struct {
	dataflow uint64
	input    string // the argument: its place may change with an edit
	pins     coord.Coord
}

// sliceBytes bounds the slices that are kept for the jobs to come.
const sliceBytes = 32 << 20

// sliceCache are the slices in use lately, so that one is read and digested once a
// free coordinate and not once a job. The most recent one is always kept.
type sliceCache struct {
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

func newSlices() *sliceCache {
	return &sliceCache{recent: list.New(), byKey: map[sliceKey]*list.Element{}}
}

func (s *sliceCache) get(key sliceKey, read func() (assembled, error)) (assembled, error) {
	e := s.entry(key)
	e.once.Do(func() { e.value, e.err = read() })
	s.settle(e)
	return e.value, e.err
}

func (s *sliceCache) entry(key sliceKey) *sliceEntry {
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
func (s *sliceCache) settle(e *sliceEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	el, held := s.byKey[e.key]
	if !held || el.Value.(*sliceEntry) != e {
		return
	}
	if e.err != nil {
		s.remove(el)
		return
	}
	s.bytes += e.value.size - e.size
	e.size = e.value.size
	for s.bytes > sliceBytes && s.recent.Len() > 1 {
		s.remove(s.recent.Back())
	}
}

func (s *sliceCache) remove(el *list.Element) {
	e := s.recent.Remove(el).(*sliceEntry)
	delete(s.byKey, e.key)
	s.bytes -= e.size
}

// drop lets go of a dataflow's slices: nobody will ask for them any more.
func (s *sliceCache) drop(dataflow uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for el := s.recent.Front(); el != nil; {
		next := el.Next()
		if el.Value.(*sliceEntry).key.dataflow == dataflow {
			s.remove(el)
		}
		el = next
	}
}
