package worker

import (
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"operon/engine/body"
	"operon/spec"
)

// slot is one of the worker's slots.
type slot struct {
	w      *Worker
	body   *body.Slot
	index  int
	serial uint64
	*task  // that it is at
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
	s.loop()
	w.quiet.Done()
	<-w.over
	b.Close()
}

// loop runs one command after another.
func (s *slot) loop() {
	for {
		select {
		case t := <-s.w.work:
			if !s.serve(t) {
				return
			}
		case <-s.w.ended:
			return
		}
	}
}

// serve runs a command and answers it. It is false if the worker can't go on.
func (s *slot) serve(t *task) (well bool) {
	defer s.w.recover("a slot", t.cmd.Command)
	s.task = t
	s.w.fault(PointJob)
	s.w.respond(s.run(t.cmd))
	s.w.done(t)
	return true
}

func (s *slot) run(cmd RunJobs) JobsDone {
	if r, ok := s.conf.runner.(body.BatchRunner); ok {
		return s.batch(cmd, r)
	}
	done := JobsDone{Command: cmd.Command, Dataflow: cmd.Dataflow}
	d := s.conf.df
	if d.Task.Body.Kind == spec.BodyJQ {
		s.filters(cmd, &done)
		return done
	}
	for n, job := range cmd.Jobs {
		result := s.process(d, job)
		done.Results = append(done.Results, result)
		if result.Failure != nil {
			done.leave(cmd.Jobs[n+1:])
			break
		}
	}
	return done
}

// stopped reports whether no further job of the command may begin.
func (s *slot) stopped() bool { return s.w.stopped() || s.ctx.Err() != nil }

// leave answers jobs that did not begin: whether they still should is for others
// to say.
func (d *JobsDone) leave(jobs []Job) {
	for _, job := range jobs {
		d.Results = append(d.Results, Result{Job: job})
	}
}

// folder names a folder that no other attempt has.
func (s *slot) folder() string {
	s.serial++
	name := strconv.Itoa(s.index) + "."
	if n := s.w.cfg.Incarnation; n > 0 { // the slot was another's before, and may have left something
		name += strconv.FormatUint(n, 10) + "."
	}
	return filepath.Join(s.w.cfg.Scratch, name+strconv.FormatUint(s.serial, 10))
}
