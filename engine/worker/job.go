package worker

import (
	"errors"
	"path/filepath"
	"time"

	"operon/engine/body"
	"operon/spec"
	"operon/spec/value"
	"operon/storage"
)

func (s *slot) process(d *Dataflow, job Job) Result {
	if s.stopped() {
		return Result{Job: job}
	}
	var in inputs
	var early *Result
	err := s.w.cfg.Store.View(func(r *storage.Reader) error {
		in, early = s.begin(r, d, job)
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
func (s *slot) begin(r *storage.Reader, d *Dataflow, job Job) (in inputs, early *Result) {
	in, err := s.w.assemble(r, d, job.Coord)
	if err != nil {
		return in, &Result{Job: job, Err: err}
	}
	in.key = spec.JobKey(d.Task, in.digests, job.Coord, d.Content)
	if d.memo() == nil {
		return in, nil
	}
	p, found, wait, err := d.Memo.claim(r, in.key, s.cmd.Command)
	switch {
	case err != nil:
		return in, &Result{Job: job, Err: err}
	case wait:
		return in, &Result{Job: job, Key: in.key, Waits: true}
	case !found:
		in.claimed = true
		return in, nil
	}
	res, ok, err := d.Memo.reuse(r, p, job, in.key, s.cmd.Command)
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

// attempt runs the body, and readies what it returned for the store.
func (s *slot) attempt(d *Dataflow, job Job, key value.Digest, b *body.Job) Result {
	result := s.perform(d, job, key, b)
	result.Key, result.Claimed = key, d.memo() != nil
	return result
}

func (s *slot) perform(d *Dataflow, job Job, key value.Digest, b *body.Job) Result {
	res, err := s.conf.runner.Run(s.ctx, s.body, b)
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
		f = d.Labels.Check(s.ctx, res.Items)
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
