package serve

import (
	"sync"

	"operon/engine"
)

// feedRoom is how many events, other than the counts of tasks, wait for a
// client. Of counts the newest of each task waits.
const feedRoom = 1024

// News is what a session has heard since it was last asked.
type News struct {
	Events []engine.Event
	Lost   int64 // events after these that found no room
	End    *End  // set once the run has ended: there will be no more
}

// End is how a run ended. Summary is nil where it did not get so far.
type End struct {
	Summary *engine.Summary
	Err     error
}

// feed holds what one session has not taken yet. Whoever puts something in never
// waits; what has no room is counted.
type feed struct {
	ready chan struct{} // has something while there is news; room for one

	mu     sync.Mutex
	events []engine.Event
	counts map[string]int // by task: where in events its counts are
	lost   int64
	end    *End
}

func newFeed() *feed {
	return &feed{ready: make(chan struct{}, 1), counts: map[string]int{}}
}

// put takes an event. It reports whether there was room.
func (f *feed) put(e engine.Event) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.wake()
	if e.Kind == engine.EventTask && e.Task != nil {
		if at, waits := f.counts[e.Task.Task]; waits {
			f.events[at] = e
			return true
		}
		f.counts[e.Task.Task] = len(f.events)
		f.events = append(f.events, e)
		return true
	}
	if len(f.events)-len(f.counts) >= feedRoom {
		f.lost++
		return false
	}
	f.events = append(f.events, e)
	return true
}

// fill takes the counts of tasks of which nothing newer waits.
func (f *feed) fill(events []engine.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range events {
		if _, waits := f.counts[e.Task.Task]; !waits {
			f.counts[e.Task.Task] = len(f.events)
			f.events = append(f.events, e)
		}
	}
	f.wake()
}

// finish says how the run ended.
func (f *feed) finish(end *End) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end = end
	f.wake()
}

// take hands out what waits.
func (f *feed) take() News {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := News{Events: f.events, Lost: f.lost, End: f.end}
	f.events, f.lost, f.counts = nil, 0, map[string]int{}
	return n
}

func (f *feed) wake() {
	select {
	case f.ready <- struct{}{}:
	default:
	}
}
