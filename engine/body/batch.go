package body

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"operon/engine/body/internal/proc"
	"operon/spec/value"
)

// batch is a batch of jobs on its way through one process at a time. It runs on
// one goroutine, the slot's: requests are written and answers read without any
// other being woken.
type batch struct {
	*persistent
	ctx  context.Context
	slot *Slot
	jobs []*Job // that were given, and have not begun
	to   Batch

	begun  int        // jobs
	held   []*request // under way, oldest first
	failed bool       // no more jobs may begin
	fresh  bool       // something ended since Idle
	s      *session   // or nil
	unhook func() bool
}

// request is a job that a process holds.
type request struct {
	*attempt
	id       uint64
	index    int // of all jobs that were given
	start    time.Time
	deadline time.Time // zero: none
	late     bool      // it took longer than its timeout
}

// idleAfter is how long a batch waits with something that ended, before Idle.
const idleAfter = 20 * time.Millisecond

// RunBatch implements BatchRunner.
func (p *persistent) RunBatch(ctx context.Context, slot *Slot, jobs []*Job, to Batch) {
	b := &batch{persistent: p, ctx: ctx, slot: slot, jobs: jobs, to: to}
	defer func() {
		if panicked := recover(); panicked != nil {
			b.abandon(recovered(panicked))
		}
	}()
	for b.fill(); len(b.held) > 0; b.fill() {
		b.exchange()
	}
	b.release()
}

// fill begins jobs as long as the process may be given more.
func (b *batch) fill() {
	for room := b.room(); room > 0 && b.mayBegin(); room = b.room() {
		if len(b.jobs) == 0 && !b.more(room) {
			return
		}
		if b.s == nil && !b.rested() {
			return
		}
		r := &request{attempt: b.attempt(b.jobs[0]), index: b.begun, start: time.Now()}
		b.jobs, b.begun = b.jobs[1:], b.begun+1
		if f := b.begin(r); f != nil {
			b.fail(r, f)
		}
	}
}

// room is how many jobs more the process may hold.
func (b *batch) room() int { return max(1, b.task.Body.Concurrency) - len(b.held) }

// more asks for further jobs, as long as there is a process that serves this batch.
func (b *batch) more(room int) bool {
	if b.s == nil {
		return false
	}
	b.jobs = b.to.More(room, b.s.Wake)
	return len(b.jobs) > 0
}

func (b *batch) mayBegin() bool {
	return !b.failed && b.ctx.Err() == nil && !b.to.Stopped() && (b.s == nil || !b.s.dying)
}

// rested waits until a process may be started, and reports whether one still is
// to be.
func (b *batch) rested() bool {
	const look = 50 * time.Millisecond
	for wait := b.rest(); wait > 0; wait = b.rest() {
		timer := time.NewTimer(min(wait, look))
		select {
		case <-timer.C:
		case <-b.ctx.Done():
			timer.Stop()
		}
		if !b.mayBegin() {
			return false
		}
	}
	return true
}

// begin puts the request of a job behind what is to be written.
func (b *batch) begin(r *request) *Failure {
	if f := b.checkArgs(r.job); f != nil {
		return f
	}
	if b.s == nil {
		s, f := b.acquire(b.slot, r.job)
		if f != nil {
			return f
		}
		b.s = s
		b.unhook = s.WatchContext(b.ctx, b.task.Grace, ErrKill)
	}
	s := b.s
	s.nextID++
	r.id = s.nextID
	out, err := r.appendRequest(s.out, r.id)
	if err != nil {
		return asFailure(err)
	}
	b.tell(TrafficRequest, out[len(s.out):len(out)-1])
	s.out = out
	if b.task.Timeout > 0 {
		r.deadline = r.start.Add(b.task.Timeout)
	}
	b.held = append(b.held, r)
	return nil
}

// exchange writes what there is to be written, waits, and reads.
func (b *batch) exchange() {
	s := b.s
	b.write()
	limit := b.patience()
	if err := s.Wait(len(s.out) > 0, limit); err != nil {
		b.abandon(machine("wait for the worker", err))
		return
	}
	more, ended := b.read()
	switch {
	case ended:
		b.died()
	case !more && b.fresh:
		b.fresh = false
		b.to.Idle()
	}
	b.expire()
}

func (b *batch) write() {
	s := b.s
	if len(s.out) == 0 {
		return
	}
	n, err := s.Write(s.out)
	if s.out = s.out[n:]; len(s.out) == 0 {
		s.out = s.out[:0:cap(s.out)]
	}
	if err != nil { // it does not read any more: its end says why
		s.out = nil
		b.stop(min(b.task.Grace, time.Second))
	}
}

