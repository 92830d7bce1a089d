package body

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"operon/engine/body/internal/proc"
	"operon/spec"
)

// TestEater is no test: run with a number of bytes it takes them, and stays.
func TestEater(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("OPERON_TEST_EAT"))
	if err != nil {
		t.Skip("takes memory for other tests")
	}
	taken := make([]byte, n)
	for i := 0; i < n; i += 4096 {
		taken[i] = 1
	}
	time.Sleep(time.Minute) // the kernel ends it
	if taken[0] != 1 {
		t.Error("it is gone")
	}
}

// twoEat is a script whose two children take 40 MiB each.
func twoEat() string {
	self, _ := filepath.Abs(os.Args[0])
	one := "OPERON_TEST_EAT=" + strconv.Itoa(40<<20) + " " + self + " -test.run='^TestEater$' >/dev/null & "
	return one + one + "wait"
}

// limitGroups skips a test where there are no control groups to be had.
func (b *bench) limitGroups() {
	b.t.Helper()
	var log bytes.Buffer
	b.running.LimitGroups(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if log.Len() > 0 {
		b.t.Skip(log.String())
	}
}

// Processes that have more than the limit only together are ended with all of
// their job, which says why.
func TestMemoryOfAJobTogether(t *testing.T) {
	task := script(twoEat())
	task.Mem = 64 << 20
	b := newBench(t, task)
	b.limitGroups()
	f := b.fails(KindResources, b.job(), "out of memory: limit 64 MiB")
	if !errors.Is(f, ErrMemory) || f.Usage.MaxRSS > 65<<20 {
		t.Errorf("%+v", f)
	}
	killed := script("kill -9 $$")
	killed.Mem = 64 << 20
	b = newBench(t, killed)
	b.limitGroups()
	b.fails(KindSignal, b.job(), "killed by signal SIGKILL")
}

// A worker that is ended for it takes the jobs with it that it held.
func TestMemoryOfAWorkerTogether(t *testing.T) {
	worker := workerTask([]string{"sh", "-c"})
	worker.Body.Argv = append(worker.Body.Argv, spec.Template{{Text: "read line; " + twoEat()}})
	worker.Mem = 64 << 20
	w := newWorkers(t, worker)
	w.limitGroups()
	w.batch(t.Context(), "").wants(t, "resources: the worker died: out of memory: limit 64 MiB…")
}

// What is said of how a job in a control group ended.
func TestEndsInAGroup(t *testing.T) {
	const killed, exit1, exit0 = syscall.WaitStatus(syscall.SIGKILL), syscall.WaitStatus(1 << 8), syscall.WaitStatus(0)
	task := script("true")
	task.Mem = 512 << 20
	c, err := newCommon(&Config{}, task)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		status syscall.WaitStatus
		use    *proc.GroupUse
		want   string
		own    bool
	}{
		"its limit":            {killed, &proc.GroupUse{Peak: 512 << 20, Killed: proc.OOMLimit}, "resources: out of memory: limit 512 MiB, peak 512 MiB", true},
		"a child at its limit": {exit1, &proc.GroupUse{Peak: 512 << 20, Killed: proc.OOMLimit}, "resources: out of memory: limit 512 MiB, peak 512 MiB", true},
		"no peak is known":     {killed, &proc.GroupUse{Killed: proc.OOMLimit}, "resources: out of memory: limit 512 MiB", true},
		"the machine":          {killed, &proc.GroupUse{Peak: 100 << 20, Killed: proc.OOMMachine}, "resources: out of memory: limit 512 MiB, peak 100 MiB; it was the machine", false},
		"somebody":             {killed, &proc.GroupUse{Peak: 512 << 20}, "signal: killed by signal SIGKILL", false},
		"no group":             {killed, nil, "signal: killed by signal SIGKILL", false},
		"it went on":           {exit0, &proc.GroupUse{Peak: 512 << 20, Killed: proc.OOMLimit}, "", false},
		"many files":           {exit1, &proc.GroupUse{Peak: 512 << 20}, "exit: exit status 1", false},
	} {
		exit := &proc.Exit{Status: x.status, Group: x.use}
		f := c.ended(exit)
		got := ""
		if f != nil {
			f = c.orMemory(f, exit, nil)
			got = string(f.Kind) + ": " + f.Message
		}
		if !strings.HasPrefix(got, x.want) || (got == "") != (x.want == "") || f != nil && errors.Is(f, ErrMemory) != x.own {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}
