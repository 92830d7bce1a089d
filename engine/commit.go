package engine

import (
	"context"
	"sync"
	"time"

	"operon/engine/ticket"
	"operon/meta"
	"operon/storage"
)

// committer hands each batch of the loop to the two writers, data first: the
// metadata of a batch is submitted when its data is durable, so it never claims
// what the data lacks. A batch is durable when both are.
type committer struct {
	data *storage.Store
	meta *meta.Store

	submitted uint64 // batches, of the loop alone
	mu        sync.Mutex
	took      time.Duration // until batches were durable, from when they were submitted, all together
	stored    uint64        // batches whose data is durable
	durable   uint64        // batches that are durable as a whole
	applied   uint64        // the last data commit that the metadata has
	err       error
	wake      chan struct{} // has a token when stored, durable or err changed
}

func newCommitter(data *storage.Store, m *meta.Store) *committer {
	return &committer{data: data, meta: m, wake: make(chan struct{}, 1)}
}

// submit hands a batch over and returns its number. Readers of the store see it
// from then on.
func (c *committer) submit(d *storage.Batch, m *meta.Batch, urgent bool) uint64 {
	c.submitted++
	number := c.submitted
	c.mu.Lock()
	d.Applied = c.applied
	c.mu.Unlock()
	d.Urgent, m.Urgent = urgent, urgent
	since := time.Now()
	d.Done = func(commit uint64, err error) {
		if err != nil {
			c.note(func() { c.fail(err) })
			return
		}
		c.note(func() { c.stored = number })
		m.Applied = commit
		m.Done = func(err error) {
			c.note(func() {
				if err != nil {
					c.fail(err)
					return
				}
				c.durable, c.applied = number, commit
				c.took += time.Since(since)
			})
		}
		c.meta.Submit(m)
	}
	c.data.Submit(d)
	return number
}

func (c *committer) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

func (c *committer) note(change func()) {
	c.mu.Lock()
	change()
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// state is how far the writers are.
func (c *committer) state() (stored, durable uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stored, c.durable, c.err
}

// wait waits until a batch is durable.
func (c *committer) wait(number uint64) error {
	for {
		_, durable, err := c.state()
		if err != nil || durable >= number {
			c.note(func() {}) // the loop looks at it, too
			return err
		}
		<-c.wake
	}
}

// flush waits until everything submitted is durable.
func (c *committer) flush(ctx context.Context) error {
	err := c.data.Flush(ctx)
	if err == nil {
		err = c.meta.Flush(ctx)
	}
	if _, _, failed := c.state(); failed != nil {
		return failed
	}
	return err
}

// commit hands what this turn changed to the writers.
func (l *loop) commit(urgent bool) {
	changes := l.table.Changes()
	if l.puts == 0 && !urgent && l.meta.Len()+len(l.crew.fresh)+len(changes.Tickets)+len(changes.Shares)+len(changes.Resolutions) == 0 {
		return
	}
	l.write(changes)
	number := l.submit(urgent)
	l.ahead = append(l.ahead, batchJobs{number, l.puts})
	l.aheadJobs += l.puts
	l.puts = 0
	l.settleClaims()
}

// submit hands over what is pending for both stores, and returns the number of the
// batch.
func (l *loop) submit(urgent bool) uint64 {
	number := l.commits.submit(l.data, l.meta, urgent)
	l.data, l.meta = &storage.Batch{}, &meta.Batch{}
	return number
}

// write puts the changes of the tables into the pending metadata, with what was
// commanded meanwhile.
func (l *loop) write(c ticket.Changes) {
	l.crew.durable(l.meta)
	for _, p := range c.Resolutions {
		l.meta.PutResolutions(l.flows[p.Task].id, p.Prefix, p.Number, p.Data)
	}
	for _, p := range c.Tickets {
		l.meta.PutTickets(l.flows[p.Task].id, p.Prefix, p.Number, p.Data)
	}
	for _, s := range c.Shares {
		l.meta.PutShare(l.flows[s.Task].id, s.Ref, s.Pins, s.Done, s.Quota)
	}
}

// committed takes in how far the writers are.
func (l *loop) committed() {
	stored, _, err := l.commits.state()
	for len(l.ahead) > 0 && l.ahead[0].number <= stored {
		l.aheadJobs -= l.ahead[0].jobs
		l.ahead = l.ahead[1:]
	}
	if err != nil && l.sick == nil {
		l.fault(&MachineError{Doing: "write the state", Err: err})
		l.kill()
	}
}
