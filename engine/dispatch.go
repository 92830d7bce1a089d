package engine

import "time"

// limits are what dispatch goes by for one task: counters, no threads.
type limits struct {
	ready   int  // jobs that may run
	running int  // commands under way
	pool    int  // how many at once; 0: no limit of its own
	held    bool // paused, or not asked for
	batch   int  // jobs a command
}

// pick chooses the task whose command goes next, in file order, and how many
// jobs the command takes. It returns −1 when no task may start one.
func pick(tasks []limits, free int) (task, jobs int) {
	if free == 0 {
		return -1, 0
	}
	for n, t := range tasks {
		if t.ready == 0 || t.held || t.pool > 0 && t.running >= t.pool {
			continue
		}
		return n, t.share(free)
	}
	return -1, 0
}

// share is how many jobs one of the free slots takes: a batch, but no more than
// leaves the others theirs.
func (t limits) share(free int) int {
	slots := free
	if t.pool > 0 {
		slots = min(slots, t.pool-t.running)
	}
	return max(1, min(t.batch, (t.ready+slots-1)/slots))
}

const (
	maxBatch   = 512                   // jobs of one command, at most
	batchTime  = 5 * time.Millisecond  // how long a command should take
	firstBatch = 8                     // jobs of the first command
	oldWeight  = 0.75                  // of what was measured before
	minJobTime = 500 * time.Nanosecond // nothing is faster
)

// pace is how long a task's jobs take in process, and so how many go into one
// command: enough that handing it over costs little, few enough that a stop
// waits for little.
type pace struct{ mean float64 } // nanoseconds a job

func (p *pace) add(jobs int, took time.Duration) {
	if jobs == 0 {
		return
	}
	each := max(float64(took)/float64(jobs), float64(minJobTime))
	if p.mean == 0 {
		p.mean = each
		return
	}
	p.mean = oldWeight*p.mean + (1-oldWeight)*each
}

func (p *pace) batch() int {
	if p.mean == 0 {
		return firstBatch
	}
	return max(1, min(maxBatch, int(float64(batchTime)/p.mean)))
}
