package engine

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"operon/engine/worker"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
	"operon/storage/boltfile"
)

// apply takes in what a command returned.
func (l *loop) apply(done worker.JobsDone) {
	o := l.crew.orders[done.Command]
	if o == nil {
		discard(done.Results) // it was given up
		return
	}
	if done.More || o.late {
		o.has(done.Results)
	}
	if !done.More && o.late {
		done.Results = append(done.Results, o.unanswered()...) // they were added too late
	}
	l.vacate(o, &done)
	l.giveBack(o, &done)
	if !done.More {
		l.crew.deaths = 0
	}
	f := o.flow
	if f.frozen {
		discard(done.Results) // nobody may build on them: the dataflow is dropped
		return
	}
	f.heed(o, &done)
	ran, took := 0, time.Duration(0)
	for i := range done.Results {
		r := &done.Results[i]
		if r.Claimed && r.Output == nil {
			l.settle(f, r.Key)
		}
		switch {
		case r.NotRun():
			l.putBack(f, r.Job)
		case r.Waits:
			l.park(f, r)
		case r.Err != nil:
			l.fault(r.Err)
			l.putBack(f, r.Job)
		case r.Failure != nil:
			l.failed(f, r)
		default:
			if !r.Reused {
				l.crew.deaths = 0 // something is done, although its command may go on
				ran++
				took += time.Duration(r.Record.End - r.Record.Start)
			}
			l.finished(f, r)
		}
	}
	if f.df.Batches() > 0 {
		f.pace.add(ran, took)
	}
	l.conclude(f)
}

// discard lets go of results that are good for nothing.
func discard(results []worker.Result) {
	for i := range results {
		if out := results[i].Output; out != nil {
			out.Discard()
		}
	}
}

// finished applies the end of a job that went well.
func (l *loop) finished(f *flow, r *worker.Result) {
	ranges, err := l.table.OnJob(f.task.Index, r.Job.Coord, r.Record.Extent)
	if err != nil {
		l.fault(fmt.Errorf("this is a bug: %w", err))
		return
	}
	l.data.PutRecord(f.id, r.Record, r.Output)
	l.puts++
	if r.Reused {
		f.reused++
		l.total(f.task.Name).Reused++
	} else {
		f.executed++
		l.total(f.task.Name).Executed++
	}
	delete(f.attempts, r.Job.Coord)
	delete(f.deaths, r.Job.Coord)
	if r.Claimed {
		l.claims = append(l.claims, claim{f, r.Key, r.Job.Coord})
	}
	l.push(ranges)
}

// claim is a key whose job has a record that readers will see once this turn is
// handed to the writers.
type claim struct {
	flow *flow
	key  value.Digest
	job  coord.Coord
}

// park keeps a job back while another with its key is under way, if it still is.
func (l *loop) park(f *flow, r *worker.Result) {
	if !f.df.Memo.Claimed(r.Key) {
		l.putBack(f, r.Job)
		return
	}
	if f.parked == nil {
		f.parked = map[value.Digest][]worker.Job{}
	}
	f.parked[r.Key] = append(f.parked[r.Key], r.Job)
}

// settle lets those run that waited for a job that ended without a record: the
// first of them runs itself.
func (l *loop) settle(f *flow, key value.Digest) {
	f.df.Memo.Release(key)
	l.unpark(f, key)
}

// settleClaims tells the memos which results readers see now.
func (l *loop) settleClaims() {
	for _, c := range l.claims {
		c.flow.df.Memo.Done(c.key, c.flow.id, c.job)
		l.unpark(c.flow, c.key)
		if l.table.Counts(c.flow.task.Index).Complete() {
			c.flow.df.Memo.Drop()
		}
	}
	l.claims = l.claims[:0]
}

func (l *loop) unpark(f *flow, key value.Digest) {
	for _, job := range f.parked[key] {
		l.putBack(f, job)
	}
	delete(f.parked, key)
}

