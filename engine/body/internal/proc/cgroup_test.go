package proc

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fakeHost is a machine of plain files whose groups have what the kernel's have.
type fakeHost struct {
	*host
	t    *testing.T
	home string // folder of the group that the program is in
}

func newFakeHost(t *testing.T, root bool) *fakeHost {
	t.Helper()
	f := &fakeHost{t: t, host: &host{root: t.TempDir(), pid: 7, start: 100}}
	f.home = filepath.Join(f.root, "cg", "app.scope")
	f.host.mkdir, f.host.rmdir = f.make, os.RemoveAll
	f.statusOf = func(pid int) (status, bool) { return status{start: 50}, pid == 8 }
	f.put("proc/self/cgroup", "1:name=systemd:/x\n0::/user/app.scope\n")
	f.put("proc/self/mountinfo", "30 24 0:26 / /proc rw - proc proc rw\n31 24 0:27 /user /cg rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n")
	if err := os.Mkdir(filepath.Dir(f.home), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.make(f.home); err != nil {
		t.Fatal(err)
	}
	f.set("cgroup.procs", "7\n")
	f.set("cgroup.controllers", "cpu memory\n")
	if root {
		os.Remove(filepath.Join(f.home, "cgroup.type"))
	}
	return f
}

func (f *fakeHost) make(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"cgroup.procs", "cgroup.subtree_control", "cgroup.kill", "memory.max", "memory.swap.max", "memory.oom.group"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.type"), []byte("domain\n"), 0o600)
}

func (f *fakeHost) put(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		f.t.Fatal(err)
	}
}

// set writes a file of the program's own group.
func (f *fakeHost) set(name, text string) {
	f.t.Helper()
	rel, _ := filepath.Rel(f.root, f.home)
	f.put(filepath.Join(rel, name), text)
}

func (f *fakeHost) wants(name, want string) {
	f.t.Helper()
	raw, err := os.ReadFile(filepath.Join(f.home, name))
	if err != nil || string(raw) != want {
		f.t.Errorf("%s is %q, %v; want %q", name, raw, err, want)
	}
}

