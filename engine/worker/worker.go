package worker

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"operon/engine/body"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// Config is what a worker is made with.
type Config struct {
	Slots   int // how many commands it runs at once
	Store   *storage.Store
	Logs    string // folder for the jobs' standard error
	Dir     string // the pipeline file's folder, absolute
	Scratch string // folder for the jobs' own folders
	Running *body.Running
	Token   string // what every OPERON_JOB of this state directory begins with
	RunID   string
}

// Worker runs jobs on its slots.
type Worker struct {
	cfg       Config
	ctx       context.Context
	cancel    context.CancelCauseFunc
	commands  chan RunJobs
	responses chan JobsDone
	stopping  chan struct{}
	stopOnce  sync.Once
	slots     sync.WaitGroup
	assembler

	quiet     sync.WaitGroup // slots that may still run something
	over      chan struct{}  // closed when no process that stays needs its slot's thread
	releasing sync.WaitGroup
	mu        sync.Mutex
	dataflows []*Dataflow
}

// New starts a worker. It ends with Close, or is cut short when ctx ends.
func New(ctx context.Context, cfg Config) (*Worker, error) {
	w := &Worker{
		cfg:       cfg,
		commands:  make(chan RunJobs, cfg.Slots),
		responses: make(chan JobsDone, cfg.Slots),
		stopping:  make(chan struct{}),
		over:      make(chan struct{}),
		assembler: assembler{slices: newSlices(), trust: newTrust()},
	}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	started := make(chan error)
	w.quiet.Add(cfg.Slots)
	for n := range cfg.Slots {
		w.slots.Go(func() { w.serve(n, started) })
	}
	var err error
	for range cfg.Slots {
		err = errors.Join(err, <-started)
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// CreateDataflow installs a dataflow.
func (w *Worker) CreateDataflow(d *Dataflow) {
	d.compile()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dataflows = append(w.dataflows, d)
}

// RunJobs sends a command to a slot that is free.
func (w *Worker) RunJobs(cmd RunJobs) { w.commands <- cmd }

// Responses is where commands are answered.
func (w *Worker) Responses() <-chan JobsDone { return w.responses }

// Stop makes the worker begin no further job of the commands that it has.
func (w *Worker) Stop() { w.stopOnce.Do(func() { close(w.stopping) }) }

// Kill ends every running job at once.
func (w *Worker) Kill() {
	w.Stop()
	w.cancel(body.ErrKill)
}

// Close waits for the slots to end. No command may be sent afterwards.
func (w *Worker) Close() {
	close(w.commands)
	done := make(chan struct{})
	go func() {
		// A process that stays dies with the thread that started it.
		w.quiet.Wait()
		w.releaseAll()
		close(w.over)
		w.slots.Wait()
		close(done)
	}()
	for {
		select {
		case <-w.responses: // nobody listens any more
		case <-done:
			w.cancel(nil)
			return
		}
	}
}

// slot is one of the worker's slots.
type slot struct {
	w      *Worker
	body   *body.Slot
	index  int
	serial uint64
}

// serve is a slot's life. It must not be on the process's main thread: orphans
// become children of that one, and a slot's own children there would look like
// another slot's strays.
func (w *Worker) serve(index int, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.Gettid() == unix.Getpid() {
		done := make(chan struct{})
		go func() { // cannot be on this thread, which is locked
			defer close(done)
			w.serve(index, started)
		}()
		<-done
		return
	}
	b, err := body.NewSlot(body.SlotOptions{Index: index, Running: w.cfg.Running, Dir: w.cfg.Scratch})
	started <- err
	if err != nil {
		w.quiet.Done()
		return
	}
	s := &slot{w: w, body: b, index: index}
	for cmd := range w.commands {
		w.responses <- s.run(cmd)
	}
	w.quiet.Done()
	<-w.over
	b.Close()
}

func (s *slot) run(cmd RunJobs) JobsDone {
	if r, ok := cmd.Dataflow.Runner.(body.BatchRunner); ok {
		return s.batch(cmd, r)
	}
	done := JobsDone{Dataflow: cmd.Dataflow, GPUs: cmd.GPUs}
	if cmd.Dataflow.Task.Body.Kind == spec.BodyJQ {
		s.filters(cmd, &done)
		return done
	}
	for n, job := range cmd.Jobs {
		result := s.process(cmd.Dataflow, job)
		done.Results = append(done.Results, result)
		if result.Failure != nil {
			done.leave(cmd.Jobs[n+1:])
			break
		}
	}
	return done
}

// leave answers jobs that did not begin: whether they still should is for others
// to say.
func (d *JobsDone) leave(jobs []Job) {
	for _, job := range jobs {
		d.Results = append(d.Results, Result{Job: job})
	}
}

const (
	chunkJobs  = 64      // jobs of a batch whose inputs are read at a time
	chunkBytes = 1 << 20 // bytes of inputs, about, after which it is enough
)

// filters runs a batch of small jobs in process. Their inputs are read a chunk at
// a time, since opening a view costs as much as a job; none stays open while a
// body runs, or one that takes long would hold up every commit.
func (s *slot) filters(cmd RunJobs, done *JobsDone) {
	since := time.Now()
	for jobs := cmd.Jobs; len(jobs) > 0; {
		chunk, err := s.readChunk(cmd.Dataflow, jobs)
		if err != nil {
			for _, job := range jobs {
				done.Results = append(done.Results, Result{Job: job, Err: err})
			}
			return
		}
		for n, ready := range chunk {
			result := s.filter(cmd.Dataflow, jobs[n], ready)
			done.Results = append(done.Results, result)
			if result.Failure != nil {
				for m, unused := range chunk[n+1:] {
					done.Results = append(done.Results, unused.unbegun(jobs[n+1+m]))
				}
				done.leave(jobs[len(chunk):])
				return
			}
		}
		jobs = jobs[len(chunk):]
		if len(jobs) > 0 && time.Since(since) > flushAfter {
			s.w.responses <- JobsDone{Dataflow: done.Dataflow, Results: done.Results, More: true}
			done.Results, since = nil, time.Now()
		}
	}
}

// readied is a job with its inputs, or with what has become of it already.
type readied struct {
	in    inputs
	early *Result
}

// unbegun is the result of a readied job that is not run after all: what it has
// claimed is given back.
func (r readied) unbegun(job Job) Result {
	if r.early != nil {
		return *r.early
	}
	return Result{Job: job, Key: r.in.key, Claimed: r.in.claimed}
}

func (s *slot) readChunk(d *Dataflow, jobs []Job) ([]readied, error) {
	var out []readied
	err := s.w.cfg.Store.View(func(r *storage.Reader) error {
		size := 0
		for _, job := range jobs[:min(len(jobs), chunkJobs)] {
			if s.w.stopped() {
				out = append(out, readied{early: &Result{Job: job}})
				continue
			}
			in, early := s.w.begin(r, d, job)
			out = append(out, readied{in, early})
			for _, a := range in.args {
				size += len(a.Value.JSON)
			}
			if size > chunkBytes {
				break
			}
		}
		return nil
	})
	return out, err
}

func (s *slot) filter(d *Dataflow, job Job, ready readied) Result {
	if ready.early != nil {
		return *ready.early
	}
	if s.w.stopped() {
		return ready.unbegun(job)
	}
	b := &body.Job{Coord: job.Coord, Attempt: job.Attempt, RunID: s.w.cfg.RunID, Args: ready.in.args, Env: job.Env}
	if ready.in.files {
		b.Dir = s.folder()
	}
	return s.attempt(d, job, ready.in.key, b)
}

func (w *Worker) stopped() bool {
	select {
	case <-w.stopping:
		return true
	default:
		return w.ctx.Err() != nil
	}
}

func (s *slot) process(d *Dataflow, job Job) Result {
	if s.w.stopped() {
		return Result{Job: job}
	}
	var in inputs
	var early *Result
	err := s.w.cfg.Store.View(func(r *storage.Reader) error {
		in, early = s.w.begin(r, d, job)
		return nil
	})
	if err != nil {
		return Result{Job: job, Err: err}
	}
	if early != nil {
		return *early
	}
	log := LogName(d.Task, job)
	b := s.bodyJob(job, in, log)
	result := s.attempt(d, job, in.key, b)
	if result.Record.Logged > 0 || result.Failure != nil && result.Failure.Logged > 0 {
		result.Log = log
	}
	return result
}

// begin brings a job its inputs, and looks whether its result is there already
// or on its way: then that is the early result.
func (w *Worker) begin(r *storage.Reader, d *Dataflow, job Job) (in inputs, early *Result) {
	in, err := w.assemble(r, d, job.Coord)
	if err != nil {
		return in, &Result{Job: job, Err: err}
	}
	in.key = spec.JobKey(d.Task, in.digests, job.Coord, d.Content)
	if d.Memo == nil {
		return in, nil
	}
	p, found, wait, err := d.Memo.claim(r, in.key)
	switch {
	case err != nil:
		return in, &Result{Job: job, Err: err}
	case wait:
		return in, &Result{Job: job, Key: in.key, Waits: true}
	case !found:
		in.claimed = true
		return in, nil
	}
	res, ok, err := d.Memo.reuse(r, p, job, in.key)
	switch {
	case err != nil:
		return in, &Result{Job: job, Err: err}
	case ok:
		return in, &res
	}
	in.claimed = true
	return in, nil
}

// bodyJob is a job as a process is given it, with its log below the logs folder.
func (s *slot) bodyJob(job Job, in inputs, log string) *body.Job {
	dir := s.folder()
	return &body.Job{
		Coord:   job.Coord,
		Attempt: job.Attempt,
		Token:   s.w.cfg.Token + "." + filepath.Base(dir),
		RunID:   s.w.cfg.RunID,
		Args:    in.args,
		Env:     job.Env,
		Dir:     dir,
		Log:     filepath.Join(s.w.cfg.Logs, log),
	}
}

// folder names a folder that no other attempt has.
func (s *slot) folder() string {
	s.serial++
	return filepath.Join(s.w.cfg.Scratch, strconv.Itoa(s.index)+"."+strconv.FormatUint(s.serial, 10))
}

// attempt runs the body, and readies what it returned for the store.
func (s *slot) attempt(d *Dataflow, job Job, key value.Digest, b *body.Job) Result {
	result := s.perform(d, job, key, b)
	result.Key, result.Claimed = key, d.Memo != nil
	return result
}

func (s *slot) perform(d *Dataflow, job Job, key value.Digest, b *body.Job) Result {
	res, err := d.Runner.Run(s.w.ctx, s.body, b)
	if err != nil {
		var f *body.Failure
		if !errors.As(err, &f) {
			f = &body.Failure{Kind: body.KindInternal, Message: "this is a bug: " + err.Error(), Err: err}
		}
		return Result{Job: job, Failure: f}
	}
	return s.keep(d, job, key, b.Args, res)
}

// keep readies what a body returned for the store.
func (s *slot) keep(d *Dataflow, job Job, key value.Digest, args []body.Arg, res *body.Result) Result {
	f := s.w.changed(d.Task, args)
	if f == nil {
		f = d.Labels.Check(s.w.ctx, res.Items)
	}
	if f != nil {
		f.Usage, f.Logged = res.Usage, res.Logged
		if err := res.Close(); err != nil {
			return Result{Job: job, Err: err}
		}
		return Result{Job: job, Failure: f}
	}
	out, err := s.w.cfg.Store.Prepare(res.Items, d.Task.Spawn != nil)
	if closed := res.Close(); err == nil && closed != nil {
		err = closed
	}
	if err != nil {
		return Result{Job: job, Err: storeError(d, job, err)}
	}
	extent := uint32(len(res.Items))
	return Result{Job: job, Output: out, Record: storage.Record{
		Coord:    job.Coord,
		Key:      key,
		Digest:   out.Digest(),
		Extent:   extent,
		Spawning: d.Task.Spawn != nil,
		Attempts: uint32(job.Attempt),
		Start:    res.Usage.Start.UnixNano(),
		End:      res.Usage.Start.Add(max(res.Usage.Wall, 0)).UnixNano(),
		CPU:      int64(res.Usage.CPU / time.Nanosecond),
		MaxRSS:   res.Usage.MaxRSS,
		Logged:   res.Logged,
	}}
}

// LogName is the path of a job's log below the logs folder. It is unique to the
// job and short enough for any file system.
func LogName(t *spec.TaskSpec, job Job) string {
	return LogNameOf(t.Name, t.ContextNames(), job.Coord)
}

// LogNameOf is LogName of the job at c of a task with these dimensions.
func LogNameOf(task string, dims []string, c coord.Coord) string {
	name := c.Format(dims)
	if len(name) > 200 {
		name = c.Format(make([]string, c.Len()))
	}
	if name == "" {
		name = "job"
	}
	return filepath.Join(task, name+".log")
}