// failed decides about an attempt that went wrong.
func (l *loop) failed(f *flow, r *worker.Result) {
	what, wait := judge(f.task.Retry, r.Failure, r.Job.Attempt, rand.Float64())
	if l.killed && what != verdictStopSick && what != verdictDamaged {
		what = verdictAgain // whatever it died of, it was us
	}
	switch what {
	case verdictAgain:
		l.putBack(f, r.Job)
	case verdictStopSick:
		l.fault(&MachineError{Doing: "run task " + f.task.Name, Err: r.Failure})
		l.putBack(f, r.Job)
	case verdictDamaged:
		l.fault(&InconsistentError{Task: f.task.Name, Coord: r.Job.Coord.Format(f.task.ContextNames()), Detail: r.Failure.Message})
		l.putBack(f, r.Job)
	case verdictRetry:
		if f.attempts == nil {
			f.attempts = map[coord.Coord]int{}
		}
		f.attempts[r.Job.Coord] = r.Job.Attempt
		l.later(due{time.Now().Add(wait), f, worker.Job{Coord: r.Job.Coord, Attempt: r.Job.Attempt + 1, Env: r.Job.Env}})
		l.say(Event{Kind: EventRetry, Failed: l.describe(f, r), Delay: wait.Seconds()})
	case verdictFail:
		l.gaveUp(f, r)
	}
}

// gaveUp applies that a job has failed for good: its value is a hole, or what
// needs it is blocked.
func (l *loop) gaveUp(f *flow, r *worker.Result) {
	policy := onError(f.task.OnError, l.keepGoing)
	failed := l.describe(f, r)
	if policy == spec.OnErrorHole {
		failed.Hole = true
		l.hole(f, holeRecord(r), failed.reason())
	} else {
		if err := l.table.OnFailed(f.task.Index, r.Job.Coord); err != nil {
			l.fault(fmt.Errorf("this is a bug: %w", err))
			return
		}
		l.data.PutFailure(f.id, failureRecord(r))
		l.total(f.task.Name).Failed++
		l.puts++
	}
	delete(f.attempts, r.Job.Coord)
	delete(f.deaths, r.Job.Coord)
	l.failures.add(failed)
	l.say(Event{Kind: EventFailure, Failed: failed})
	if !l.failing && policy != spec.OnErrorStop && stops(policy, l.failures.jobs, l.maxFailures) {
		l.say(Event{Kind: EventNote, Message: fmt.Sprintf("jobs that failed: %d, as many as may; no new job starts", l.failures.jobs)})
	}
	l.failing = l.failing || stops(policy, l.failures.jobs, l.maxFailures)
}

// putBack makes a job ready again that never ran, or was cut short by us.
func (l *loop) putBack(f *flow, job worker.Job) {
	if len(gpusOf(job.Env)) != f.needs.gpus {
		job.Env = nil // the task takes another number of them now
	}
	if !l.selected(f.task, job.Coord) {
		f.setAside(due{flow: f, job: job})
		return
	}
	l.activate(f)
	if f.needs.gpus > 0 && job.Attempt > 1 && len(job.Env) > 0 {
		l.pin(f, job)
		return
	}
	f.again = append(f.again, job)
}

// later lets a job be tried again when its time comes.
func (l *loop) later(d due) {
	if !l.selected(d.flow.task, d.job.Coord) {
		d.flow.setAside(d)
		return
	}
	d.flow.retrying++
	heap.Push(&l.timers, d)
}

// setAside keeps an attempt that the run is not asked for any more, as after it was
// restricted while the last one ran, until it is asked for it again.
func (f *flow) setAside(d due) {
	f.unasked = append(f.unasked, d)
	f.skipped++
}

// retryDue makes those jobs ready whose next attempt is due.
func (l *loop) retryDue(now time.Time) {
	for len(l.timers) > 0 && !l.timers[0].at.After(now) {
		d := heap.Pop(&l.timers).(due)
		d.flow.retrying--
		l.putBack(d.flow, d.job)
	}
}

// fault notes what stops the run although no job is to blame for it.
func (l *loop) fault(err error) {
	if l.sick == nil {
		l.sick = l.classify(err)
		l.crew.stop()
	}
}

// stop lets running jobs finish and starts no more.
func (l *loop) stop() {
	l.stopping = true
	l.crew.stop()
}

// kill ends running jobs at once.
func (l *loop) kill() {
	l.stopping, l.killed = true, true
	l.crew.kill()
}

// classify makes of an error what the caller of Run decides on.
func (l *loop) classify(err error) error {
	var damage *storage.Damage
	if errors.As(err, &damage) {
		return l.inconsistent(damage)
	}
	var file *boltfile.DamagedError
	if errors.As(err, &file) {
		return damagedFile(file)
	}
	var sick *MachineError
	if !errors.As(err, &sick) && machine(err) {
		return &MachineError{Doing: "go on", Err: err}
	}
	return err
}
