package proc

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Cause is why a program was ended from outside.
type Cause uint8

const (
	CauseNone      Cause = iota // it was not
	CauseTimeout                // it took too long
	CauseCancelled              // its context was cancelled
	CauseStdout                 // it printed more than its limit
	CauseStderr                 // its log grew without bound, and nothing could be cut out of it
)

const (
	firstLook  = 20 * time.Millisecond // most programs are over by then: no timer fires
	maxLook    = 100 * time.Millisecond
	minLook    = 2 * time.Millisecond
	punchAlign = 4096
)

// watch ends a running program for its deadline, its context or its output. It
// is called by a timer and by the context, never by the goroutine that waits;
// pid is set exactly as long as the number can't mean anybody else.
type watch struct {
	mu    sync.Mutex
	slot  *Slot
	timer *time.Timer
	armed time.Time // when the timer goes off; zero: it does not
	run   uint64    // counts programs, so that a late call from one can't hit the next
	pid   int       // of the leader; 0: nothing runs
	cause Cause

	program  *Program
	deadline time.Time // zero: none
	killAt   time.Time // zero: no SIGTERM was sent
	killed   bool
	every    time.Duration
	size     int64 // of standard output at the last look
	looked   time.Time
	punched  int64 // end of what was cut out of standard error
}

func (w *watch) init(s *Slot) {
	w.slot = s
	w.timer = time.AfterFunc(time.Hour, w.look)
	w.timer.Stop()
}

// arm sees to it that there is a look at the given time at the latest. The timer
// is not stopped when a program ends: of a row of short programs only one in
// many pays for it.
func (w *watch) arm(now time.Time, in time.Duration) {
	at := now.Add(in)
	if !w.armed.IsZero() && !at.Before(w.armed) {
		return
	}
	w.armed = at
	w.timer.Reset(max(in, 0))
}

func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pid = 0
	if w.timer != nil {
		w.timer.Stop()
	}
}

// begin watches over pid. The returned function takes the context off it.
func (w *watch) begin(ctx context.Context, pid int, p *Program) (stop func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run++
	w.pid, w.program = pid, p
	w.cause, w.killed, w.killAt, w.deadline = CauseNone, false, time.Time{}, time.Time{}
	w.size, w.punched, w.every = 0, 0, firstLook
	next := firstLook
	w.looked = time.Now()
	if p.Timeout > 0 {
		w.deadline = w.looked.Add(p.Timeout)
		next = min(next, p.Timeout)
	}
	w.arm(w.looked, next)
	if ctx.Done() == nil {
		return func() bool { return true }
	}
	run := w.run
	return context.AfterFunc(ctx, func() { w.cancel(run, context.Cause(ctx)) })
}

// end forgets the program. From here on its number may be anybody's.
func (w *watch) end() {
	w.pid, w.program = 0, nil
}

func (w *watch) cancel(run uint64, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pid == 0 || w.run != run {
		return
	}
	if w.program.KillCause != nil && errors.Is(cause, w.program.KillCause) {
		w.kill(CauseCancelled)
		return
	}
	w.terminate(CauseCancelled)
}

// look is what the timer does: deadlines, then sizes, then the next look.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = time.Time{}
	if w.pid == 0 {
		return
	}
	now := time.Now()
	if !w.deadline.IsZero() && !now.Before(w.deadline) && w.cause == CauseNone {
		w.terminate(CauseTimeout)
	}
	if !w.killAt.IsZero() && !now.Before(w.killAt) && !w.killed {
		w.kill(w.cause)
	}
	w.lookAtStdout(now)
	w.lookAtStderr()
	w.arm(now, w.next(now))
}

func (w *watch) next(now time.Time) time.Duration {
	next := w.every
	if !w.deadline.IsZero() && w.cause == CauseNone {
		next = min(next, w.deadline.Sub(now))
	}
	if !w.killAt.IsZero() && !w.killed {
		next = min(next, w.killAt.Sub(now))
	}
	return max(next, 0)
}

// lookAtStdout ends a program that has printed too much, and looks the more
// often the sooner it could have.
func (w *watch) lookAtStdout(now time.Time) {
	size, err := fileSize(w.slot.out.fd)
	if err != nil || w.program.MaxOutput <= 0 {
		return
	}
	if size > w.program.MaxOutput {
		w.kill(CauseStdout)
		return
	}
	grown, took := size-w.size, now.Sub(w.looked)
	w.size, w.looked = size, now
	w.every = min(2*w.every, maxLook)
	if grown > 0 {
		left := float64(w.program.MaxOutput-size) / float64(grown) * float64(took) / 2
		w.every = max(minLook, min(w.every, time.Duration(min(left, float64(maxLook)))))
	}
}

// lookAtStderr cuts the middle out of a log that has grown to twice what will
// be kept of it.
func (w *watch) lookAtStderr() {
	limit := w.program.MaxStderr
	if limit <= 0 {
		return
	}
	size, err := fileSize(w.slot.err.fd)
	if err != nil || size-w.punched <= 2*limit {
		return
	}
	from := max(w.punched, (limit+punchAlign)/punchAlign*punchAlign)
	to := (size - limit) / punchAlign * punchAlign
	if to <= from {
		return
	}
	err = unix.Fallocate(w.slot.err.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
	if err != nil {
		w.kill(CauseStderr)
		return
	}
	w.punched = to
}

// terminate asks the group to end. A stopped process would not hear of it.
func (w *watch) terminate(cause Cause) {
	if w.cause != CauseNone {
		return
	}
	w.cause = cause
	now := time.Now()
	w.killAt = now.Add(w.program.Grace)
	_ = killGroup(w.pid, unix.SIGTERM) // gone already: its end is being waited for
	_ = killGroup(w.pid, unix.SIGCONT)
	w.arm(now, min(w.every, w.program.Grace))
}

// kill ends the group, whatever it is doing.
func (w *watch) kill(cause Cause) {
	if w.cause == CauseNone {
		w.cause = cause
	}
	w.killed = true
	_ = killGroup(w.pid, unix.SIGKILL) // gone already: its end is being waited for
}

// leaderEnded kills what is left of the group, unless it was asked to end and
// still has time to.
func (w *watch) leaderEnded() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.killAt.IsZero() || w.killed {
		w.killed = true
		_ = killGroup(w.pid, unix.SIGKILL)
	}
}

// killGroup signals a process group. 0 and 1 would mean this program's own
// group, and everybody.
func killGroup(group int, signal syscall.Signal) error {
	if group <= 1 {
		return unix.ESRCH
	}
	return unix.Kill(-group, signal)
}
