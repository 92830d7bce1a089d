package worker

import (
	"time"

	"operon/engine/body"
	"operon/storage"
)

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
		chunk, err := s.readChunk(s.conf.df, jobs)
		if err != nil {
			for _, job := range jobs {
				done.Results = append(done.Results, Result{Job: job, Err: err})
			}
			return
		}
		for n, ready := range chunk {
			result := s.filter(s.conf.df, jobs[n], ready)
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
			s.w.respond(JobsDone{Command: done.Command, Dataflow: done.Dataflow, Results: done.Results, More: true})
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
			if s.stopped() {
				out = append(out, readied{early: &Result{Job: job}})
				continue
			}
			in, early := s.begin(r, d, job)
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
	if s.stopped() {
		return ready.unbegun(job)
	}
	b := &body.Job{Coord: job.Coord, Attempt: job.Attempt, RunID: s.w.cfg.RunID, Args: ready.in.args, Env: job.Env}
	if ready.in.files {
		b.Dir = s.folder()
	}
	return s.attempt(d, job, ready.in.key, b)
}