// stop asks the process to end. It is given no more jobs.
func (b *batch) stop(grace time.Duration) {
	if !b.s.dying {
		b.s.dying = true
		b.s.Terminate(grace)
	}
}

// patience is how long to wait at most; negative is for ever.
func (b *batch) patience() time.Duration {
	limit := time.Duration(-1)
	for _, r := range b.held { // oldest first: so are their deadlines
		if !r.late && !r.deadline.IsZero() {
			limit = max(0, time.Until(r.deadline))
			break
		}
	}
	if b.fresh && (limit < 0 || limit > idleAfter) {
		limit = idleAfter
	}
	return limit
}

// read takes what the process has answered, and reports whether it was anything,
// and whether that was all because it has ended.
func (b *batch) read() (more, ended bool) {
	s := b.s
	const chunk = 64 << 10
	if cap(s.in)-len(s.in) < chunk/4 {
		grown := make([]byte, len(s.in), 2*cap(s.in)+chunk)
		copy(grown, s.in)
		s.in = grown
	}
	// Whether it has ended is asked first: what it wrote before is read then.
	over := false
	select {
	case <-s.Ended():
		over = true
	default:
	}
	n, err := s.Read(s.in[len(s.in):cap(s.in)])
	s.in = s.in[:len(s.in)+n]
	if n > 0 {
		b.lines()
		return true, false
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.abandon(machine("read from the worker", err))
		return false, false
	}
	if err != nil && !over {
		// It closed its output and may live on, which is no use to anybody.
		b.stop(min(b.task.Grace, time.Second))
		<-s.Ended()
		over = true
	}
	return false, over
}

// lines handles the whole lines of what was read.
func (b *batch) lines() {
	s := b.s
	rest := s.in
	for b.s == s {
		i := bytes.IndexByte(rest[s.seen:], '\n')
		if i < 0 {
			break
		}
		line := rest[:s.seen+i]
		rest, s.seen = rest[s.seen+i+1:], 0
		b.line(line)
	}
	if b.s != s {
		return // ended for what it said
	}
	s.seen = len(rest)
	if int64(len(rest)) > b.maxOutput {
		b.disown(failf(KindOutput, "the worker's answer is longer than %d bytes (--max-output); a large value is better written to a file, and its path answered", b.maxOutput))
		return
	}
	s.in = append(s.in[:0], rest...)
}

// line handles one line.
func (b *batch) line(line []byte) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	b.tell(TrafficAnswer, line)
	// The values go on as they are: they need memory of their own.
	a, err := readAnswer(bytes.Clone(line), b.maxList)
	if err != nil {
		at := 0
		if e, ok := errors.AsType[*jsonError](err); ok {
			at = e.at
		}
		b.disown(failf(KindOutput, "the worker printed a line that is no answer: %s (byte %d: %v); what is not an answer belongs on standard error", quote(line), at+1, err))
		return
	}
	for i, r := range b.held {
		if r.id == a.id {
			b.held = append(b.held[:i], b.held[i+1:]...)
			b.answered(r, &a)
			return
		}
	}
	b.disown(failf(KindOutput, "the worker answered request %d, which it does not hold: %s", a.id, quote(line)))
}

// answered ends a job by its answer.
func (b *batch) answered(r *request, a *answer) {
	if !b.s.answered {
		b.s.answered = true
		b.ran(true)
	}
	usage := Usage{Start: r.start, Wall: time.Since(r.start)}
	items, f := b.values(a)
	if r.late {
		f = b.tookTooLong()
	}
	if a.failed && !r.late && b.task.Mem > 0 && saysNoMemory([]byte(a.error)) {
		peak := ""
		if n := b.s.Peak(); n > 0 {
			peak = sizeText(n) + " at most"
		}
		b.hadNoMore(f, peak)
	}
	if f == nil {
		f = b.verify(items)
	}
	if f != nil {
		// What it printed about it may still be on its way: the log is named in any
		// case.
		f.Usage, f.Log, f.Logged = usage, b.s.log.path, b.s.log.size()
		b.fail(r, f)
		return
	}
	b.fresh = true
	b.to.Done(r.index, &Result{Items: items, Usage: usage, close: r.dir.remove}, nil)
}

// values are what an answer says, or the failure that it is.
func (b *batch) values(a *answer) ([]value.Value, *Failure) {
	switch {
	case a.failed:
		return nil, a.failure()
	case b.task.Spawn != nil && a.list:
		return a.values, nil
	case b.task.Spawn != nil:
		return nil, failf(KindOutput, "the worker's answer has no `values`: the task returns a list, a value for each %s", b.task.Spawn.Name)
	case a.value == nil:
		return nil, failf(KindOutput, "the worker's answer has no `value`: the task returns one")
	}
	return []value.Value{value.FromJSON(a.value)}, nil
}

