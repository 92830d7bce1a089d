package proc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Server is a program that stays, and is written to and read from while it runs.
// Its standard input and output are pipes; what it prints to standard error goes
// to a writer. Write, Read and Wait must be called by one goroutine at a time,
// the others by any.
type Server struct {
	in, out int // our ends; do not block
	wake    int // eventfd: makes Wait return
	errs    *os.File
	errsFD  int
	reading sync.WaitGroup // of errs

	running *Running
	entry   int
	orphans orphans
	group   *group // control group; nil: none
	token   string
	ended   chan struct{}
	life    sync.WaitGroup // of whoever waits for the end
	exit    Exit           // once ended
	err     error          // of waiting, once ended

	mu     sync.Mutex
	pid    int // 0 once it is reaped: the number may then be anybody's
	killer *time.Timer
}

// pipeRoom is how much a pipe should hold: requests and answers travel in one
// go, and nobody waits for the other.
const pipeRoom = 1 << 20

// Serve starts p on the slot's thread, which must live as long as the server
// does. Timeout, limits of output and Stdin of p mean nothing here. errs is
// written to by one goroutine, until End returns. The error is a *StartError if
// it did not start.
func (s *Slot) Serve(p *Program, errs io.Writer) (*Server, error) {
	v := &Server{in: -1, out: -1, wake: -1, errsFD: -1, running: s.running, token: p.Token, ended: make(chan struct{})}
	theirs, err := v.open()
	if err != nil {
		v.close()
		return nil, err
	}
	v.exit.Start = time.Now()
	before := bootTicks()
	v.pid, v.group, err = s.fork(p, theirs[0], theirs[1], theirs[2])
	for _, fd := range theirs {
		unix.Close(fd)
	}
	if err != nil && v.pid == 0 {
		v.close()
		return nil, err
	}
	v.entry = v.running.reserve()
	noteErr := v.running.set(v.entry, v.pid, before, bootTicks(), p.Token)
	v.orphans.open()
	v.reading.Go(func() { v.readErrs(errs) })
	v.life.Go(v.await)
	if err = errors.Join(err, noteErr); err != nil {
		v.Kill()
		v.End(0)
		return nil, err
	}
	return v, nil
}

// open makes the pipes and returns the program's ends.
func (v *Server) open() (theirs [3]int, err error) {
	var in, out, errs [2]int
	for i, p := range []*[2]int{&in, &out, &errs} {
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			for _, fd := range theirs[:i] {
				unix.Close(fd)
			}
			return theirs, fmt.Errorf("make pipes: %w", err)
		}
		theirs[i] = p[1]
		switch i {
		case 0:
			theirs[i], v.in = p[0], p[1]
		case 1:
			v.out = p[0]
		case 2:
			v.errsFD = p[0]
		}
	}
	for _, fd := range []int{v.in, v.out} {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, pipeRoom) // as much as may be had
	}
	for _, fd := range []int{v.in, v.out, v.errsFD} {
		err = errors.Join(err, unix.SetNonblock(fd, true))
	}
	v.errs = os.NewFile(uintptr(v.errsFD), "stderr")
	if v.wake, _ = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); v.wake < 0 {
		err = errors.Join(err, errors.New("make event"))
	}
	if err != nil {
		for _, fd := range theirs {
			unix.Close(fd)
		}
		return theirs, fmt.Errorf("make pipes: %w", err)
	}
	return theirs, nil
}

func (v *Server) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, fd := range []*int{&v.in, &v.out, &v.wake} {
		closeFD(fd)
	}
	if v.errs != nil {
		v.errs.Close()
	}
	v.orphans.close()
}

// await waits for the program's end, ends what is left of it, and reaps it.
func (v *Server) await() {
	pid := v.pid
	waitErr := waitFor(pid, unix.WEXITED|unix.WNOWAIT)
	_ = killGroup(pid, unix.SIGKILL) // there is the leader, if nobody else
	v.group.kill()
	_, sweepErr := v.orphans.sweep(family{leader: pid, group: v.group, token: v.token, pipes: []int{v.out, v.errsFD}}, &v.exit)
	v.reap(pid, errors.Join(waitErr, sweepErr))
	v.exit.Group = v.group.finish()
	_ = v.errs.SetReadDeadline(past) // who is left holding the pipe is not waited for
	v.reading.Wait()
	if err := v.running.release(v.entry); v.err == nil {
		v.err = err
	}
	close(v.ended)
	v.Wake()
}

func (v *Server) reap(pid int, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var usage syscall.Rusage
	_, reapErr := wait4(pid, &v.exit.Status, &usage)
	v.pid = 0
	if v.killer != nil {
		v.killer.Stop()
	}
	v.exit.Wall = time.Since(v.exit.Start)
	v.exit.add(&usage)
	if own := ownPeak(); v.exit.MaxRSS <= own {
		v.exit.MaxRSS, v.exit.Below = 0, own
	}
	v.err = errors.Join(err, reapErr)
}

