package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"operon/engine/frontier"
	"operon/engine/worker"
	"operon/meta"
)

// crew is the workers as the loop sees them. It is the one source of commands:
// it gives those of the history one order, keeps them, and watches from what the
// workers say which dataflows they may still schedule.
type crew struct {
	hire      func(worker.Config) (*worker.Worker, error)
	hands     []*hand
	responses chan worker.Response
	view      *frontier.View
	history   worker.History
	fresh     []worker.Entry // commands that are to be made durable
	config    worker.InstanceConfig
	next      uint64 // the first id that was never installed
	commands  uint64 // RunJobs sent so far
	orders    map[uint64]*order
	open      []*order // of those, the ones that jobs may be added to, oldest first
	reduced   int      // how often the history was reduced when it was last made durable
	dead      []*worker.Worker
	deaths    int // of workers, since a command was last answered
	patience  time.Duration
}

// hand is one worker.
type hand struct {
	*worker.Worker
	config             worker.Config
	busy               int                                 // commands under way
	discarded, stashed uint64                              // RunJobs so far, of all incarnations
	earlier            struct{ discarded, stashed uint64 } // of those before this one
	stalled            bool
	dead               bool // and nobody is in its place, since nothing more was to start
}

// order is a RunJobs that was not answered to its end.
type order struct {
	flow     *flow
	hand     *hand
	df       *worker.Dataflow // the configuration that it runs under
	cmd      worker.RunJobs
	jobs     []worker.Job // that were not answered
	failures int          // among its results
	added    int          // jobs, since others were last counted as passed over
	died     bool         // its process, with jobs that it held
	late     bool         // jobs were added: the last answer may leave some out
	gpus     []string     // what its jobs have for themselves
	env      []string     // of its jobs
	shared   int          // the pool it counts in, or noPool
	needs    needs
}

const (
	// stallAfter is how long a worker may leave a command alone before it gets no
	// more jobs, and status names it.
	stallAfter = 2 * time.Second
	// defaultPatience is how long before it is taken for dead, and replaced.
	defaultPatience = time.Minute
	// maxDeaths is how many workers may die with nothing done in between.
	maxDeaths = 10
)

// newCrew starts n workers that share slots. next is the first id that may be
// installed.
func newCrew(ctx context.Context, n, slots int, next uint64, patience time.Duration, template worker.Config, hire func(context.Context, worker.Config, chan<- worker.Response) (*worker.Worker, error)) (*crew, error) {
	each := (slots + n - 1) / n
	c := &crew{
		responses: make(chan worker.Response, n*each+64), view: frontier.NewViewAt(n, next),
		next: next, orders: map[uint64]*order{}, patience: cmp.Or(patience, defaultPatience),
	}
	c.hire = func(cfg worker.Config) (*worker.Worker, error) { return hire(ctx, cfg, c.responses) }
	for i := range n {
		cfg := template
		cfg.Index, cfg.Slots, cfg.FirstSlot, cfg.Next = i, each, i*each, next
		w, err := c.hire(cfg)
		if err != nil {
			c.close()
			return nil, err
		}
		c.hands = append(c.hands, &hand{Worker: w, config: cfg})
	}
	return c, nil
}

// broadcast gives a lifecycle command its place in the order of all, and sends it
// to every worker.
func (c *crew) broadcast(cmd worker.Command) {
	e := c.history.Append(cmd)
	c.fresh = append(c.fresh, e)
	if create, ok := cmd.(worker.CreateDataflow); ok {
		c.next = max(c.next, create.Dataflow.ID+1)
	}
	for _, h := range c.hands {
		h.Send(cmd)
	}
}

