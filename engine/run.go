package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/uuid"

	"operon/engine/body"
	"operon/engine/worker"
	"operon/meta"
	"operon/spec"
	"operon/spec/value"
	"operon/storage"
)

// plan is what a run starts from: for each task its dataflow, kept or new.
type plan struct {
	foot      meta.Footprint
	decisions []decision
	ids       []uint64 // of each task
	orphans   []uint64
	content   []value.Digest            // of each source task: what it looks at now
	memo      map[value.Digest][]uint64 // by fingerprint: the dataflows that hold results
	newRun    bool
}

// Run runs the pipeline to its end, and returns after everything it started has
// ended. A cancelled ctx stops it at once. Failed jobs are no error: the
// summary tells of them. An Engine runs once.
func (e *Engine) Run(ctx context.Context) (*Summary, error) {
	started := time.Now()
	defer close(e.ended)
	if err := e.endStrays(ctx); err != nil {
		return nil, err
	}
	pl, err := e.plan(ctx)
	if err != nil {
		return nil, err
	}
	if s := e.nothingToDo(pl); s != nil {
		s.Elapsed = time.Since(started).Seconds()
		return s, nil
	}
	w, err := e.startWorker(ctx, pl)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	l, err := e.newLoop(pl, w)
	if err != nil {
		return nil, err
	}
	runErr := l.run(ctx, e.requests)
	s, err := e.finish(ctx, l, pl, started)
	return s, errors.Join(runErr, err)
}

// endStrays ends whatever jobs an engine that was killed left running, before
// anything else starts, and empties their folder.
func (e *Engine) endStrays(ctx context.Context) error {
	ended, err := body.EndStrays(ctx, filepath.Join(e.dir, runningFile), e.token)
	if err != nil {
		return stateError(e.dir, "end the jobs that an earlier run left", err)
	}
	if len(ended) > 0 {
		e.note(fmt.Sprintf("ended %d processes that an earlier run left", len(ended)))
	}
	scratch := filepath.Join(e.dir, scratchDir)
	if err := os.RemoveAll(scratch); err != nil {
		return &MachineError{Doing: "empty the jobs' folder", Err: err}
	}
	if err := os.Mkdir(scratch, 0o700); err != nil {
		return &MachineError{Doing: "make the jobs' folder", Err: err}
	}
	return nil
}

// plan decides what is kept of what is there.
func (e *Engine) plan(ctx context.Context) (*plan, error) {
	p := e.p
	pl := &plan{ids: make([]uint64, len(p.Tasks)), content: make([]value.Digest, len(p.Tasks))}
	f := facts{old: map[string]oldFlow{}, content: map[string]bool{}}
	last := RunState(e.stores.last.State)
	pl.newRun = !e.stores.found || last == StateComplete
	f.newRun = pl.newRun
	for _, t := range p.Tasks {
		if t.Body.Kind != spec.BodySource {
			continue
		}
		digest, err := body.SourceKey(ctx, e.bodies, t)
		if err != nil {
			// A source that can't be read is the job's failure, not the run's.
			digest = value.Digest{1}
		}
		pl.content[t.Index] = digest
	}
	err := e.stores.data.View(func(r *storage.Reader) error { return e.lookAt(r, &f, pl) })
	if err != nil {
		return nil, stateError(e.dir, "read what is there", err)
	}
	pl.decisions, pl.orphans = reconcile(p, f)
	for _, t := range p.Tasks {
		if d := pl.decisions[t.Index]; d.Action == actionKeep {
			pl.ids[t.Index] = d.Old
		} else {
			pl.ids[t.Index] = e.stores.data.AllocateInstance()
		}
	}
	pl.foot = e.footprint(pl)
	return pl, nil
}

