package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"operon/engine/body"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
)

// Trial is a few jobs for a worker, to see what it makes of them. They need no
// state, and leave none.
type Trial struct {
	Task string
	Args []map[string]json.RawMessage // of each job; an argument that is missing is "example"
	// Traffic hears each line that is written to the worker or read from it, and
	// what it prints to standard error. Two goroutines may call it at once.
	Traffic func(what Traffic, text []byte)
}

// Traffic says what passed between the engine and a worker.
type Traffic = body.Traffic

// The kinds of Traffic.
const (
	TrafficRequest = body.TrafficRequest // the engine wrote it
	TrafficAnswer  = body.TrafficAnswer  // the worker answered it
	TrafficError   = body.TrafficError   // the worker printed it to standard error
)

// TrialResult is what came of one job.
type TrialResult struct {
	Values  []json.RawMessage
	Failure *body.Failure // nil: it ended well
	Took    time.Duration
	Run     bool // false: an earlier job failed
}

// Try runs the jobs of a trial in one worker process, and ends it. The error is a
// task that is not there or has no worker, an argument that it does not take, or
// the machine's fault.
func Try(ctx context.Context, p *spec.Pipeline, o Options, trial Trial) (results []TrialResult, err error) {
	t := p.Task(trial.Task)
	switch {
	case t == nil:
		return nil, unknownTask(p, trial.Task)
	case t.Body.Kind != spec.BodyWorker:
		return nil, fmt.Errorf("the task %s has no worker: its body is %s", t.Name, t.Body.Kind)
	}
	jobs, err := trialJobs(t, trial.Args)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "operon-trial-")
	if err != nil {
		return nil, &MachineError{Doing: "make a folder for the trial", Err: err}
	}
	defer os.RemoveAll(scratch)
	for i, job := range jobs {
		job.Token = filepath.Base(scratch) + "." + strconv.Itoa(i)
		job.Dir, job.Log = filepath.Join(scratch, strconv.Itoa(i)), filepath.Join(scratch, "logs", "job.log")
	}
	environ := o.Environ
	if environ == nil {
		environ = os.Environ()
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, &MachineError{Doing: "find the pipeline's folder", Err: err}
	}
	r, err := body.New(&body.Config{
		Pipeline: p, Dir: dir, Environ: environ, MaxOutput: o.MaxOutput, LogLimit: o.LogLimit, Logger: o.Logger, Traffic: trial.Traffic,
	}, t)
	if err != nil {
		return nil, err
	}
	kept := &trialBatch{results: make([]TrialResult, len(jobs))}
	offMain(func() { err = kept.run(ctx, r.(body.BatchRunner), scratch, jobs) })
	return kept.results, err
}

// trialJobs are the jobs of a trial, checked against what the task takes.
func trialJobs(t *spec.TaskSpec, all []map[string]json.RawMessage) ([]*body.Job, error) {
	var known []string
	for _, in := range t.In {
		known = append(known, in.Arg)
	}
	var jobs []*body.Job
	for _, given := range all {
		for name := range given {
			if !slices.Contains(known, name) {
				return nil, &UnknownError{What: "argument", Name: name, Nearest: spec.Nearest(name, known), Known: known}
			}
		}
		job := &body.Job{Coord: coord.Of(make([]uint32, len(t.Context))...), Attempt: 1, RunID: "trial"}
		for _, name := range known {
			text, there := given[name]
			if !there {
				text = json.RawMessage(`"example"`)
			}
			job.Args = append(job.Args, body.Arg{Value: value.FromJSON(text)})
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// offMain runs fn on a thread that is not the process's main one, where a slot
// must not be.
func offMain(fn func()) {
	done := make(chan struct{})
	var try func()
	try = func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if unix.Gettid() == unix.Getpid() {
			go try() // cannot be on this thread, which is locked
			<-done
			return
		}
		defer close(done)
		fn()
	}
	go try()
	<-done
}

type trialBatch struct{ results []TrialResult }

// run runs the jobs, the rest after one that failed as well.
func (b *trialBatch) run(ctx context.Context, r body.BatchRunner, scratch string, jobs []*body.Job) error {
	slot, err := body.NewSlot(body.SlotOptions{Dir: filepath.Join(scratch, "slot")})
	if err != nil {
		return &MachineError{Doing: "make a slot for the trial", Err: err}
	}
	for next := 0; next < len(jobs) && ctx.Err() == nil; {
		r.RunBatch(ctx, slot, jobs[next:], trialPart{b, next})
		for next < len(jobs) && b.results[next].Run {
			next++
		}
	}
	r.Close(ctx)
	return slot.Close()
}

// trialPart is the jobs from one on.
type trialPart struct {
	*trialBatch
	from int
}

// Stopped implements body.Batch.
func (trialPart) Stopped() bool { return false }

// More implements body.Batch.
func (trialPart) More(int, func()) []*body.Job { return nil }

// Idle implements body.Batch.
func (trialPart) Idle() {}

// Done implements body.Batch.
func (b trialPart) Done(i int, res *body.Result, f *body.Failure) {
	result := &b.results[b.from+i]
	result.Run, result.Failure = true, f
	if f != nil {
		result.Took = f.Usage.Wall
		return
	}
	result.Took = res.Usage.Wall
	for _, v := range res.Items {
		result.Values = append(result.Values, v.AppendJSON(nil))
	}
	if err := res.Close(); err != nil {
		result.Failure = &body.Failure{Kind: body.KindResources, Message: err.Error(), Err: err}
	}
}
