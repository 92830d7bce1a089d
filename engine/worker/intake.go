package worker

import "sync"

// intake is where jobs arrive that are added to a command, until its batch has
// places for them.
type intake struct {
	mu   sync.Mutex
	adds []AddJobs
	wake func() // of a batch that asked for more than there were; or nil
}

// addJobs hands jobs to the command that they are added to. Of one that is over,
// or is none, they never begin.
func (w *Worker) addJobs(c AddJobs) {
	in := w.installed[c.Dataflow]
	if in == nil {
		return
	}
	w.mu.Lock()
	to := in.intakes[c.Command]
	w.mu.Unlock()
	if to != nil {
		to.put(c)
	}
}

func (n *intake) put(c AddJobs) {
	n.mu.Lock()
	n.adds = append(n.adds, c)
	wake := n.wake
	n.wake = nil
	n.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// take takes up to room jobs, and all that were sent before it was heard that so
// many of the command's have failed. Where there are fewer, wake is called once
// there may be more.
func (n *intake) take(room, failures int, wake func()) (jobs, stale []Job) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.adds) > 0 && len(jobs) < room {
		c := &n.adds[0]
		if c.Failures < failures {
			stale = append(stale, c.Jobs...)
			n.adds = n.adds[1:]
			continue
		}
		k := min(room-len(jobs), len(c.Jobs))
		jobs = append(jobs, c.Jobs[:k]...)
		if c.Jobs = c.Jobs[k:]; len(c.Jobs) == 0 {
			n.adds = n.adds[1:]
		}
	}
	if n.wake = nil; len(jobs) < room {
		n.wake = wake
	}
	return jobs, stale
}