// lookAt collects the dataflows that are there, and which sources look at what
// they did.
func (e *Engine) lookAt(r *storage.Reader, f *facts, pl *plan) error {
	headers, err := r.Headers()
	if err != nil {
		return err
	}
	pl.memo = map[value.Digest][]uint64{}
	for _, h := range headers {
		if h.State != storage.Released {
			pl.memo[h.Fingerprint] = append(pl.memo[h.Fingerprint], h.ID)
		}
		if h.State != storage.Current {
			continue
		}
		f.old[h.Task] = oldFlow{ID: h.ID, Task: h.Task, Fingerprint: h.Fingerprint, Dims: h.Dims, Spawn: h.Spawn}
	}
	for _, t := range e.p.Tasks {
		old, there := f.old[t.Name]
		if t.Body.Kind != spec.BodySource || !there {
			continue
		}
		same := true
		err := r.Records(old.ID, "", func(rec storage.Record) error {
			same = same && rec.Key == spec.JobKey(t, nil, rec.Coord, pl.content[t.Index])
			return nil
		})
		if err != nil {
			return err
		}
		f.content[t.Name] = same
	}
	return nil
}

// footprint is what the run writes of itself at its start.
func (e *Engine) footprint(pl *plan) meta.Footprint {
	last := e.stores.last
	foot := meta.Footprint{
		Format: formatVersion, RunID: last.RunID, State: string(StateRunning),
		Asked: asked{Params: e.o.Params, Until: e.o.Until}.encode(),
		File:  filepath.Base(e.p.File), Pipeline: e.p.Name, Source: e.p.Source, Build: e.o.Build,
		Started: last.Started, Updated: time.Now(),
	}
	if pl.newRun || foot.RunID == "" {
		foot.RunID, foot.Started = uuid.NewString(), foot.Updated
	}
	return foot
}

// nothingToDo is the summary of a run that finds everything done, or nil.
func (e *Engine) nothingToDo(pl *plan) *Summary {
	last := e.stores.last
	if e.stores.rebuild || RunState(last.State) != StateComplete || len(pl.orphans) > 0 || last.File != pl.foot.File {
		return nil
	}
	for _, d := range pl.decisions {
		if d.Action != actionKeep {
			return nil
		}
	}
	var s Summary
	if json.Unmarshal(e.stores.last.Summary, &s) != nil || len(s.Tasks) != len(e.p.Tasks) {
		return nil
	}
	byTask := map[string]TaskSummary{}
	for _, t := range s.Tasks {
		byTask[t.Task] = t
	}
	s = Summary{Pipeline: e.p.Name, Run: e.stores.last.RunID, State: StateComplete, Asked: true}
	for _, t := range e.p.Tasks {
		ts, ok := byTask[t.Name]
		if !ok {
			return nil
		}
		ts.Reused, ts.Executed = ts.Done, 0
		s.Tasks = append(s.Tasks, ts)
		s.Reused += ts.Reused
		s.Holes += ts.Holes
	}
	return &s
}

func (e *Engine) startWorker(ctx context.Context, pl *plan) (*worker.Worker, error) {
	slots := e.slots()
	running, err := body.OpenRunning(filepath.Join(e.dir, runningFile), slots)
	if err != nil {
		return nil, stateError(e.dir, "open the list of running jobs", err)
	}
	e.running = running
	w, err := worker.New(ctx, worker.Config{
		Slots:   slots,
		Store:   e.stores.data,
		Logs:    filepath.Join(e.dir, logsDir),
		Scratch: filepath.Join(e.dir, scratchDir),
		Running: running,
		Token:   e.token,
		RunID:   pl.foot.RunID,
	})
	if err != nil {
		return nil, &MachineError{Doing: "start the slots", Err: err}
	}
	return w, nil
}

func (e *Engine) slots() int {
	if e.o.Jobs > 0 {
		return e.o.Jobs
	}
	return runtime.NumCPU()
}

