package body

import (
	"context"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"operon/engine/body/internal/proc"
)

// judge is the failure that a process's end means, or nil.
func (p *process) judge(ctx context.Context, x *proc.Exit) *Failure {
	switch x.Cause {
	case proc.CauseTimeout:
		return failf(KindTimeout, "took longer than its timeout of %s", p.task.Timeout)
	case proc.CauseCancelled:
		return cancelled(ctx)
	case proc.CauseStdout:
		return p.tooMuch()
	}
	switch {
	case x.Status.Signaled():
		name := unix.SignalName(x.Status.Signal())
		if name == "" {
			name = fmt.Sprintf("signal %d", x.Status.Signal())
		}
		f := failf(KindSignal, "killed by signal %s", name)
		f.Signal = name
		if x.Status.Signal() == syscall.SIGKILL {
			f.Message += " (not by operon: often the kernel does so when memory runs out)"
		}
		return f
	case x.Status.ExitStatus() != 0:
		f := failf(KindExit, "exit status %d", x.Status.ExitStatus())
		f.Exit = x.Status.ExitStatus()
		return f
	}
	return nil
}

// orFullDisk blames the machine for a failure if a disk is full that the body
// writes to: what it wrote there can't have arrived.
func orFullDisk(f *Failure, dirs ...string) *Failure {
	const little = 64 << 10
	if f.Kind != KindExit && f.Kind != KindSignal {
		return f
	}
	for _, dir := range dirs {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Blocks > 0 && int64(st.Bavail)*st.Bsize < little {
			f.Kind = KindResources
			f.Message += fmt.Sprintf(" (the disk that holds %s is full)", dir)
			break
		}
	}
	return f
}

func (p *process) tooMuch() *Failure {
	return failf(KindOutput, "printed more than %d bytes (--max-output); a large value is better written to a file: format: file and $out", p.maxOutput)
}