func TestGroupsCanBeHad(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fakeHost)
		want   string // of the error; "" for none
	}{
		"alone":          {func(*fakeHost) {}, ""},
		"version 1":      {func(f *fakeHost) { f.put("proc/self/cgroup", "4:memory:/x\n") }, "no control groups of version 2"},
		"mounted not":    {func(f *fakeHost) { f.put("proc/self/mountinfo", "30 24 0:26 / /proc rw - proc proc rw\n") }, "mounted nowhere"},
		"mounted beside": {func(f *fakeHost) { f.put("proc/self/cgroup", "0::/users/app.scope\n") }, "mounted nowhere"},
		"out of sight":   {func(f *fakeHost) { f.put("proc/self/cgroup", "0::/../app.scope\n") }, "mounted nowhere"},
		"no controller":  {func(f *fakeHost) { f.set("cgroup.controllers", "cpu memory2\n") }, "no memory controller"},
		"threaded":       {func(f *fakeHost) { f.set("cgroup.type", "threaded\n") }, `of the type "threaded"`},
		"others":         {func(f *fakeHost) { f.set("cgroup.procs", "7\n9\n") }, "other processes"},
		"others unseen":  {func(f *fakeHost) { f.set("cgroup.procs", "0\n7\n") }, "other processes"},
		"systemd's":      {func(f *fakeHost) { f.put("run/systemd/system/x", "") }, "Delegate=yes"},
		"no such file":   {func(f *fakeHost) { os.Remove(filepath.Join(f.home, "cgroup.subtree_control")) }, "may not be written to"},
	} {
		f := newFakeHost(t, false)
		c.change(f)
		p, err := f.place()
		switch {
		case c.want == "" && (err != nil || p.dir != f.home || p.path != "/user/app.scope" || p.root):
			t.Errorf("%s: %+v, %v", name, p, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	f := newFakeHost(t, true)
	f.set("cgroup.procs", "1\n7\n9\n")
	if p, err := f.place(); err != nil || !p.root {
		t.Errorf("in the root group: %+v, %v", p, err)
	}
}

// What is written where, from the start to the end.
func TestGroupsAreMadeAndRemoved(t *testing.T) {
	f := newFakeHost(t, false)
	for _, stale := range []string{"operon-8-50", "operon-8-49", "operon-9-50", "operon-x", "other"} {
		if err := f.make(filepath.Join(f.home, stale)); err != nil {
			t.Fatal(err)
		}
	}
	g, err := f.open(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(subgroups(f.home), " "); got != "operon-7-100 operon-8-50 operon-x other" {
		t.Errorf("the dead engines' groups are to go, and no others: %s", got)
	}
	f.wants("operon-7-100/engine/cgroup.procs", "7")
	f.wants("cgroup.subtree_control", "+memory")
	f.wants("operon-7-100/cgroup.subtree_control", "+memory")
	j, err := g.make("ab.c/d", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if j.path != "/user/app.scope/operon-7-100/job-ab.c_d-1" {
		t.Errorf("its path is %s", j.path)
	}
	f.wants("operon-7-100/job-ab.c_d-1/memory.max", "1048576")
	f.wants("operon-7-100/job-ab.c_d-1/memory.swap.max", "0")
	f.wants("operon-7-100/job-ab.c_d-1/memory.oom.group", "1")
	if got := jobGroups(f.home, "ab."); len(got) != 1 || got[0] != j.dir {
		t.Errorf("by its token %q is found", got)
	}
	if got := jobGroups(f.home, "b."); len(got) != 0 {
		t.Errorf("by another token %q is found", got)
	}
	if u := j.finish(); u.Killed != OOMNone || u.Peak != 0 {
		t.Errorf("%+v", u)
	}
	f.set("cgroup.procs", "")
	g.leave()
	f.wants("cgroup.procs", "7")
	f.wants("cgroup.subtree_control", "-memory")
	if got := strings.Join(subgroups(f.home), " "); got != "operon-8-50 operon-x other" {
		t.Errorf("left: %s", got)
	}
}

// At the root nobody moves.
func TestGroupsOfTheRoot(t *testing.T) {
	f := newFakeHost(t, true)
	f.set("cgroup.procs", "1\n7\n")
	g, err := f.open(nil)
	if err != nil {
		t.Fatal(err)
	}
	g.leave()
	f.wants("cgroup.procs", "1\n7\n")
	f.wants("cgroup.subtree_control", "+memory")
	if got := subgroups(f.home); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

func TestWhoRanOutOfMemory(t *testing.T) {
	f := newFakeHost(t, false)
	g, err := f.open(nil)
	if err != nil {
		t.Fatal(err)
	}
	for events, want := range map[string]OOM{
		"low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\n": OOMNone,
		"max 12\noom 3\noom_kill 0\n":                OOMNone,
		"max 12\noom 1\noom_kill 2\n":                OOMLimit,
		"max 0\noom 0\noom_kill 1\n":                 OOMMachine,
		"":                                           OOMNone,
	} {
		j, err := g.make("t", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		rel, _ := filepath.Rel(f.home, j.dir)
		f.set(filepath.Join(rel, "memory.events"), events)
		f.set(filepath.Join(rel, "memory.peak"), "4096\n")
		if u := j.finish(); u.Killed != want || u.Peak != 4096 {
			t.Errorf("%q: %+v, want %d", events, u, want)
		}
	}
}

func TestMountNames(t *testing.T) {
	if got := unescapeMount(`/a\040b\134c\x\04`); got != `/a b\c\x\04` {
		t.Errorf("%q", got)
	}
}

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
	if stay, _ := time.ParseDuration(os.Getenv("OPERON_TEST_STAY")); stay > 0 {
		time.Sleep(stay)
	}
	if taken[0] != 1 {
		t.Error("it is gone")
	}
}

// needGroups skips a test where the kernel's control groups can't be had, and
// checks that nothing is left of them.
func needGroups(t *testing.T) *Groups {
	t.Helper()
	before, _ := os.ReadFile("/proc/self/cgroup")
	g, err := OpenGroups(nil)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		own := g.own
		g.Close()
		if after, _ := os.ReadFile("/proc/self/cgroup"); string(after) != string(before) {
			t.Errorf("was in %s, is in %s", before, after)
		}
		if _, err := os.Stat(own); err == nil {
			t.Errorf("%s is left", own)
		}
	})
	return g
}

// eat is a script that takes so many MiB in each of some processes at once.
func eat(mib, processes int, stay time.Duration) string {
	self, _ := filepath.Abs(os.Args[0])
	one := "OPERON_TEST_EAT=" + strconv.Itoa(mib<<20) + " OPERON_TEST_STAY=" + stay.String() + " " + self + " -test.run='^TestEater$' >/dev/null & "
	return strings.Repeat(one, processes) + "wait"
}

// A limit is of all processes together, and who runs into it is told from others
// that were killed.
func TestGroupLimit(t *testing.T) {
	g := needGroups(t)
	s := openSlot(t)
	limited := func(script string) *Program {
		p := s.script(script)
		p.MaxMemory = 64 << 20
		return p
	}
	x, _ := run(t, s, limited(eat(40, 2, time.Minute)))
	if x.Status.Signal() != syscall.SIGKILL || x.OOM() != OOMLimit {
		t.Errorf("two that take 80 MiB together: %+v, %+v", x, x.Group)
	}
	if peak := x.PeakMemory(); peak != 0 && (peak < 60<<20 || peak > 65<<20) { // the kernel lets some pages through
		t.Errorf("the peak is %d", peak)
	}
	x, _ = run(t, s, limited(eat(16, 2, 0)))
	if x.Status.ExitStatus() != 0 || x.OOM() != OOMNone || x.Group == nil {
		t.Errorf("two that take 32 MiB together: %+v, %+v", x, x.Group)
	}
	if x, _ = run(t, s, limited("kill -9 $$")); x.Status.Signal() != syscall.SIGKILL || x.OOM() != OOMNone {
		t.Errorf("one that kills itself: %+v, %+v", x, x.Group)
	}
	if got := jobGroups(g.home, ""); len(got) != 0 {
		t.Errorf("groups that are over: %q", got)
	}
	p := limited("true")
	p.Path = "/bin/none"
	var start *StartError
	if _, err := s.Run(t.Context(), p); !errors.As(err, &start) || start.Errno != unix.ENOENT {
		t.Errorf("a program that is missing: %v", err)
	}
}

// What has left its process group, its environment and its pipes behind is still
// in the control group.
func TestGroupHoldsAll(t *testing.T) {
	needGroups(t)
	s := openSlot(t)
	p := s.script(`mkfifo f; setsid env -i /bin/sh -c 'echo $$; exec >/dev/null 2>&1; echo >f; exec /bin/sleep 300' & read x <f`)
	p.MaxMemory = 64 << 20
	x, out := run(t, s, p)
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil || x.Status.ExitStatus() != 0 {
		t.Fatalf("%q, %+v", out, x)
	}
	if st, ok := statusOf(pid); ok && st.state != 'Z' {
		t.Errorf("process %d is left", pid)
	}
}

// A server is limited likewise.
func TestGroupLimitsServer(t *testing.T) {
	needGroups(t)
	s := openSlot(t)
	v, err := s.Serve(&Program{
		Path: "/bin/sh", Argv: []string{"sh", "-c", eat(40, 2, time.Minute)}, Token: "server-1", MaxMemory: 64 << 20,
		Env: []string{"PATH=" + os.Getenv("PATH"), tokenName + "server-1"},
	}, discard{})
	if err != nil {
		t.Fatal(err)
	}
	<-v.Ended()
	if x, err := v.End(0); err != nil || x.OOM() != OOMLimit {
		t.Errorf("%+v, %v", x, err)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// What a killed engine left in a group is ended by the group alone, and the group
// goes.
func TestGroupedStrays(t *testing.T) {
	g := needGroups(t)
	dead := filepath.Join(g.home, "operon-1-999999999999")
	other := filepath.Join(dead, "job-other.1-1")
	job := filepath.Join(dead, "job-mine.1-2")
	for _, dir := range []string{dead, other, job} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = g.host.remove(dead) })
	sleeper := func(dir string) (pid int) {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		pid, err = syscall.ForkExec("/bin/sleep", []string{"sleep", "300"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}})
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	mine, others := sleeper(job), sleeper(other)
	ended, err := EndStrays(t.Context(), filepath.Join(t.TempDir(), "none"), "mine.")
	if err != nil || len(ended) != 1 || ended[0].PID != mine {
		t.Errorf("%+v, %v; want %d", ended, err, mine)
	}
	_, _ = wait4(mine, nil, nil)
	if st, ok := statusOf(others); !ok || st.state == 'Z' {
		t.Error("another engine's was ended")
	}
	_ = unix.Kill(others, unix.SIGKILL)
	_, _ = wait4(others, nil, nil)
	if _, err := EndStrays(t.Context(), filepath.Join(t.TempDir(), "none"), "mine."); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); err == nil {
		t.Error("the dead engine's groups are left")
	}
}