// newLoop installs the dataflows, restores the tickets, and writes down that
// the run begins.
func (e *Engine) newLoop(pl *plan, w *worker.Worker) (*loop, error) {
	l := &loop{
		p: e.p, log: e.log, events: e.o.Events, worker: w, free: e.slots(), keepGoing: e.o.KeepGoing,
		commits: newCommitter(e.stores.data, e.stores.meta), runID: pl.foot.RunID, logs: filepath.Join(e.dir, logsDir),
		data: &storage.Batch{},
	}
	if err := e.install(l, pl); err != nil {
		return nil, err
	}
	r, err := e.restoreTickets(pl)
	if err != nil {
		return nil, err
	}
	l.table = r.table
	if r.adopted > 0 {
		e.note(fmt.Sprintf("adopted %d finished jobs that the metadata did not have yet", r.adopted))
	}
	l.push(r.runnable)
	for n, f := range l.flows {
		f.reused = l.table.Counts(n).Done
	}
	e.begin(l, pl, r)
	return l, nil
}

// install makes the flow of every task.
func (e *Engine) install(l *loop, pl *plan) error {
	wanted := e.wanted()
	spawners := make([]uint64, len(e.p.Dims))
	for _, d := range e.p.Dims {
		spawners[d.Index] = pl.ids[d.Spawner.Index]
	}
	for _, t := range e.p.Tasks {
		runner, err := e.runner(t)
		if err != nil {
			return fmt.Errorf("prepare the body of task %s: %w", t.Name, err)
		}
		df := &worker.Dataflow{ID: pl.ids[t.Index], Task: t, Runner: runner, Content: pl.content[t.Index], Spawners: spawners}
		if t.Cache {
			df.Memo = worker.NewMemo(pl.memo[t.Fingerprint])
		}
		for _, in := range t.In {
			df.Producers = append(df.Producers, pl.ids[in.Entity.Producer.Index])
		}
		l.worker.CreateDataflow(df)
		l.flows = append(l.flows, &flow{task: t, id: df.ID, df: df, wanted: wanted[t.Index], queue: newQueue(t), said: DataflowWaiting})
	}
	return nil
}

func (e *Engine) runner(t *spec.TaskSpec) (body.Runner, error) {
	if e.o.Bodies != nil {
		return e.o.Bodies(t)
	}
	return body.New(e.bodies, t)
}

// wanted are the tasks that the run is asked for.
func (e *Engine) wanted() []bool {
	out := make([]bool, len(e.p.Tasks))
	for _, name := range e.o.Until {
		t := e.p.Task(name)
		out[t.Index] = true
		for _, up := range t.AllUpstreamTasks() {
			out[up.Index] = true
		}
	}
	if len(e.o.Until) == 0 {
		for n := range out {
			out[n] = true
		}
	}
	return out
}

// restoreTickets replays what the kept dataflows have finished.
func (e *Engine) restoreTickets(pl *plan) (out *restored, err error) {
	err = e.stores.data.View(func(r *storage.Reader) error {
		return e.stores.meta.View(func(m *meta.Reader) error {
			out, err = restoreFrom(e.p, pl.kept(), r, m, e.stores.rebuild)
			return err
		})
	})
	return out, stateError(e.dir, "replay the finished jobs", err)
}

// kept is the dataflow of each task that is kept, 0 for the others.
func (pl *plan) kept() []uint64 {
	out := make([]uint64, len(pl.ids))
	for n, d := range pl.decisions {
		if d.Action == actionKeep {
			out[n] = pl.ids[n]
		}
	}
	return out
}

