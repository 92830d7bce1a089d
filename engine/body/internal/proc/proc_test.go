package proc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openSlot(t *testing.T) *Slot {
	t.Helper()
	s, err := Open(t.TempDir(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *Slot) script(text string) *Program {
	token := strings.ReplaceAll(s.dir, "/", "-")
	return &Program{
		Path: "/bin/sh", Argv: []string{"sh", "-c", text}, Env: []string{"PATH=" + os.Getenv("PATH"), tokenName + token},
		Dir: s.dir, Token: token, Stdin: s.Null(), Grace: time.Minute,
	}
}

func run(t *testing.T, s *Slot, p *Program) (*Exit, string) {
	t.Helper()
	x, err := s.Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Stdout().Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Clean(); err != nil {
		t.Fatal(err)
	}
	return x, string(out)
}

// Who holds the pipes of an earlier program, and could not be found, must not
// write into those of the next.
func TestFreshFilesAfterAStranger(t *testing.T) {
	s := openSlot(t)
	old, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(s.out.writeFD), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	s.dirty = true
	run(t, s, s.script("true"))
	if _, err := old.WriteString("not mine"); !errors.Is(err, syscall.EPIPE) {
		t.Fatalf("the old pipe is still in use: %v", err)
	}
	if _, out := run(t, s, s.script("echo mine")); out != "mine\n" {
		t.Errorf("%q", out)
	}
}

// What is kept of a long log is its head and its tail, and no more is stored.
func TestHeadAndTail(t *testing.T) {
	for _, limit := range []int64{1, 2, 7, 100, memLimit, 2*memLimit + 1} {
		for _, size := range []int64{0, 1, limit - 1, limit, limit + 1, 3*limit + 5} {
			c := Capture{limit: limit, dir: t.TempDir(), file: -1}
			all := make([]byte, size)
			for i := range all {
				all[i] = byte(i * 7 / 3)
			}
			for rest, n := all, 1; len(rest) > 0; n = n*3 + 1 {
				n = min(n, len(rest))
				if err := c.write(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			head := min(limit/2, size)
			tail := min(limit-limit/2, size-head)
			kept, ends := make([]byte, head), make([]byte, tail)
			if _, err := c.ReadAt(kept, 0); err != nil || !bytes.Equal(kept, all[:head]) {
				t.Errorf("limit %d, size %d: head is wrong (%v)", limit, size, err)
			}
			if _, err := c.ReadAt(ends, size-tail); err != nil || !bytes.Equal(ends, all[size-tail:]) {
				t.Errorf("limit %d, size %d: tail is wrong (%v)", limit, size, err)
			}
			if c.Size != size || c.stored() > limit {
				t.Errorf("limit %d, size %d: size %d, %d stored", limit, size, c.Size, c.stored())
			}
			c.reset()
		}
	}
}

// stored is how many bytes the output takes.
func (c *Capture) stored() int64 {
	if c.file < 0 {
		return int64(len(c.mem))
	}
	var st unix.Stat_t
	if unix.Fstat(c.file, &st) != nil {
		return -1
	}
	return st.Size
}

// Output comes out whole, whether it fits into the pipe, needs reading along, or
// goes to disk; and whether it is printed at once or bit by bit.
func TestOutputOfAllSizes(t *testing.T) {
	s := openSlot(t)
	for _, script := range []string{
		"head -c 100 /dev/zero", "head -c 65536 /dev/zero", "head -c 65537 /dev/zero", "head -c 1048577 /dev/zero",
		"sleep 0.05; head -c 3000000 /dev/zero", "head -c 70000 /dev/zero; sleep 0.05; head -c 10 /dev/zero; sleep 0.05; head -c 65536 /dev/zero",
	} {
		want := 0
		for _, word := range strings.Fields(script) {
			if n, err := strconv.Atoi(word); err == nil {
				want += n
			}
		}
		if _, out := run(t, s, s.script(script)); len(out) != want || strings.Trim(out, "\x00") != "" {
			t.Errorf("%s: %d bytes, want %d", script, len(out), want)
		}
	}
}

// Files of that name are pipes as in a terminal's shell, not files that each
// redirection empties.
func TestOutputByName(t *testing.T) {
	s := openSlot(t)
	if _, err := s.Run(t.Context(), s.script("echo a; echo b >/dev/stdout; echo c >/dev/stderr; echo d | tee /dev/stderr; echo e >&2")); err != nil {
		t.Fatal(err)
	}
	out, _ := s.Stdout().Bytes()
	errs, _ := s.Stderr().Bytes()
	if string(out) != "a\nb\nd\n" || string(errs) != "c\nd\ne\n" {
		t.Errorf("%q, %q", out, errs)
	}
}

func TestSpoolThatFails(t *testing.T) {
	s := openSlot(t)
	s.out.dir = filepath.Join(t.TempDir(), "nothing")
	if _, err := s.Run(t.Context(), s.script("yes")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if err := s.Clean(); err != nil {
		t.Fatal(err)
	}
	if _, out := run(t, s, s.script("echo x")); out != "x\n" {
		t.Errorf("%q", out)
	}
}

// Where the kernel does not list a thread's children, looking at every process
// finds the strays just as well.
func TestStraysWithoutChildrenFile(t *testing.T) {
	s := openSlot(t)
	closeFD(&s.orphans.fd)
	p := s.script("sleep 300 & setsid -f sleep 300; echo x; sleep 0.05")
	if _, out := run(t, s, p); out != "x\n" {
		t.Errorf("%q", out)
	}
	for _, pid := range processes() {
		if hasToken(pid, p.Token, false) {
			t.Errorf("process %d is left: %s", pid, commandOf(pid))
		}
	}
}

// A process without any variables has an environment, which is empty; a dead one
// has none.
func TestEmptyEnvironment(t *testing.T) {
	c := exec.Command("sleep", "300")
	c.Env = []string{} // nil would be ours
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	if env := environOf(c.Process.Pid); len(env) > 0 {
		t.Errorf("it has %q", env)
	}
	for _, pid := range []int{c.Process.Pid, os.Getpid()} {
		if st, ok := statusOf(pid); !ok || !st.hasEnviron {
			t.Errorf("process %d: %+v", pid, st)
		}
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := waitFor(c.Process.Pid, unix.WEXITED|unix.WNOWAIT); err != nil {
		t.Fatal(err)
	}
	if st, ok := statusOf(c.Process.Pid); !ok || st.hasEnviron || len(environOf(c.Process.Pid)) > 0 {
		t.Errorf("dead: %+v", st)
	}
}

// A child of the embedding program that has nothing to do with jobs is left
// alone, running or dead.
func TestOthersChildrenAreLeftAlone(t *testing.T) {
	s := openSlot(t)
	alive := exec.Command("sleep", "300")
	alive.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	dead := exec.Command("sh", "-c", "exit 7")
	for _, c := range []*exec.Cmd{alive, dead} {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := waitFor(dead.Process.Pid, unix.WEXITED|unix.WNOWAIT); err != nil {
		t.Fatal(err)
	}
	var x Exit
	groups, f := map[int]bool{}, family{token: "token", pipes: []int{s.out.writeFD, s.err.writeFD}}
	if got := s.orphans.end(dead.Process.Pid, f, groups, &x); got != orphanGone {
		t.Errorf("the dead one: %d", got)
	}
	if got := s.orphans.end(alive.Process.Pid, f, groups, &x); got != orphanStrange {
		t.Errorf("the living one: %d", got)
	}
	if err := dead.Wait(); err == nil || dead.ProcessState.ExitCode() != 7 {
		t.Errorf("its status was taken: %v", err)
	}
	if err := alive.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("it was killed: %v", err)
	}
	_ = alive.Process.Kill()
	_ = alive.Wait()
}

// A program must not be stopped for ever because it asks the terminal: it has
// none, even if we do.
func TestNoTerminal(t *testing.T) {
	if os.Getenv("OPERON_TEST_TTY") != "" {
		s := openSlot(t)
		if tty, err := os.Open("/dev/tty"); err != nil {
			t.Fatalf("this test has no terminal: %v", err)
		} else {
			tty.Close()
		}
		if x, _ := run(t, s, s.script("read line </dev/tty")); x.Status.ExitStatus() == 0 {
			t.Error("the program has a terminal")
		}
		return
	}
	master, slave := openTerminal(t)
	defer master.Close()
	defer slave.Close()
	c := exec.Command(os.Args[0], "-test.run=^TestNoTerminal$")
	c.Env = append(os.Environ(), "OPERON_TEST_TTY=1")
	var out bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = slave, &out, &out
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := c.Run(); err != nil {
		t.Errorf("%v\n%s", err, out.Bytes())
	}
}

func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

func TestRunningFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "running")
	r, err := OpenRunning(path, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.set(0, 100, 5, 6, "a"), r.set(2, 102, 7, 8, strings.Repeat("x", 200)), r.set(1, 101, 1, 1, "b"), r.clear(1)); err != nil {
		t.Fatal(err)
	}
	got, err := readRunning(path)
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if e := got[0]; e.pid != 100 || e.earliest != 5 || e.latest != 6 || e.token != "a" || e.boot != r.boot {
		t.Errorf("%+v", e)
	}
	if e := got[1]; e.pid != 102 || e.token != strings.Repeat("x", maxToken) {
		t.Errorf("%+v", e)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenRunning(path, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if info, err := os.Stat(path); err != nil || info.Size() != 2*entrySize || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if got, err := readRunning(path); err != nil || len(got) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzRunningFile(f *testing.F) {
	f.Add(make([]byte, entrySize))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "running")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		entries, err := readRunning(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.pid <= 1 {
				t.Errorf("an entry for process %d", e.pid)
			}
		}
	})
}

// What a running file says is believed only if process id, start time and boot
// agree.
func TestEndStraysBelievesNoNumberAlone(t *testing.T) {
	c := exec.Command("sleep", "300")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	before := bootTicks()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	after := bootTicks()
	ended := make(chan struct{})
	go func() {
		_ = c.Wait() // killed
		close(ended)
	}()
	path := filepath.Join(t.TempDir(), "running")
	r, err := OpenRunning(path, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	note := func(from, to uint64, token string) {
		t.Helper()
		if err := r.set(0, c.Process.Pid, from, to, token); err != nil {
			t.Fatal(err)
		}
	}
	spared := func(what string) {
		t.Helper()
		if got, err := EndStrays(t.Context(), path, "no-such-token-"); err != nil || len(got) > 0 {
			t.Errorf("%s: ended %+v, %v", what, got, err)
		}
	}
	note(before-2000, before-1000, "x")
	spared("it started later")
	note(after+1000, after+2000, "x")
	spared("it started earlier")
	r.boot[0] ^= 1
	note(before, after, "x")
	spared("another boot")
	r.boot[0] ^= 1
	note(before, after, "x")
	damage(t, path)
	spared("a damaged entry")
	note(before, after, "x")
	got, err := EndStrays(t.Context(), path, "no-such-token-")
	if err != nil || len(got) != 1 || got[0].PID != c.Process.Pid || got[0].Command != "sleep 300" {
		t.Errorf("ended %+v, %v", got, err)
	}
	<-ended
}

// damage changes the start time of the first entry.
func damage(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint64(raw[4:], 0)
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestUnlinkedFiles(t *testing.T) {
	dir := t.TempDir()
	fd, err := openUnlinked(dir, unix.O_RDWR|unix.O_APPEND|unix.O_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte("abc")); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
	if linkTo(fd, filepath.Join(dir, "x")) == nil {
		t.Error("a file without links was linked")
	}
	if got, err := (&Capture{file: fd, Size: 3}).Bytes(); err != nil || string(got) != "abc" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestUsage(t *testing.T) {
	s := openSlot(t)
	x, _ := run(t, s, s.script("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"))
	if x.CPU <= 0 || x.CPU > x.Wall+time.Second || x.Start.IsZero() {
		t.Errorf("%+v", x)
	}
	x, _ = run(t, s, s.script("head -c 150000000 /dev/zero | tail -c 149999999 >/dev/null"))
	if x.MaxRSS < 100<<20 {
		t.Errorf("a process with 150 MB: %d bytes", x.MaxRSS)
	}
}
