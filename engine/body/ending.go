package body

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
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
	return p.ended(x)
}

// ended is the failure that an end of its own means, or nil.
func (c *common) ended(x *proc.Exit) *Failure {
	switch {
	case x.Status.ExitStatus() != 0 && x.OOM() != proc.OOMNone: // a signal's is -1
		return c.outOfMemory(x)
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
		if f.Exit == exitTryAgain {
			again := true
			f.Retryable = &again
		}
		return f
	}
	return nil
}

// outOfMemory is the failure of a job that the kernel ended, wholly or in part,
// for want of memory.
func (c *common) outOfMemory(x *proc.Exit) *Failure {
	f := failf(KindResources, "out of memory: limit %s", sizeText(c.task.Mem))
	if x.Group.Peak > 0 {
		f.Message += ", peak " + sizeText(x.Group.Peak)
	}
	if x.OOM() == proc.OOMLimit {
		f.Err = ErrMemory
		return f
	}
	f.Message += "; it was the machine that had no more, or what the engine may have of it"
	return f
}

// orMemory says of a failure that memory ran out, where the task bounds it and
// either what was printed last or the peak says so: a program that gets no more
// ends in whatever way it likes. In a control group the peak says nothing: it is
// the limit wherever a job reads many files.
func (c *common) orMemory(f *Failure, x *proc.Exit, tail []byte) *Failure {
	limit := c.task.Mem
	if limit == 0 || f.Kind != KindExit && f.Kind != KindSignal {
		return f
	}
	near := x.Group == nil && x.MaxRSS >= limit-limit/8
	if !near && !saysNoMemory(tail) {
		return f
	}
	peak := ""
	switch {
	case x.PeakMemory() > 0:
		peak = sizeText(x.PeakMemory()) + " at most"
	case x.Below > 0:
		peak = "no more than " + sizeText(x.Below)
	}
	return c.hadNoMore(f, peak)
}

// hadNoMore says of a failure that memory ran out; peak is what was used, "" if
// nobody knows.
func (c *common) hadNoMore(f *Failure, peak string) *Failure {
	f.Message += fmt.Sprintf(" (out of memory: `mem` gives it %s", sizeText(c.task.Mem))
	if peak != "" {
		f.Message += ", and it had " + peak
	}
	f.Message += ")"
	return f
}

// saysNoMemory reports whether text is how programs say that memory ran out.
func saysNoMemory(text []byte) bool {
	for _, words := range []string{
		"MemoryError", "out of memory", "Out of memory", "OutOfMemory", "annot allocate", "bad_alloc", "ENOMEM", "emory exhausted",
		"nsufficient memory",
	} {
		if bytes.Contains(text, []byte(words)) {
			return true
		}
	}
	return false
}

// sizeText is a number of bytes for a person.
func sizeText(bytes int64) string {
	size, unit := float64(bytes), "B"
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if size < 1024 {
			break
		}
		size, unit = size/1024, u
	}
	return strconv.FormatFloat(size, 'g', 3, 64) + " " + unit
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