// greet begins a session, in which the dataflows are wanted, and no others.
func (c *crew) greet(flows []*worker.Dataflow) {
	c.broadcast(worker.Hello{Session: uuid.NewString()})
	c.broadcast(worker.CreateInstance{Config: c.config})
	slices.SortFunc(flows, func(a, b *worker.Dataflow) int { return cmp.Compare(a.ID, b.ID) })
	for _, d := range flows {
		c.broadcast(worker.CreateDataflow{Dataflow: d})
	}
	c.broadcast(worker.InitializationComplete{})
}

// spare is how many commands the worker could take now: none if it does not answer.
func (h *hand) spare() int {
	if h.stalled || h.dead {
		return 0
	}
	return h.config.Slots - h.busy
}

// free is how many commands all workers could take now.
func (c *crew) free() (n int) {
	for _, h := range c.hands {
		n += h.spare()
	}
	return n
}

// choose is the worker for the next command: the one with most to spare.
func (c *crew) choose() *hand {
	var best *hand
	for _, h := range c.hands {
		if h.spare() > 0 && (best == nil || h.spare() > best.spare()) {
			best = h
		}
	}
	return best
}

// run sends jobs of a flow to a worker. o has all but what is set here.
func (c *crew) run(o *order, jobs []worker.Job) {
	c.commands++
	o.hand = c.choose()
	o.hand.busy++
	o.cmd = worker.RunJobs{Command: c.commands, Dataflow: o.flow.id, Jobs: jobs, Open: o.flow.opens()}
	o.jobs = jobs
	c.orders[o.cmd.Command] = o
	if o.cmd.Open {
		c.open = append(c.open, o)
	}
	o.hand.Send(o.cmd)
}

// add sends further jobs to the worker that has an open order.
func (c *crew) add(o *order, jobs []worker.Job) {
	o.jobs, o.late = append(slices.Clip(o.jobs), jobs...), true
	o.hand.Send(worker.AddJobs{Command: o.cmd.Command, Dataflow: o.cmd.Dataflow, Jobs: jobs, Failures: o.failures})
}

// ended takes an order off, with its last answer.
func (c *crew) ended(o *order) {
	delete(c.orders, o.cmd.Command)
	if o.cmd.Open {
		c.open = slices.DeleteFunc(c.open, func(p *order) bool { return p == o })
	}
	o.hand.busy--
}

// of are the orders that a worker has, oldest first.
func (c *crew) of(h *hand) (out []*order) {
	for _, o := range c.orders {
		if o.hand == h {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *order) int { return cmp.Compare(a.cmd.Command, b.cmd.Command) })
	return out
}

// from is the worker that a response is of; nil if that one is no more.
func (c *crew) from(r worker.Response) *hand {
	if h := c.hands[r.Worker]; h.config.Incarnation == r.Incarnation {
		return h
	}
	return nil
}

// learn takes in what a worker may schedule from now on.
func (c *crew) learn(h *hand, f worker.Frontiers) error {
	h.discarded, h.stashed = h.earlier.discarded+f.Discarded, h.earlier.stashed+f.Stashed
	return c.view.ApplyFrom(h.config.Index, h.config.Incarnation, f.Seq, f.Batch)
}

// watch looks which workers stall, and takes those for dead that have for long.
func (c *crew) watch() {
	for _, h := range c.hands {
		behind := h.Behind()
		h.stalled = behind > min(stallAfter, c.patience)
		if behind > c.patience {
			h.Fence(fmt.Errorf("worker %d took no command for %v", h.config.Index, behind.Round(time.Second)))
		}
	}
}

// replace puts a new incarnation in the place of a worker that died. It goes on
// with all dataflows that are not over, and is told the history.
func (c *crew) replace(h *hand) error {
	cfg := h.config
	cfg.Incarnation++
	cfg.Next = c.next
	var entries []worker.Entry
	entries, cfg.Holds = c.left(cfg.Index)
	if err := c.view.Replace(cfg.Index, cfg.Incarnation, cfg.Next, cfg.Holds); err != nil {
		return err
	}
	w, err := c.hire(cfg)
	if err != nil {
		return err
	}
	for _, e := range entries {
		w.Send(e.Command)
	}
	c.dead = append(c.dead, h.Worker)
	next := &hand{Worker: w, config: cfg, discarded: h.discarded, stashed: h.stashed}
	next.earlier.discarded, next.earlier.stashed = h.discarded, h.stashed
	c.hands[cfg.Index] = next
	return nil
}