// readErrs hands on what the program prints to standard error, until it has
// ended; then what is left in the pipe.
func (v *Server) readErrs(to io.Writer) {
	buf := make([]byte, 32<<10)
	for {
		n, err := v.errs.Read(buf)
		_, _ = to.Write(buf[:n]) // whoever wrote the writer knows of its errors
		if err != nil {
			break
		}
	}
	for {
		n, err := unix.Read(v.errsFD, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		_, _ = to.Write(buf[:n])
	}
}

// Write writes as much of p as the pipe takes now, maybe nothing. A program that
// does not read any more is an error.
func (v *Server) Write(p []byte) (int, error) {
	for {
		n, err := unix.Write(v.in, p)
		switch err {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return 0, nil
		case nil:
			return n, nil
		}
		return 0, err
	}
}

// Read reads what is there, maybe nothing. What has ended is io.EOF.
func (v *Server) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(v.out, p)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return 0, nil
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// Wait waits until there is something to read, or room to write if that is
// wanted; until the program has ended, somebody calls Wake, or limit has passed
// (negative: for ever).
func (v *Server) Wait(write bool, limit time.Duration) error {
	fds := [3]unix.PollFd{{Fd: int32(v.out), Events: unix.POLLIN}, {Fd: int32(v.wake), Events: unix.POLLIN}}
	n := 2
	if write {
		fds[2] = unix.PollFd{Fd: int32(v.in), Events: unix.POLLOUT}
		n = 3
	}
	timeout := -1
	if limit >= 0 {
		timeout = int(min((limit+time.Millisecond-1)/time.Millisecond, time.Hour/time.Millisecond))
	}
	if _, err := unix.Poll(fds[:n], timeout); err != nil && err != unix.EINTR {
		return fmt.Errorf("wait for a worker: %w", err)
	}
	if fds[1].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(v.wake, count[:])
	}
	return nil
}

// Wake makes Wait return.
func (v *Server) Wake() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.wake < 0 {
		return
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(v.wake, one[:]) // full: it is awake
}

// Ended is closed when the program and all that was left of it have ended.
func (v *Server) Ended() <-chan struct{} { return v.ended }

// Exit tells how the program ended, once it has.
func (v *Server) Exit() (*Exit, error) { return &v.exit, v.err }

// Peak is the most memory that the program has had so far, in bytes; 0 if that
// can't be told. What it has started does not count.
func (v *Server) Peak() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pid == 0 {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "VmHWM:" {
			continue
		}
		if kib, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			return kib << 10
		}
	}
	return 0
}

// Terminate asks the program's group to end, and kills it after a grace period.
func (v *Server) Terminate(grace time.Duration) {
	v.signal(unix.SIGTERM)
	v.signal(unix.SIGCONT) // a stopped process would not hear of it
	v.killAfter(grace)
}

// Kill ends the program's process group at once; what else is in its control
// group ends with it.
func (v *Server) Kill() { v.signal(unix.SIGKILL) }

func (v *Server) signal(signal unix.Signal) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pid != 0 {
		_ = killGroup(v.pid, signal) // gone already: its end is being waited for
	}
}

func (v *Server) killAfter(grace time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pid != 0 && v.killer == nil {
		v.killer = time.AfterFunc(grace, v.Kill)
	}
}

// End closes the program's standard input, which asks it to finish, kills it
// after the grace period, and returns when nothing of it is left. It must be
// called once for every server that was started.
func (v *Server) End(grace time.Duration) (*Exit, error) {
	closeFD(&v.in)
	v.killAfter(grace)
	v.drain()
	v.life.Wait()
	v.close()
	return &v.exit, v.err
}

// drain throws away what the program still prints, so that it does not wait for
// room where it should end.
func (v *Server) drain() {
	buf := make([]byte, 32<<10)
	for {
		select {
		case <-v.ended:
			return
		default:
		}
		if v.Wait(false, -1) != nil {
			<-v.ended
			return
		}
		for {
			n, err := v.Read(buf)
			if err != nil {
				<-v.ended
				return
			}
			if n == 0 {
				break
			}
		}
	}
}

// WatchContext kills or terminates the program when ctx ends, and wakes who
// waits. The returned function takes the context off it.
func (v *Server) WatchContext(ctx context.Context, grace time.Duration, killCause error) (stop func() bool) {
	if ctx.Done() == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, func() {
		if killCause != nil && errors.Is(context.Cause(ctx), killCause) {
			v.Kill()
			return
		}
		v.Terminate(grace)
	})
}
