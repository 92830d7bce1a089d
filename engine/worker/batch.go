package worker

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"operon/engine/body"
	"operon/storage"
)

// flushAfter is how long a result waits at most for the rest of its batch.
const flushAfter = 20 * time.Millisecond

// delivery is a batch of jobs of a persistent worker, and what is to become of
// its results: they are handed on as they come, for a batch may last long.
type delivery struct {
	s        *slot
	cmd      RunJobs
	given    []given // to the body, from the first that has not ended on
	first    int     // number of given[0]: the body counts from 0
	running  int     // of given: have not ended
	failures int     // of the command's jobs
	pending  []Result
	flushed  time.Time
}

// given is a job that the body was given.
type given struct {
	job   Job
	in    inputs
	ended bool
}

// batch runs a command whose jobs go to one worker process, several at once.
func (s *slot) batch(cmd RunJobs, runner body.BatchRunner) JobsDone {
	b := &delivery{s: s, cmd: cmd, flushed: time.Now()}
	if jobs := b.give(cmd.Jobs); len(jobs) > 0 {
		runner.RunBatch(s.ctx, s.body, jobs, b)
	}
	for n := range b.given {
		if g := &b.given[n]; !g.ended {
			b.add(g, Result{Job: g.job})
		}
	}
	return b.done(false)
}

// give readies jobs for the body: those that have not ended by that.
func (b *delivery) give(all []Job) (jobs []*body.Job) {
	s := b.s
	err := s.w.cfg.Store.View(func(r *storage.Reader) error {
		for _, job := range all {
			if s.stopped() {
				b.pending = append(b.pending, Result{Job: job})
				continue
			}
			in, early := s.begin(r, s.conf.df, job)
			if early != nil {
				b.pending = append(b.pending, *early)
				continue
			}
			b.given = append(b.given, given{job: job, in: in})
			// The log is named for its folder alone: the process has its own in there.
			jobs = append(jobs, s.bodyJob(job, in, filepath.Join(s.conf.df.Task.Name, "job.log")))
		}
		return nil
	})
	if err != nil { // of which no job knows
		for _, job := range all {
			b.pending = append(b.pending, Result{Job: job, Err: err})
		}
		return nil
	}
	b.running += len(jobs)
	return jobs
}

// Stopped implements body.Batch.
func (b *delivery) Stopped() bool { return b.s.stopped() }

// Done implements body.Batch.
func (b *delivery) Done(n int, res *body.Result, f *body.Failure) {
	g := &b.given[n-b.first]
	g.ended = true
	b.running--
	var result Result
	if f != nil {
		result = Result{Job: g.job, Failure: f, Log: b.s.w.logOf(f)}
	} else {
		result = b.s.keep(b.s.conf.df, g.job, g.in.key, g.in.args, res)
	}
	if result.Failure != nil {
		b.failures++
	}
	b.add(g, result)
	g.in = inputs{}
	for len(b.given) > 0 && b.given[0].ended {
		b.given, b.first = b.given[1:], b.first+1
	}
	if f != nil || time.Since(b.flushed) > flushAfter {
		b.Idle()
	}
}

func (b *delivery) add(g *given, result Result) {
	result.Key, result.Claimed = g.in.key, b.s.conf.df.memo() != nil
	b.pending = append(b.pending, result)
}

// More implements body.Batch. Whoever could fill the places that stay free hears
// of them at once.
func (b *delivery) More(room int, wake func()) []*body.Job {
	if b.s.intake == nil {
		return nil
	}
	added, stale := b.s.intake.take(room, b.failures, wake)
	for _, job := range stale {
		b.pending = append(b.pending, Result{Job: job})
	}
	var jobs []*body.Job
	if len(added) > 0 {
		jobs = b.give(added)
	}
	if (len(jobs) < room || len(stale) > 0) && b.running > 0 {
		b.Idle()
	}
	return jobs
}

// Idle implements body.Batch: what has ended need not wait for the rest.
func (b *delivery) Idle() {
	if len(b.pending) > 0 {
		b.s.w.respond(b.done(true))
	}
}

// done are the results that are pending, as an answer.
func (b *delivery) done(more bool) JobsDone {
	done := JobsDone{Command: b.cmd.Command, Dataflow: b.cmd.Dataflow, Results: b.pending, More: more}
	b.pending, b.flushed = nil, time.Now()
	return done
}

// logOf is the log that a failure names, below the logs folder.
func (w *Worker) logOf(f *body.Failure) string {
	if f.Log == "" {
		return ""
	}
	log, err := filepath.Rel(w.cfg.Logs, f.Log)
	if err != nil {
		return ""
	}
	return log
}

// SharedLogs is the pattern of the names of workers' logs, in the folder of their
// task: each is shared by many jobs.
const SharedLogs = "worker-*.log"

// SharedLog is the path of the log of a worker below the logs folder, by the
// number of its process among those of the task.
func SharedLog(task string, number int) string {
	return filepath.Join(task, "worker-"+strconv.Itoa(number)+".log")
}

// SharedNumber is the number of the worker whose log has a path.
func SharedNumber(path string) (number int, ok bool) {
	if !IsShared(path) {
		return 0, false
	}
	text := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "worker-"), ".log")
	number, err := strconv.Atoi(text)
	return number, err == nil && number >= 0
}

// IsShared reports whether a log is that of a worker, by its path.
func IsShared(path string) bool {
	shared, err := filepath.Match(SharedLogs, filepath.Base(path))
	return shared && err == nil
}

// storeError says whose output could not be stored.
func storeError(d *Dataflow, job Job, err error) error {
	return fmt.Errorf("store the output of task %s at %q: %w", d.Task.Name, job.Coord.Format(d.Task.ContextNames()), err)
}
