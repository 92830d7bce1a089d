package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/google/uuid"

	"operon/engine/body"
	"operon/engine/frontier"
	"operon/engine/worker"
	"operon/meta"
	"operon/spec"
	"operon/storage"
)

// plan is what a run starts from: for each task its dataflow, kept or new.
type plan struct {
	*survey
	foot meta.Footprint
	ids  []uint64        // of each task
	redo map[string]bool // tasks that take no results from other dataflows

	// aside are dataflows with what rests on holes that are tried again.
	aside []uint64
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
	if err := e.mend(ctx); err != nil {
		return nil, err
	}
	if e.o.RetryHoles {
		e.stores.rebuild, e.stores.image = true, nil // what rests on them is found by replay
	}
	e.goOn()
	pl, err := e.plan(ctx)
	if err != nil {
		return nil, err
	}
	if s := e.nothingToDo(pl); s != nil {
		s.Elapsed = time.Since(started).Seconds()
		return s, errors.Join(e.saveAll(ctx, pl.ids), e.trimMemo(ctx))
	}
	l, r, err := e.newLoop(ctx, pl)
	if err != nil {
		return nil, err
	}
	if err := e.startCrew(ctx, l, pl); err != nil {
		return nil, err
	}
	if l.saver != nil {
		l.saver.start(nil)
	}
	defer func() {
		if err := l.crew.close(); err != nil {
			e.log.Error("the engine did not end cleanly", "err", err)
		}
	}()
	e.begin(l, pl, r)
	runErr := l.run(ctx, e.requests)
	runErr = errors.Join(runErr, e.finishSaves(ctx, l))
	s, err := e.finish(ctx, l, started)
	if err == nil && s.State == StateComplete {
		err = e.trimMemo(ctx)
	}
	if s != nil && s.Asked {
		err = errors.Join(err, l.missing())
	}
	return s, errors.Join(runErr, err)
}

