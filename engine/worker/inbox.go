package worker

import (
	"sync"
	"time"
)

// inbox holds the commands that a worker has been sent and has not taken. It has
// no bound of its own: who sends must never wait for a worker that stalls, and
// looks at how far behind it is.
type inbox struct {
	mu     sync.Mutex
	queue  []arrived
	taken  time.Time // when the command came that was taken last, as long as the loop is at it
	closed bool
	gone   bool          // nobody takes anything any more
	ready  chan struct{} // has a token when there may be something to take
}

type arrived struct {
	command Command
	at      time.Time
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

func (b *inbox) put(c Command) {
	b.mu.Lock()
	if !b.gone {
		b.queue = append(b.queue, arrived{c, time.Now()})
	}
	b.mu.Unlock()
	b.wake()
}

// abandon says that nobody takes anything any more, and lets go of what is there.
func (b *inbox) abandon() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue, b.taken, b.gone = nil, time.Time{}, true
}

func (b *inbox) wake() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// close says that nothing more comes.
func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.wake()
}

// take takes the oldest command, and says that the one before is done; over is set
// once there is none and none comes.
func (b *inbox) take() (c Command, ok, over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		b.taken = time.Time{}
		return nil, false, b.closed
	}
	c, b.taken = b.queue[0].command, b.queue[0].at
	b.queue[0] = arrived{}
	if b.queue = b.queue[1:]; len(b.queue) == 0 {
		b.queue = nil
	}
	return c, true, false
}

// behind is how long the oldest command has waited, which may be the one that the
// loop is at: a loop that stalls at its last command stalls, too.
func (b *inbox) behind() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.taken.IsZero():
		return time.Since(b.taken)
	case len(b.queue) > 0:
		return time.Since(b.queue[0].at)
	}
	return 0
}
