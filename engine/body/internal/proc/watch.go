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
	CauseSpool                  // what it printed can't be stored
)

// firstLook is when a program is looked at first. Most are over by then, and
// cost neither a timer that goes off nor a goroutine that reads along.
const firstLook = 20 * time.Millisecond

// The read deadlines of pipes: one that has passed, and none.
var (
	past  = time.Unix(1, 0)
	never = time.Time{}
)

// watch ends a running program for its deadline, its context or its output. It
// is called by a timer, by the context and by who reads along, never by the
// goroutine that waits; pid is set exactly as long as the number can't mean
// anybody else.
type watch struct {
	mu    sync.Mutex
	slot  *Slot
	timer *time.Timer
	armed time.Time // when the timer goes off; zero: it does not
	run   uint64    // counts programs, so that a late call from one can't hit the next
	pid   int       // of the leader; 0: nothing runs

	program   *Program
	group     *group // its control group; nil: it has none
	cause     Cause
	deadline  time.Time // zero: none
	killAt    time.Time // zero: no SIGTERM was sent
	killed    bool
	following bool // its output is read along
}

func (w *watch) init(s *Slot) {
	w.slot = s
	w.timer = time.AfterFunc(time.Hour, w.look)
	w.timer.Stop()
}

func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pid = 0
	if w.timer != nil {
		w.timer.Stop()
	}
}

// arm sees to it that there is a look at the given time at the latest. The timer
// is not stopped when a program ends: of a row of short programs only one in
// many pays for it.
func (w *watch) arm(at time.Time) {
	if !w.armed.IsZero() && !at.Before(w.armed) {
		return
	}
	w.armed = at
	w.timer.Reset(max(time.Until(at), 0))
}

// begin watches over pid. The returned function takes the context off it.
func (w *watch) begin(ctx context.Context, pid int, group *group, p *Program) (stop func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run++
	w.pid, w.group, w.program, w.cause = pid, group, p, CauseNone
	w.deadline, w.killAt, w.killed, w.following = time.Time{}, time.Time{}, false, false
	now := time.Now()
	w.arm(now.Add(firstLook))
	if p.Timeout > 0 {
		w.deadline = now.Add(p.Timeout)
		w.arm(w.deadline)
	}
	if ctx.Done() == nil {
		return func() bool { return true }
	}
	run := w.run
	return context.AfterFunc(ctx, func() { w.cancel(run, context.Cause(ctx)) })
}

// end forgets the program: from here on its number may be anybody's. It returns
// what ended it, and whether its output is being read along.
func (w *watch) end() (Cause, bool) {
	w.pid, w.group, w.program = 0, nil, nil
	return w.cause, w.following
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

// look is what the timer does.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = time.Time{}
	if w.pid == 0 {
		return
	}
	now := time.Now()
	if !w.deadline.IsZero() && !now.Before(w.deadline) {
		w.terminate(CauseTimeout)
	}
	if !w.killAt.IsZero() && !now.Before(w.killAt) {
		w.kill(w.cause)
	}
	if !w.following {
		w.following = true
		run := w.run
		w.slot.follow(w.program, func() { w.full(run, CauseStdout) }, func() { w.full(run, CauseSpool) })
	}
	if !w.deadline.IsZero() && w.cause == CauseNone {
		w.arm(w.deadline)
	}
	if !w.killAt.IsZero() && !w.killed {
		w.arm(w.killAt)
	}
}

// full ends a program whose output has no room.
func (w *watch) full(run uint64, cause Cause) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pid != 0 && w.run == run {
		w.kill(cause)
	}
}

// terminate asks the group to end. A stopped process would not hear of it.
func (w *watch) terminate(cause Cause) {
	if w.cause != CauseNone {
		return
	}
	w.cause = cause
	w.killAt = time.Now().Add(w.program.Grace)
	_ = killGroup(w.pid, unix.SIGTERM) // gone already: its end is being waited for
	_ = killGroup(w.pid, unix.SIGCONT)
	w.arm(w.killAt)
}

// kill ends the group, whatever it is doing.
func (w *watch) kill(cause Cause) {
	if w.cause == CauseNone {
		w.cause = cause
	}
	w.killAll()
}

// killAll kills the process group and, which nothing gets out of, the control
// group.
func (w *watch) killAll() {
	w.killed = true
	_ = killGroup(w.pid, unix.SIGKILL) // gone already: its end is being waited for
	w.group.kill()
}

// leaderEnded kills what is left of the group, unless it was asked to end and
// still has time to.
func (w *watch) leaderEnded() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.killAt.IsZero() || w.killed {
		w.killAll()
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
