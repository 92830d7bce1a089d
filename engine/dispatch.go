package engine

import (
	"math"
	"time"
)

// limits are what dispatch goes by for one task, or for some of its jobs: counters,
// no threads.
type limits struct {
	ready   int   // jobs that may run
	running int   // commands under way
	pool    int   // how many at once; 0: no limit of its own
	shared  int   // which of the shared pools, or noPool
	needs   needs // of one command
	held    bool  // paused, or not asked for
	batch   int   // jobs a command

	flow   int    // which task: entries of one share its pool
	retry  uint64 // of jobs that wait for GPUs that they had before: their order; 0: of others
	turn   uint64 // the order of those that others were preferred to for too long; 0: it is none
	barred int    // of the GPUs that are free, those that are not for it
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
	return (n.cpus == 0 || n.cpus <= left.cpus) && (n.mem == 0 || n.mem <= left.mem) && (n.gpus == 0 || n.gpus <= left.gpus)
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

// patience is how many starts may take away the room that a task waits for,
// before room is kept for it.
const patience = 10

// passedBy reports whether a start took room that t could have had: t could start
// but for the machine, of which there is now r.
func (t limits) passedBy(start needs, r room, now time.Time) bool {
	return t.retry == 0 && t.waits() && t.open(r, now) &&
		(start.cpus > 0 && t.needs.cpus > r.left.cpus || start.mem > 0 && t.needs.mem > r.left.mem ||
			start.gpus > 0 && t.needs.gpus > r.left.gpus-t.barred)
}

// waits reports whether the task has jobs that wait for others to end, and not for
// its own.
func (t limits) waits() bool { return t.ready > 0 && !t.held && (t.pool == 0 || t.running < t.pool) }

// open reports whether the task's shared pool lets it start a command.
func (t limits) open(r room, now time.Time) bool {
	if t.shared == noPool {
		return true
	}
	p := &r.pools[t.shared]
	return (p.size == 0 || p.running < p.size) && (p.starts == nil || p.starts.have(now) > 0)
}

// front is who goes before the order of the file, by index, −1 for nobody.
type front struct {
	retry int // of the retries that wait for their GPUs, the one that has waited longest
	large int // of the tasks that others were preferred to for too long, the first that was
}

func frontOf(tasks []limits) front {
	f := front{-1, -1}
	for n, t := range tasks {
		switch {
		case !t.waits():
		case t.retry > 0:
			if f.retry < 0 || t.retry < tasks[f.retry].retry {
				f.retry = n
			}
		case t.turn > 0:
			if f.large < 0 || t.turn < tasks[f.large].turn {
				f.large = n
			}
		}
	}
	return f
}

// before are those that an entry must not push back.
func (f front) before(tasks []limits, n int) []int {
	switch {
	case n == f.retry || f.retry < 0 && (n == f.large || f.large < 0):
		return nil
	case f.large < 0 || n == f.large || tasks[n].retry > 0:
		return []int{f.retry}
	case f.retry < 0:
		return []int{f.large}
	}
	return []int{f.retry, f.large}
}

// pick chooses the task whose command goes next, and how many jobs the command
// takes: who is in front, else in file order. Where no task may start one it
// returns −1, and how long it is until a bucket lets one: 0 if none would.
//
// Nothing that fits the machine waits for ever. Room, places in pools and starts
// are kept for who is in front: others get what it has no use for. So what it
// needs only becomes more, whatever runs ends, and it starts. Behind it the next
// is in front, in the order in which they came there. Retries are few: each job
// has so many, and whose first try would push back a large job does not start.
func pick(tasks []limits, r room, now time.Time) (task, jobs int, wait time.Duration) {
	if r.free == 0 {
		return -1, 0, 0
	}
	f := frontOf(tasks)
	try := func(n int) bool {
		var w time.Duration
		jobs, w = tasks[n].admit(f.before(tasks, n), tasks, r, now)
		if w > 0 && (wait == 0 || w < wait) {
			wait = w
		}
		return jobs > 0
	}
	for _, n := range []int{f.retry, f.large} {
		if n >= 0 && try(n) {
			return n, jobs, 0
		}
	}
	for n := range tasks {
		if n != f.retry && n != f.large && try(n) {
			return n, jobs, 0
		}
	}
	return -1, 0, wait
}

// admit is how many jobs a command of t takes now, 0 if none may start, without
// pushing back those of others that are before it; and how long it is until a
// bucket lets one start, if that is what it waits for.
func (t limits) admit(before []int, others []limits, r room, now time.Time) (jobs int, wait time.Duration) {
	if !t.waits() {
		return 0, 0
	}
	left := r.left
	left.gpus -= t.barred
	own, places, starts := math.MaxInt, math.MaxInt, math.MaxInt
	if t.pool > 0 {
		own = t.pool - t.running
	}
	if t.shared != noPool {
		p := &r.pools[t.shared]
		if p.size > 0 {
			places = p.size - p.running
		}
		if p.starts != nil {
			if starts = p.starts.have(now); starts == 0 && places > 0 && t.needs.fit(left) {
				wait = p.starts.next(now)
			}
		}
	}
	for _, n := range before {
		o := others[n]
		if o.flow == t.flow {
			own--
		}
		if o.shared == t.shared {
			places, starts = places-1, starts-1
		}
		if o.open(r, now) {
			left = left.beyond(o)
		}
	}
	if own <= 0 || places <= 0 || starts <= 0 || !t.needs.fit(left) {
		return 0, wait
	}
	return t.share(min(r.free, places), min(t.batch, starts)), 0
}

// beyond is what of n is no use to t. GPUs of a retry are certain ones: those are
// barred from the others.
func (n needs) beyond(t limits) needs {
	n.cpus, n.mem = max(0, n.cpus-t.needs.cpus), max(0, n.mem-t.needs.mem)
	if t.retry == 0 {
		n.gpus = max(0, n.gpus-t.needs.gpus)
	}
	return n
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
	maxBatch   = 512                    // jobs of one command, at most
	batchTime  = 5 * time.Millisecond   // how long a command should take
	firstBatch = 1                      // jobs of the first command
	oldWeight  = 0.75                   // of what was measured before
	minJobTime = 500 * time.Nanosecond  // nothing is faster
	minTopUp   = 250 * time.Microsecond // between the ends of a command's jobs, for others to take their places one by one
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

// slow reports whether it is worth while to hand out jobs one by one as others end,
// atOnce of which run at once: they do not wait for each other in a process that
// does one after another. It is where nobody knows yet.
func (p *pace) slow(atOnce int) bool {
	return p.mean == 0 || p.batch(atOnce, 1) == atOnce && p.mean >= float64(minTopUp)*float64(atOnce)
}

// batch is how many jobs one command takes, atOnce of which run at once; first is
// what the first command takes.
func (p *pace) batch(atOnce, first int) int {
	if p.mean == 0 {
		return first
	}
	return max(atOnce, min(maxBatch, int(float64(batchTime)/p.mean)*atOnce))
}
