package engine

import (
	"math"
	"time"
)

// limits are what dispatch goes by for one task: counters, no threads.
type limits struct {
	ready   int   // jobs that may run
	running int   // commands under way
	pool    int   // how many at once; 0: no limit of its own
	shared  int   // which of the shared pools, or noPool
	needs   needs // of one command
	held    bool  // paused, or not asked for
	batch   int   // jobs a command
}

// noPool is a task without a shared pool.
const noPool = -1

// needs are what a command takes of the machine, or what there is of it.
type needs struct {
	cpus int64 // thousandths
	mem  int64 // bytes
	gpus int
}

// fit reports whether n is there in left.
func (n needs) fit(left needs) bool {
	return n.cpus <= left.cpus && n.mem <= left.mem && n.gpus <= left.gpus
}

func (n needs) plus(m needs) needs {
	return needs{n.cpus + m.cpus, n.mem + m.mem, n.gpus + m.gpus}
}

func (n needs) minus(m needs) needs {
	return needs{n.cpus - m.cpus, n.mem - m.mem, n.gpus - m.gpus}
}

// room is what all tasks share.
type room struct {
	free  int    // slots
	pools []pool // the pipeline's
	left  needs  // of the machine
}

// pool is a shared pool.
type pool struct {
	name    string
	size    int // commands at once; 0: not limited
	running int
	starts  *bucket // nil: as many as may be
}

// pick chooses the task whose command goes next, in file order, and how many
// jobs the command takes. Where no task may start one it returns −1, and how
// long it is until a bucket lets one: 0 if none would.
func pick(tasks []limits, r room, now time.Time) (task, jobs int, wait time.Duration) {
	if r.free == 0 {
		return -1, 0, 0
	}
	for n, t := range tasks {
		if t.ready == 0 || t.held || t.pool > 0 && t.running >= t.pool || !t.needs.fit(r.left) {
			continue
		}
		if t.shared == noPool {
			return n, t.share(r.free, t.batch), 0
		}
		p := &r.pools[t.shared]
		if p.size > 0 && p.running >= p.size {
			continue
		}
		batch := t.batch
		if p.starts != nil {
			if batch = min(batch, p.starts.have(now)); batch == 0 {
				if w := p.starts.next(now); wait == 0 || w < wait {
					wait = w
				}
				continue
			}
		}
		free := r.free
		if p.size > 0 {
			free = min(free, p.size-p.running)
		}
		return n, t.share(free, batch), 0
	}
	return -1, 0, wait
}

// share is how many jobs one of the free slots takes: a batch, but no more than
// leaves the others theirs.
func (t limits) share(free, batch int) int {
	slots := free
	if t.pool > 0 {
		slots = min(slots, t.pool-t.running)
	}
	return max(1, min(batch, (t.ready+slots-1)/slots))
}

// bucket is a token bucket: each start takes a token, and they come at a steady
// rate. It holds so few that starts are spread evenly, and no stretch of time
// sees more than the rate and those few.
type bucket struct {
	rate   float64 // tokens a second
	most   float64 // tokens that it holds
	tokens float64
	at     time.Time // when tokens was counted; zero: it is full
}

// bucketSpan is how long a full bucket lasts: what a late wake-up may make up
// for.
const bucketSpan = 10 * time.Millisecond

// newBucket makes a full bucket of n tokens in a length of time, nil if n is 0.
func newBucket(n float64, per time.Duration) *bucket {
	if n <= 0 || per <= 0 {
		return nil
	}
	rate := n / per.Seconds()
	return &bucket{rate: rate, most: max(1, rate*bucketSpan.Seconds())}
}

// same reports whether two buckets have one rate.
func (b *bucket) same(c *bucket) bool {
	return b != nil && c != nil && b.rate == c.rate && b.most == c.most
}

// fill adds the tokens that have come by now.
func (b *bucket) fill(now time.Time) {
	if b.at.IsZero() {
		b.tokens = b.most
	} else if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.tokens = min(b.most, b.tokens+passed*b.rate)
	}
	if now.After(b.at) {
		b.at = now
	}
}

// nearly is what rounding may take off a token.
const nearly = 1e-6

// have is how many whole tokens there are.
func (b *bucket) have(now time.Time) int {
	b.fill(now)
	return int(b.tokens + nearly)
}

// take takes tokens that there are.
func (b *bucket) take(n int) { b.tokens -= float64(n) }

// giveBack returns tokens of jobs that did not start after all.
func (b *bucket) giveBack(n int) { b.tokens = min(b.most, b.tokens+float64(n)) }

// next is how long it is until there is a whole token.
func (b *bucket) next(now time.Time) time.Duration {
	b.fill(now)
	if b.tokens+nearly >= 1 {
		return 0
	}
	return time.Duration(math.Ceil((1 - b.tokens) / b.rate * float64(time.Second)))
}

const (
	maxBatch   = 512                   // jobs of one command, at most
	batchTime  = 5 * time.Millisecond  // how long a command should take
	firstBatch = 1                     // jobs of the first command
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

// batch is how many jobs one command takes, atOnce of which run at once; first is
// what the first command takes.
func (p *pace) batch(atOnce, first int) int {
	if p.mean == 0 {
		return first
	}
	return max(atOnce, min(maxBatch, int(float64(batchTime)/p.mean)*atOnce))
}