// endStrays ends whatever jobs an engine that was killed left running, before
// anything else starts, and empties their folder.
func (e *Engine) endStrays(ctx context.Context) error {
	running := filepath.Join(e.dir, runningFile)
	if info, err := os.Lstat(running); err == nil && !info.Mode().IsRegular() {
		if err := os.RemoveAll(running); err != nil { // nothing that a run has left
			return &MachineError{Doing: "remove what lies in the place of the list of running jobs", Err: err}
		}
	}
	ended, err := body.EndStrays(ctx, running, e.token)
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

// recallDigests takes over the digests of source files that were looked at before.
// keep leaves those that were looked at since to whoever is next.
func (e *Engine) recallDigests() (keep func()) {
	known := filepath.Join(e.dir, digestsFile)
	if err := e.bodies.LoadDigests(known); err != nil {
		e.log.Warn("sources are read again", "err", err)
	}
	return func() {
		if err := e.bodies.SaveDigests(known); err != nil {
			e.log.Warn("sources will be read again", "err", err)
		}
	}
}

// plan decides what is kept of what is there.
func (e *Engine) plan(ctx context.Context) (pl *plan, err error) {
	defer e.recallDigests()()
	pl = &plan{}
	err = e.stores.data.View(func(r *storage.Reader) error {
		pl.survey, err = look(ctx, e.p, e.bodies, r, e.stores.last, e.stores.found)
		return err
	})
	if d, damaged := errors.AsType[*storage.Damage](err); damaged {
		return nil, inconsistentAt(e.stores.data, d)
	}
	if err != nil {
		return nil, stateError(e.dir, "read what is there", err)
	}
	if e.o.RetryHoles {
		pl.retryHoles(e.p, e.stores.last)
	}
	pl.runAgain(e.p, e.o.Redo, "it is to run again, as asked for")
	pl.redo = e.redoing(e.o.Redo, pl.newRun)
	pl.number(e.stores.data)
	pl.foot = e.footprint(pl)
	e.sayWhy(pl)
	return pl, nil
}

// number gives each task's dataflow its id: what is kept has one.
func (pl *plan) number(data *storage.Store) {
	pl.ids = make([]uint64, len(pl.decisions))
	for n, d := range pl.decisions {
		if pl.ids[n] = d.Old; d.Action != actionKeep {
			pl.ids[n] = data.AllocateInstance()
		}
	}
}

// sayWhy logs for each task why it runs.
func (e *Engine) sayWhy(pl *plan) {
	for _, t := range e.p.Tasks {
		switch pl.decisions[t.Index].Action {
		case actionReplace:
			e.log.Info("task runs again", "task", t.Name, "why", rootCause(t, pl.decisions))
		case actionCreate:
			e.log.Debug("task is new", "task", t.Name)
		}
	}
	for _, o := range pl.orphans {
		e.log.Info("task is gone", "task", o.Task)
	}
}

// footprint is what the run writes of itself at its start.
func (e *Engine) footprint(pl *plan) meta.Footprint {
	last := e.stores.last
	foot := meta.Footprint{
		Format: formatVersion, RunID: last.RunID, State: string(StateRunning),
		Asked: e.asked(pl).encode(),
		File:  filepath.Base(e.p.File), Pipeline: e.p.Name, Source: e.p.Snapshot(), Build: e.o.Build,
		Started: last.Started, Updated: time.Now(),
	}
	// Where records are dropped that the metadata knows, another run id makes a
	// crash in between look like what it is.
	if pl.newRun || foot.RunID == "" || e.o.RetryHoles {
		foot.RunID, foot.Started = uuid.NewString(), foot.Updated
	}
	return foot
}

// givenParams are the params that a pipeline was loaded with, but for secret ones.
func givenParams(p *spec.Pipeline) map[string]string {
	out := map[string]string{}
	for _, param := range p.Params {
		if param.Given && !param.Secret {
			out[param.Name] = param.Text()
		}
	}
	return out
}

// asked is what the run was asked for, with what a later one needs to say why it
// runs something again.
func (e *Engine) asked(pl *plan) asked {
	a := asked{Dir: e.o.Dir, Params: givenParams(e.p), Until: e.o.Until, Only: e.o.Only, Sample: e.o.Sample, Fields: map[string][]spec.Field{}, Reasons: map[string]string{}, Began: time.Now()}
	a.Saves = decodeAsked(e.stores.last.Asked).Saves.still(e.p, pl.decisions)
	for _, t := range e.p.Tasks {
		if pl.redo[t.Name] {
			a.Redo = append(a.Redo, t.Name)
		}
		a.Fields[t.Name] = t.Fields
		if pl.decisions[t.Index].Action != actionKeep {
			a.Reasons[t.Name] = rootCause(t, pl.decisions)
		}
	}
	return a
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
	takers := consumers(e.p)
	for _, t := range e.p.Tasks {
		if !t.Keep && len(takers[t.Index]) > 0 && !pl.released[pl.ids[t.Index]] {
			return nil // saving failed, or a worker stalled: now the values can go
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
	s = Summary{Pipeline: e.p.Name, Run: e.stores.last.RunID, State: StateComplete, Asked: true, Dataflows: Reconciles{Kept: int64(len(e.p.Tasks)), Replaced: map[string]int64{}}, Totals: map[string]JobTotals{}}
	for _, t := range e.p.Tasks {
		ts, ok := byTask[t.Name]
		if !ok {
			return nil
		}
		ts.Reused, ts.Executed = ts.Done, 0
		s.Tasks = append(s.Tasks, ts)
		s.Totals[t.Name] = JobTotals{Reused: ts.Reused}
		s.Reused += ts.Reused
		s.Holes += ts.Holes
	}
	return &s
}

// startCrew starts the workers, installs the dataflows that are not done, and
// lets those run that were asked for.
func (e *Engine) startCrew(ctx context.Context, l *loop, pl *plan) error {
	var flows []*worker.Dataflow
	first := uint64(0)
	for n, f := range l.flows {
		first = max(first, f.id+1)
		if f.installed = !l.table.Counts(n).Complete(); !f.installed {
			f.over, f.outcome = true, frontier.Completed // by an earlier run
			continue
		}
		flows = append(flows, f.df)
	}
	for _, d := range flows {
		first = min(first, d.ID)
	}
	slots, workers := e.slots(), max(1, e.o.Workers)
	running, err := body.OpenRunning(filepath.Join(e.dir, runningFile), slots+workers)
	if err != nil {
		return stateError(e.dir, "open the list of running jobs", err)
	}
	e.running = running
	limited := false
	l.limitMemory = func() {
		if !limited && slices.ContainsFunc(l.p.Tasks, func(t *spec.TaskSpec) bool { return t.Mem > 0 }) {
			limited = true
			running.LimitGroups(e.log)
		}
	}
	l.limitMemory()
	template := worker.Config{
		Store:   e.stores.data,
		Caches:  l.caches,
		Logs:    filepath.Join(e.dir, logsDir),
		Dir:     e.o.Dir,
		Scratch: filepath.Join(e.dir, scratchDir),
		Running: running,
		Token:   e.token,
		RunID:   pl.foot.RunID,
	}
	l.crew, err = newCrew(ctx, workers, slots, first, e.o.StallLimit, template, e.hire)
	if err != nil {
		return &MachineError{Doing: "start the slots", Err: err}
	}
	l.crew.config = worker.InstanceConfig{Format: formatVersion, Workers: workers, RunID: pl.foot.RunID}
	l.crew.greet(flows)
	for _, f := range l.flows {
		l.schedule(f)
	}
	return nil
}

// hire starts a worker.
func (e *Engine) hire(ctx context.Context, cfg worker.Config, responses chan<- worker.Response) (*worker.Worker, error) {
	if fault := e.o.Fault; fault != nil {
		cfg.Fault = func(point string) { fault(cfg.Index, cfg.Incarnation, point) }
	}
	return worker.New(ctx, cfg, responses)
}

func (e *Engine) slots() int {
	if e.o.Jobs > 0 {
		return e.o.Jobs
	}
	return runtime.NumCPU()
}

// newLoop makes the flows and restores the tickets.
func (e *Engine) newLoop(ctx context.Context, pl *plan) (*loop, *restored, error) {
	l := &loop{
		ctx: ctx, pl: pl, p: e.p, log: e.log, events: e.o.Events, caches: worker.NewCaches(), takers: consumers(e.p),
		room: room{free: e.slots(), pools: newPools(e.p), left: e.room}, gpus: slices.Clone(e.gpus),
		keepGoing: e.o.KeepGoing || e.o.MaxFailures > 0, maxFailures: e.o.MaxFailures,
		commits: newCommitter(e.stores.data, e.stores.meta), runID: pl.foot.RunID, logs: filepath.Join(e.dir, logsDir),
		data: &storage.Batch{}, meta: &meta.Batch{}, transient: newTransients(e.p), frozen: map[uint64]*flow{}, resting: map[uint64]*flow{}, leaving: map[string]int{}, sizes: map[string]int{}, paused: map[string]bool{}, totals: map[string]*JobTotals{},
	}
	r, err := e.restoreTickets(pl)
	if err != nil {
		return nil, nil, err
	}
	if e.o.RetryHoles {
		if err := e.asideOfHoles(ctx, pl, r); err != nil {
			return nil, nil, err
		}
	}
	if err := e.install(l, pl); err != nil {
		return nil, nil, err
	}
	l.tally.add(pl.decisions, len(pl.orphans))
	l.table = r.table
	if l.labels, err = newLabels(ctx, e.p, pl.ids); err != nil {
		return nil, nil, err
	}
	if r.adopted > 0 {
		e.note(fmt.Sprintf("adopted %d finished jobs that the metadata did not have yet", r.adopted))
	}
	if l.only, err = newSelection(e.p, e.o.Only, e.o.Sample); err != nil {
		return nil, nil, err
	}
	l.push(r.runnable)
	for n, f := range l.flows {
		f.released = pl.released[f.id]
		f.reused = l.table.Counts(n).Done
		l.total(f.task.Name).Reused += f.reused
	}
	if l.saver, err = e.newSaver(ctx, pl.ids); err != nil {
		return nil, nil, err
	}
	return l, r, nil
}

// install makes the flow of every task.
func (e *Engine) install(l *loop, pl *plan) error {
	wanted := e.wanted()
	for _, t := range e.p.Tasks {
		df, err := e.dataflow(pl, t)
		if err != nil {
			return err
		}
		f := &flow{id: df.ID, wanted: wanted[t.Index], said: DataflowWaiting}
		f.configure(e.p, t, df)
		l.flows = append(l.flows, f)
	}
	l.rank()
	return nil
}

// rank notes of each flow its place from roots to leaves.
func (l *loop) rank() {
	for n, t := range l.p.Topo {
		l.flows[t.Index].rank = n
	}
}

// dataflow makes what workers need to know of a task.
func (e *Engine) dataflow(pl *plan, t *spec.TaskSpec) (*worker.Dataflow, error) {
	runner, err := e.runner(t)
	if err != nil {
		return nil, fmt.Errorf("prepare the body of task %s: %w", t.Name, err)
	}
	df := &worker.Dataflow{ID: pl.ids[t.Index], Task: t, Runner: runner, Content: pl.content[t.Index], Spawners: make([]uint64, len(e.p.Dims))}
	for _, d := range e.p.Dims {
		df.Spawners[d.Index] = pl.ids[d.Spawner.Index]
	}
	if df.Labels, err = body.NewLabels(t); err != nil {
		return nil, err
	}
	if t.Cache {
		earlier := pl.memo[t.Fingerprint]
		if pl.redo[t.Name] {
			earlier = []uint64{df.ID}
		}
		df.Memo = worker.NewMemo(earlier)
	}
	for _, in := range t.In {
		df.Producers = append(df.Producers, pl.ids[in.Entity.Producer.Index])
	}
	return df, nil
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
		out, err = restoreFrom(e.p, pl.kept(), r, e.stores.image, e.o.RetryHoles)
		return err
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
	if e.stores.rebuild {
		l.meta.Reset()
	}
	footprints(pl.foot, l.data, l.meta)
	current := map[uint64]bool{}
	for _, id := range pl.ids {
		current[id] = true
	}
	for id := range e.stores.known() {
		if !current[id] {
			l.meta.DropDataflow(id) // it is retired now, or was by an engine that was killed then
		}
	}
	retired := pl.retired
	for _, o := range pl.orphans {
		l.data.SetState(o.ID, storage.Retired)
		retired = append(retired, o.ID)
	}
	for n, d := range pl.decisions {
		if d.Action == actionReplace {
			l.data.SetState(d.Old, storage.Retired)
			retired = append(retired, d.Old)
		}
		l.writeDown(l.flows[n], d, r)
		for _, c := range r.failed[n] {
			l.table.Touch(n, c)
		}
	}
	l.dropEmpty(retired...)
	l.write(l.table.Changes())
	l.begun = l.submit(true)
	// The logs of what is retired go when it is so for good, and before a job
	// writes new ones.
	stale := l.staleLogs(r)
	if len(stale) == 0 || l.commits.wait(l.begun) != nil {
		return // the loop hears of an error
	}
	for _, task := range stale {
		l.pruneLogs(task)
	}
}

// writeDown writes down a task's dataflow as the run begins, or goes on, with it:
// its header if it is new; if it is kept, its tickets anew, and without failures,
// which are tried again, and records that nothing asks for any more.
func (l *loop) writeDown(f *flow, d decision, r *restored) {
	if d.Action == actionKeep {
		// All of it is written anew: a counter that the last run made because
		// somebody asked, and this one has no use for, would stay as it was.
		l.meta.DropTickets(f.id)
	} else {
		l.data.PutHeader(f.header(l.pl.foot.Updated))
	}
	l.meta.PutDataflow(f.noted(DataflowRunning))
	for _, c := range r.failed[f.task.Index] {
		l.data.DropFailure(f.id, c)
	}
	for _, c := range r.dropped[f.task.Index] {
		l.data.DropRecord(f.id, c)
	}
}

// staleLogs are the tasks with logs of earlier dataflows alone: those that are no
// more, and those of which nothing was noted. An engine that was killed may have
// left some of any run.
func (l *loop) staleLogs(r *restored) (tasks []string) {
	folders, err := os.ReadDir(l.logs)
	if err != nil {
		return nil // there are none, or pruneLogs would fail likewise
	}
	for _, f := range folders {
		if t := l.p.Task(f.Name()); f.IsDir() && (t == nil || !l.noted(t, r)) {
			tasks = append(tasks, f.Name())
		}
	}
	return tasks
}

// noted reports whether jobs of a task's dataflow had ended when the run began.
func (l *loop) noted(t *spec.TaskSpec, r *restored) bool {
	c := l.table.Counts(t.Index)
	return c.Done+c.Holes > 0 || len(r.failed[t.Index]) > 0
}

// pruneLogs removes the logs of a task whose jobs run again.
func (l *loop) pruneLogs(task string) {
	if err := os.RemoveAll(filepath.Join(l.logs, task)); err != nil {
		l.log.Warn("remove old logs", "task", task, "err", err)
	}
}

// finish makes everything durable, writes down how the run ended, and sums up.
func (e *Engine) finish(ctx context.Context, l *loop, started time.Time) (*Summary, error) {
	ctx = context.WithoutCancel(ctx) // what was finished is kept, also when we were told to go
	s := l.summary()
	s.Elapsed = time.Since(started).Seconds()
	if l.sick == nil {
		for _, t := range e.p.Tasks {
			l.release(t) // a task without jobs is done, and nothing says so
		}
	}
	l.write(l.table.Changes())
	foot := l.pl.foot
	foot.State, foot.Updated = string(s.State), time.Now()
	foot.Asked = l.saver.note(decodeAsked(foot.Asked)).encode()
	if s.Asked {
		foot.Asked = decodeAsked(foot.Asked).answered().encode()
	}
	var err error
	if foot.Summary, err = json.Marshal(s); err != nil {
		return s, fmt.Errorf("this is a bug: %w", err)
	}
	// Data that says how a run ended never stands beside metadata that has not heard
	// of the run: that is what an old copy looks like. An error comes again below.
	_ = l.commits.wait(l.begun)
	footprints(foot, l.data, l.meta)
	for _, f := range l.flows {
		l.meta.PutDataflow(f.noted(f.lastState(l.table.Counts(f.task.Index))))
	}
	if s.State == StateComplete {
		for _, id := range l.pl.aside {
			l.data.DropInstance(id)
		}
	}
	l.meta.PutHistory(foot.RunID, foot.Summary)
	l.submit(true)
	if err := l.commits.flush(ctx); err != nil {
		return s, &MachineError{Doing: "write the state", Err: err}
	}
	l.answer()
	l.settleDeferred()
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
	s := &Summary{Pipeline: st.Pipeline, Run: st.Run, Dataflows: l.tally.clone(), Totals: map[string]JobTotals{}, Failures: l.failures.list()}
	for task, t := range l.totals {
		s.Totals[task] = *t
	}
	failed, complete, wanted := false, true, true
	left := int64(0)
	for n, t := range st.Tasks {
		f := l.flows[n]
		t.Waiting, t.Queued = t.Waiting+t.Queued, 0 // nothing runs any more that it could be queued for
		undone := int64(0)
		if f.wanted && l.halted() {
			undone = t.Waiting - f.skipped
		}
		t.DataflowState = f.lastState(l.table.Counts(n))
		s.Tasks = append(s.Tasks, TaskSummary{TaskStatus: t, Executed: f.executed, Undone: undone})
		s.Waiting += t.Waiting
		left += undone
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
	if s.LeftOut = l.leftOut(); l.only != nil {
		wanted = !l.halted() && !failed // it ended because nothing more was to start
	}
	s.Asked = wanted && l.sick == nil
	if l.maxFailures > 0 && l.failures.jobs >= l.maxFailures && left > 0 {
		s.MaxFailures = l.maxFailures
	}
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