// failure is what a worker says of a job that it could not do: the first line as
// the message, the rest, a traceback as a rule, where standard error stands.
func (a *answer) failure() *Failure {
	first, rest, _ := strings.Cut(strings.TrimSpace(a.error), "\n")
	if first == "" {
		first = "the worker says that the job failed, and not why"
	}
	f := &Failure{Kind: KindExit, Exit: 1, Message: quoteUpTo([]byte(first), messageLimit), Retryable: a.retry, RetryAfter: a.after}
	if rest != "" {
		text := a.error
		f.Stderr = []byte(text[max(0, len(text)-tailLimit):])
	}
	return f
}

// fail ends a job that failed. No other job begins of those that are here: whether
// one may is for the engine to say, and it does so by giving more.
func (b *batch) fail(r *request, f *Failure) {
	b.failed = b.failed || len(b.jobs) > 0
	b.fresh = true
	b.to.Done(r.index, nil, r.giveUp(f))
}

// expire asks a process to end that holds a job for longer than its timeout.
func (b *batch) expire() {
	if b.s == nil || b.task.Timeout <= 0 {
		return
	}
	now := time.Now()
	for _, r := range b.held {
		if !r.late && !now.Before(r.deadline) {
			r.late = true
			b.stop(b.task.Grace)
		}
	}
}

func (b *batch) tookTooLong() *Failure {
	return failf(KindTimeout, "took longer than its timeout of %s", b.task.Timeout)
}

// disown ends a process that can't be understood. The jobs that it holds fail:
// which of them it was about can't be told.
func (b *batch) disown(f *Failure) {
	b.s.Kill()
	b.bury(0).onto(f)
	b.failHeld(f)
}

// remains are what is left of a process.
type remains struct {
	exit *proc.Exit
	err  error // of waiting for it
	log  *workerLog
}

// onto adds to a failure what the process printed to standard error.
func (m remains) onto(f *Failure) {
	f.Stderr = m.log.last()
	if f.Logged = m.log.size(); f.Logged > 0 {
		f.Log = m.log.path
	}
}

// bury ends the process and takes it off the batch.
func (b *batch) bury(grace time.Duration) remains {
	s := b.s
	b.unhook()
	b.s = nil
	m := remains{log: s.log}
	m.exit, m.err = b.end(s, grace)
	if !s.answered {
		b.ran(false)
	}
	return m
}

// failHeld ends all jobs under way with one failure.
func (b *batch) failHeld(f *Failure) {
	held := b.held
	b.held = nil
	for _, r := range held {
		own := *f
		own.Usage, own.Died = Usage{Start: r.start, Wall: time.Since(r.start)}, true
		b.fail(r, &own)
	}
}

// died ends the jobs of a process that has ended. Those that were late, or stopped
// by the engine, did not fail by its end; and where it was stopped for one of
// them, its neighbours are to be run again.
func (b *batch) died() {
	m := b.bury(0)
	cause := cancelled(b.ctx)
	if cause == nil {
		cause = b.causeOfDeath(m)
	}
	held := b.held
	b.held = nil
	late := slices.ContainsFunc(held, func(r *request) bool { return r.late })
	for _, r := range held {
		f := *cause
		switch {
		case r.late:
			f = *b.tookTooLong()
			m.onto(&f)
		case late:
			f = *failf(KindLost, "the worker that held it was stopped: another of its jobs took too long")
		}
		f.Usage, f.Died = Usage{Start: r.start, Wall: time.Since(r.start)}, true
		b.fail(r, &f)
	}
}

func (b *batch) causeOfDeath(m remains) *Failure {
	if m.err != nil {
		return machine("wait for the worker", m.err)
	}
	f := b.ended(m.exit)
	if f == nil {
		f = failf(KindExit, "exit status 0")
	}
	f.Message = "the worker died: " + f.Message
	m.onto(f)
	return b.orMemory(orFullDisk(f, b.workdir), m.exit, f.Stderr)
}

// abandon ends the process, and all that is under way, for what is not the
// worker's fault.
func (b *batch) abandon(f *Failure) {
	b.failed = true
	if b.s != nil {
		b.s.Kill()
		b.bury(0)
	}
	b.failHeld(f)
}

// release gives the process back, unless it is to end.
func (b *batch) release() {
	if b.s == nil {
		return
	}
	b.unhook()
	if b.s.dying || b.ctx.Err() != nil {
		b.end(b.s, b.task.Grace)
		return
	}
	b.put(b.s)
}