// revive puts workers in the places of those that died when nothing more was to
// start.
func (c *crew) revive() error {
	for _, h := range c.hands {
		if !h.dead {
			continue
		}
		if err := c.replace(h); err != nil {
			return err
		}
	}
	return nil
}

// left is what a worker in the place of another has to be told, and the dataflows
// that it goes on with: the history, but for those that the one before retracted,
// which others may still hold.
func (c *crew) left(index int) (entries []worker.Entry, holds []uint64) {
	var before frontier.Member
	for _, m := range c.view.Members() {
		if m.Worker == index {
			before = m
		}
	}
	c.history.Reduce()
	for _, e := range c.history.Entries() {
		id, about := worker.About(e.Command)
		if about && id < before.Next && !slices.Contains(before.Live, id) {
			continue
		}
		entries = append(entries, e)
		if _, create := e.Command.(worker.CreateDataflow); create {
			holds = append(holds, id)
		}
	}
	return entries, holds
}

// stop lets no further job begin.
func (c *crew) stop() {
	for _, h := range c.hands {
		h.Stop()
	}
}

// kill ends all jobs at once.
func (c *crew) kill() {
	for _, h := range c.hands {
		h.Kill()
	}
}

// closePatience is how long a worker that stalls is waited for at the end, from
// when it began to, if it is not taken for dead before.
const closePatience = 5 * time.Second

// close waits for all workers to end. What they still say nobody hears.
func (c *crew) close() error {
	all := c.dead
	for _, h := range c.hands {
		all = append(all, h.Worker)
	}
	errs := make(chan error, len(all))
	for _, w := range all {
		go func() { errs <- w.Close(min(closePatience, c.patience)) }()
	}
	var err error
	for waiting := len(all); waiting > 0; {
		select {
		case <-c.responses:
		case e := <-errs:
			err = cmp.Or(err, e)
			waiting--
		}
	}
	return err
}

// durable puts what was commanded since it was last asked into a batch.
func (c *crew) durable(m *meta.Batch) {
	if len(c.fresh) == 0 {
		return
	}
	entries := c.fresh
	if again := c.history.Reductions() > c.reduced; again || entries[0].Index == 1 {
		m.DropCommands()
		entries = c.history.Entries()
		c.reduced = c.history.Reductions()
	}
	for _, e := range entries {
		m.PutCommand(commandOf(e))
	}
	c.fresh = nil
}

// commandOf is a command as the metadata has it.
func commandOf(e worker.Entry) meta.Command {
	out := meta.Command{Index: e.Index}
	dataflow := func(kind meta.CommandKind, d *worker.Dataflow) {
		out.Kind, out.Dataflow, out.Fingerprint, out.Text = kind, d.ID, d.Task.Fingerprint, d.Task.Name
	}
	switch c := e.Command.(type) {
	case worker.Hello:
		out.Kind, out.Text = meta.CommandHello, c.Session
	case worker.CreateInstance:
		out.Kind, out.Text = meta.CommandInstance, c.Config.RunID
	case worker.CreateDataflow:
		dataflow(meta.CommandCreate, c.Dataflow)
	case worker.UpdateConfiguration:
		dataflow(meta.CommandConfigure, c.Dataflow)
	case worker.Schedule:
		out.Kind, out.Dataflow = meta.CommandSchedule, c.ID
	case worker.AllowCompaction:
		out.Kind, out.Dataflow, out.Outcome = meta.CommandCompact, c.ID, uint8(c.Outcome)
	case worker.InitializationComplete:
		out.Kind = meta.CommandInitializationEnded
	}
	return out
}
