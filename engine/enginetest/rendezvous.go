package enginetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"operon/engine/body"
	"operon/spec"
	"operon/spec/value"
)

// Rendezvous is a set of bodies whose jobs a test ends one by one.
type Rendezvous struct {
	t      testing.TB
	mu     sync.Mutex
	change chan struct{} // closed and replaced whenever started changes
	jobs   map[string]*job
	order  []string
	most   map[string]int // of each task: jobs that ran at once
}

type job struct {
	attempt int
	args    []body.Arg
	env     []string
	end     func(outcome) // is called once, and does not wait
}

type outcome struct {
	result *body.Result
	err    error
}

// New makes a rendezvous for one engine.
func New(t testing.TB) *Rendezvous {
	return &Rendezvous{t: t, change: make(chan struct{}), jobs: map[string]*job{}, most: map[string]int{}}
}

// Body is the body of a task, for engine.Options.Bodies. Jobs of a `worker:` body
// are served in batches, as by one process for each command.
func (r *Rendezvous) Body(t *spec.TaskSpec) (body.Runner, error) {
	if t.Body.Kind == spec.BodyWorker {
		return batches{runner{r, t}}, nil
	}
	return runner{r, t}, nil
}

type runner struct {
	r *Rendezvous
	t *spec.TaskSpec
}

// Run waits until the test ends the job.
func (x runner) Run(ctx context.Context, _ *body.Slot, j *body.Job) (*body.Result, error) {
	end := make(chan outcome, 1)
	name, me := x.begin(j, func(o outcome) { end <- o })
	defer x.r.leave(name, me)
	select {
	case o := <-end:
		return o.result, o.err
	case <-ctx.Done():
		return nil, stopped()
	}
}

// begin makes a job one that the test may end.
func (x runner) begin(j *body.Job, end func(outcome)) (name string, me *job) {
	name = x.t.Name + "@" + j.Coord.Format(x.t.ContextNames())
	me = &job{attempt: j.Attempt, args: j.Args, env: j.Env, end: end}
	x.r.start(x.t.Name, name, me)
	return name, me
}

func stopped() *body.Failure {
	return &body.Failure{Kind: body.KindCancelled, Message: "stopped"}
}

func (r *Rendezvous) start(task, name string, j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.jobs[name] != nil {
		r.t.Errorf("job %s runs twice at once", name)
	}
	r.jobs[name] = j
	r.order = append(r.order, name)
	running := 0
	for other := range r.jobs {
		if len(other) > len(task) && other[:len(task)+1] == task+"@" {
			running++
		}
	}
	r.most[task] = max(r.most[task], running)
	close(r.change)
	r.change = make(chan struct{})
}

func (r *Rendezvous) leave(name string, j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.jobs[name] == j {
		delete(r.jobs, name)
	}
}

// OK waits until the job has started, and ends it with values: JSON texts,
// exactly one of a task that spawns nothing. It returns the attempt, from 1.
func (r *Rendezvous) OK(task, coord string, values ...string) int {
	r.t.Helper()
	res := &body.Result{Usage: body.Usage{Start: time.Now()}}
	for _, v := range values {
		res.Items = append(res.Items, value.FromJSON([]byte(v)))
	}
	return r.finish(task, coord, outcome{result: res})
}

// Fail waits until the job has started, and fails it. It returns the attempt.
func (r *Rendezvous) Fail(task, coord string, kind body.Kind, message string) int {
	r.t.Helper()
	return r.FailWith(task, coord, body.Failure{Kind: kind, Message: message, Exit: 1})
}

// FailWith is Fail with everything that a failure can say.
func (r *Rendezvous) FailWith(task, coord string, f body.Failure) int {
	r.t.Helper()
	if f.Usage.Start.IsZero() {
		f.Usage.Start = time.Now()
	}
	return r.finish(task, coord, outcome{err: &f})
}

func (r *Rendezvous) finish(task, coord string, o outcome) int {
	r.t.Helper()
	j := r.await(task + "@" + coord)
	if j == nil {
		return 0
	}
	r.leave(task+"@"+coord, j) // the next attempt is another job
	j.end(o)
	return j.attempt
}

// patience is how long a job may take to start before the test gives up.
const patience = 2 * time.Minute

func (r *Rendezvous) await(name string) *job {
	r.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		r.mu.Lock()
		j, change := r.jobs[name], r.change
		r.mu.Unlock()
		if j != nil {
			return j
		}
		select {
		case <-change:
		case <-timer.C:
			r.t.Errorf("job %s did not start; running: %v", name, r.Running())
			return nil
		}
	}
}

// Await waits until the job has started.
func (r *Rendezvous) Await(task, coord string) {
	r.t.Helper()
	r.await(task + "@" + coord)
}

// Args waits until the job has started, and returns its arguments as JSON.
func (r *Rendezvous) Args(task, coord string) []string {
	r.t.Helper()
	var out []string
	if j := r.await(task + "@" + coord); j != nil {
		for _, a := range j.args {
			out = append(out, string(argJSON(a)))
		}
	}
	return out
}

func argJSON(a body.Arg) []byte {
	if a.Slice == nil {
		return a.Value.AppendJSON(nil)
	}
	return a.Slice.AppendJSON(nil, func(b []byte, v value.Value) []byte { return v.AppendJSON(b) })
}

// Env waits until the job has started, and returns the variables that the engine
// gave to it alone.
func (r *Rendezvous) Env(task, coord string) []string {
	r.t.Helper()
	j := r.await(task + "@" + coord)
	if j == nil {
		return nil
	}
	return slices.Clone(j.env)
}

// Running are the jobs under way, as task@coordinate, sorted.
func (r *Rendezvous) Running() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for name := range r.jobs {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Started are the attempts that began, as task@coordinate, in order.
func (r *Rendezvous) Started() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.order)
}

// Most is how many jobs of a task ran at once, at the most.
func (r *Rendezvous) Most(task string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most[task]
}

// String lists what runs, for a failing test.
func (r *Rendezvous) String() string { return fmt.Sprint(r.Running()) }
