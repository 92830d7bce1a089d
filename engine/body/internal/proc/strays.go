package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Stray is a process of an earlier engine that was still there.
type Stray struct {
	PID     int
	Token   string // its OPERON_JOB, "" if it is not known
	Command string // its arguments, separated by blanks
}

// EndStrays kills what an earlier engine left running: the processes that the
// running file names, if they are still the same (start time and boot), with
// their groups; every process that inherited a token with the given prefix; and
// every process in a control group that was made for such a token, below the
// group that this program is in. It returns when they are gone. The caller must
// know that the earlier engine is gone. An empty prefix is an error: every
// engine's jobs would match.
func EndStrays(ctx context.Context, path, prefix string) ([]Stray, error) {
	if prefix == "" {
		return nil, errors.New("end strays: empty token prefix")
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	entries, err := readRunning(path)
	if err != nil {
		return nil, err
	}
	var ended []Stray
	for _, e := range entries {
		if e.boot == boot {
			s, err := endRecorded(ctx, e)
			ended = append(ended, s...)
			if err != nil {
				return ended, err
			}
		}
	}
	more, err := endByToken(ctx, prefix)
	ended = append(ended, more...)
	if err != nil {
		return ended, err
	}
	more, err = endGrouped(ctx, prefix)
	return append(ended, more...), err
}

// endRecorded ends the process of an entry and its group.
func endRecorded(ctx context.Context, e entry) ([]Stray, error) {
	return endProcess(ctx, e.pid, true, func() bool {
		st, ok := statusOf(e.pid)
		return ok && st.state != 'Z' && st.start >= e.earliest && st.start <= e.latest
	})
}

// endByToken ends all processes with the token, and those that these forked
// meanwhile, until there are none.
func endByToken(ctx context.Context, prefix string) ([]Stray, error) {
	var ended []Stray
	for range maxSweeps {
		found := false
		for _, pid := range processes() {
			if pid == os.Getpid() {
				continue
			}
			s, err := endProcess(ctx, pid, false, func() bool { return hasToken(pid, prefix, true) })
			ended = append(ended, s...)
			if err != nil {
				return ended, err
			}
			found = found || len(s) > 0
		}
		if !found {
			return ended, nil
		}
	}
	return ended, errStillForking
}

// endProcess kills pid if it is the one meant, and waits for its end. It holds
// the process while it looks: the number can't change its owner in between.
func endProcess(ctx context.Context, pid int, group bool, meant func() bool) ([]Stray, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.ENOSYS):
		fd = -1 // a kernel before 5.3: look and kill in two steps
	case err != nil:
		return nil, nil // gone
	default:
		defer unix.Close(fd)
	}
	if !meant() {
		return nil, nil
	}
	token, _ := tokenOf(pid)
	stray := []Stray{{PID: pid, Token: string(token), Command: commandOf(pid)}}
	if group {
		_ = killGroup(pid, unix.SIGKILL) // need not lead a group any more
	}
	if err := killHeld(fd, pid); err != nil && !errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("end process %d (%s): %w", pid, stray[0].Command, err)
	}
	return stray, awaitEnd(ctx, fd, pid)
}

func killHeld(fd, pid int) error {
	if fd < 0 {
		return unix.Kill(pid, unix.SIGKILL)
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// awaitEnd waits until a process that is no child of ours has ended.
func awaitEnd(ctx context.Context, fd, pid int) error {
	const step = 20 * time.Millisecond
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("wait for the end of process %d: %w", pid, context.Cause(ctx))
		}
		if st, ok := statusOf(pid); !ok || st.state == 'Z' || st.state == 'X' {
			return nil
		}
		var fds []unix.PollFd
		if fd >= 0 {
			fds = []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		}
		_, _ = unix.Poll(fds, int(step/time.Millisecond)) // the loop looks for itself
	}
}

func commandOf(pid int) string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	return string(bytes.TrimRight(bytes.ReplaceAll(raw, []byte{0}, []byte{' '}), " "))
}
