package engine

import (
	"context"
	"maps"
	"time"
)

// Drop ends the dataflows of tasks, and of all that hangs on them, for this run:
// their running jobs are ended, what is done of them stays, and the rest of the
// run goes on. The next run goes on with them under other ids. A task that is
// unknown is an *UnknownError; one that is done can't be dropped.
func (e *Engine) Drop(ctx context.Context, tasks []string) error {
	v, err := e.ask(ctx, func(l *loop) any { return l.drop(tasks) })
	if err != nil {
		return err
	}
	if v != nil {
		return v.(error)
	}
	return e.unwritten()
}

// Metrics are numbers about an engine that runs. Counts rise from its start.
type Metrics struct {
	Reconciles
	Frozen             int              // dataflows that wait to be dropped
	OldestFrozen       time.Duration    // since when the oldest of them does
	Lag                []uint64         // of each worker: ids that it has yet to pass
	Ready, Running     map[string]int64 // jobs, by task
	Executed, Reused   map[string]int64
	Failed, Holes      map[string]int64
	Commits            int64         // batches that became durable
	CommitTime         time.Duration // from handing a batch over until it was, all together
	History            int           // commands
	Stashed, Discarded int64         // commands for dataflows that were not there yet, or no more
}

// Metrics are the engine's numbers as they stand.
func (e *Engine) Metrics(ctx context.Context) (*Metrics, error) {
	v, err := e.ask(ctx, func(l *loop) any { return l.metrics(time.Now()) })
	if err != nil {
		return nil, err
	}
	return v.(*Metrics), nil
}

// Reconciles counts what became of dataflows: when the run began, and each time it
// was told what is wanted anew.
type Reconciles struct {
	Kept     int64            `json:"kept"`
	Created  int64            `json:"created"`
	Dropped  int64            `json:"dropped"`
	Replaced map[string]int64 `json:"replaced"` // by the first rule that failed
}

// add counts the decisions of one reconcile.
func (t *Reconciles) add(decisions []decision, dropped int) {
	if t.Replaced == nil {
		t.Replaced = map[string]int64{}
	}
	t.Dropped += int64(dropped)
	for _, d := range decisions {
		switch d.Action {
		case actionKeep:
			t.Kept++
		case actionCreate:
			t.Created++
		case actionReplace:
			t.Replaced[string(d.Rule)]++
		}
	}
}

// JobTotals counts a task's jobs that ended since the engine began, of all its
// dataflows: also of those that were replaced or dropped, and each failure of a job
// that was tried again.
type JobTotals struct{ Executed, Reused, Failed, Holes int64 }

// total is what counts a task's jobs.
func (l *loop) total(task string) *JobTotals {
	t := l.totals[task]
	if t == nil {
		t = &JobTotals{}
		l.totals[task] = t
	}
	return t
}

func (t Reconciles) clone() Reconciles {
	t.Replaced = maps.Clone(t.Replaced)
	return t
}

func (l *loop) metrics(now time.Time) *Metrics {
	m := &Metrics{
		Reconciles: l.tally.clone(),
		Frozen:     len(l.frozen), History: l.crew.history.Len(),
		Ready: map[string]int64{}, Running: map[string]int64{}, Executed: map[string]int64{}, Reused: map[string]int64{},
		Failed: map[string]int64{}, Holes: map[string]int64{},
	}
	for _, f := range l.frozen {
		m.OldestFrozen = max(m.OldestFrozen, now.Sub(f.since))
	}
	for _, w := range l.crew.view.Members() {
		m.Lag = append(m.Lag, l.crew.next-min(w.Next, l.crew.next))
	}
	for _, f := range l.flows {
		name := f.task.Name
		m.Ready[name], m.Running[name] = int64(f.ready()), f.jobs
	}
	for name, t := range l.totals {
		m.Executed[name], m.Reused[name], m.Failed[name], m.Holes[name] = t.Executed, t.Reused, t.Failed, t.Holes
	}
	for _, h := range l.crew.hands {
		m.Stashed += int64(h.stashed)
		m.Discarded += int64(h.discarded)
	}
	l.commits.mu.Lock()
	m.Commits, m.CommitTime = int64(l.commits.durable), l.commits.took
	l.commits.mu.Unlock()
	return m
}