// begin writes down that the run begins: the footprint, the headers of new
// dataflows, what is retired, and the tickets as they were restored.
func (e *Engine) begin(l *loop, pl *plan, r *restored) {
	m := &meta.Batch{}
	if e.stores.rebuild {
		m.Reset()
	}
	footprints(pl.foot, l.data, m)
	for _, id := range pl.orphans {
		l.data.SetState(id, storage.Retired)
		m.DropDataflow(id)
	}
	for _, t := range e.p.Tasks {
		d := pl.decisions[t.Index]
		if d.Action == actionReplace {
			l.data.SetState(d.Old, storage.Retired)
			m.DropDataflow(d.Old)
			e.pruneLogs(t.Name)
		}
		h := storage.Header{ID: pl.ids[t.Index], Task: t.Name, Entity: t.Out.Name, Fingerprint: t.Fingerprint, Dims: t.ContextNames(), State: storage.Current, Created: pl.foot.Updated}
		if t.Spawn != nil {
			h.Spawn = t.Spawn.Name
		}
		if d.Action != actionKeep {
			l.data.PutHeader(h)
		}
		m.PutDataflow(meta.Dataflow{ID: h.ID, Task: h.Task, Fingerprint: h.Fingerprint, Dims: h.Dims, Spawn: h.Spawn, State: string(DataflowRunning)})
		for _, c := range r.failed[t.Index] {
			l.data.DropFailure(h.ID, c)
			l.table.Touch(t.Index, c)
		}
		for _, c := range r.dropped[t.Index] {
			l.data.DropRecord(h.ID, c)
		}
	}
	l.write(m, l.table.Changes())
	l.commits.submit(l.data, m, true)
	l.data = &storage.Batch{}
}

// pruneLogs removes the logs of a task whose jobs run again.
func (e *Engine) pruneLogs(task string) {
	if err := os.RemoveAll(filepath.Join(e.dir, logsDir, task)); err != nil {
		e.log.Warn("remove old logs", "task", task, "err", err)
	}
}

// finish makes everything durable, writes down how the run ended, and sums up.
func (e *Engine) finish(ctx context.Context, l *loop, pl *plan, started time.Time) (*Summary, error) {
	ctx = context.WithoutCancel(ctx) // what was finished is kept, also when we were told to go
	s := l.summary()
	s.Elapsed = time.Since(started).Seconds()
	m := &meta.Batch{}
	foot := pl.foot
	foot.State, foot.Updated = string(s.State), time.Now()
	var err error
	if foot.Summary, err = json.Marshal(s); err != nil {
		return s, fmt.Errorf("this is a bug: %w", err)
	}
	footprints(foot, l.data, m)
	for _, f := range l.flows {
		m.PutDataflow(meta.Dataflow{ID: f.id, Task: f.task.Name, Fingerprint: f.task.Fingerprint, Dims: f.task.ContextNames(), Spawn: spawnName(f.task), State: string(f.said)})
	}
	m.PutHistory(foot.RunID, foot.Summary)
	l.commits.submit(l.data, m, true)
	if err := l.commits.flush(ctx); err != nil {
		return s, &MachineError{Doing: "write the state", Err: err}
	}
	l.answer()
	l.tell(time.Now(), true)
	l.say(Event{Kind: EventRun, State: s.State})
	return s, nil
}

func spawnName(t *spec.TaskSpec) string {
	if t.Spawn == nil {
		return ""
	}
	return t.Spawn.Name
}

// summary is how the run ended.
func (l *loop) summary() *Summary {
	st := l.status()
	s := &Summary{Pipeline: st.Pipeline, Run: st.Run, Failures: l.failures.list()}
	failed, complete, wanted := false, true, true
	for n, t := range st.Tasks {
		f := l.flows[n]
		s.Tasks = append(s.Tasks, TaskSummary{TaskStatus: t, Executed: f.executed})
		s.Executed += f.executed
		s.Reused += t.Reused
		s.Failed += t.Failed
		s.Blocked += t.Blocked
		s.Holes += t.Holes
		failed = failed || t.Failed > 0
		done := l.table.Counts(n).Complete()
		complete = complete && done
		wanted = wanted && (done || !f.wanted)
	}
	s.Asked = wanted && l.sick == nil
	switch {
	case failed:
		s.State = StateFailed
	case complete:
		s.State = StateComplete
	default:
		s.State = StateStopped
	}
	return s
}
