package body

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"operon/spec/value"
)

// alive lists the processes that carry a job's token, by a look of the test's
// own.
func alive(token string) []string {
	var out []string
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		env, err := os.ReadFile(name)
		if err == nil && bytes.Contains(env, []byte("OPERON_JOB="+token+"\x00")) {
			cmd, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
			out = append(out, string(bytes.ReplaceAll(cmd, []byte{0}, []byte{' '})))
		}
	}
	return out
}

// children counts this process's children, of all threads, dead ones included.
func children(t testing.TB) int {
	t.Helper()
	n := 0
	names, _ := filepath.Glob("/proc/self/task/*/children")
	for _, name := range names {
		pids, err := os.ReadFile(name)
		if err == nil {
			n += len(bytes.Fields(pids))
		}
	}
	return n
}

func openFiles(t testing.TB) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// endsByItself are the cases in which a process of a group that nobody knows is
// dead before anybody looks: such are reaped when they have been dead a while.
var endsByItself = map[string]bool{"ended by itself before": true, "sessions in a session": true}

// Whatever a body leaves running, its job ends with its leader, keeps what was
// printed, and nothing is left.
func TestNothingIsLeftRunning(t *testing.T) {
	for name, body := range map[string]string{
		"background":             "sleep 300 & echo x",
		"double fork":            "(sleep 300 & sleep 300 &) ; echo x",
		"ignores everything":     "(trap '' TERM INT HUP; sleep 300; sleep 300) & echo x",
		"new session":            "setsid sleep 300 & echo x; sleep 0.05",
		"new session, forked":    "setsid -f sh -c 'sleep 300 & sleep 300'; echo x; sleep 0.05",
		"sessions in a session":  "setsid -f sh -c 'setsid -f sleep 300; setsid -f sh -c \"setsid -f sleep 300; sleep 300\"'; echo x; sleep 0.1",
		"closed its files":       "setsid -f sleep 300 >/dev/null 2>&1 </dev/null; echo x; sleep 0.05",
		"cleared environment":    "env -i setsid -f sleep 300; echo x; sleep 0.05",
		"stopped in background":  "sh -c 'kill -STOP $$' & echo x; sleep 0.05",
		"job control":            "set -m; sleep 300 & echo x",
		"ended by itself before": "(true &) ; setsid -f true; echo x; sleep 0.05",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, script(body))
			before := children(t)
			job := b.job()
			res, f := b.try(t.Context(), job)
			if f != nil {
				t.Fatal(f)
			}
			if got := string(res.Items[0].JSON); got != `"x"` {
				t.Errorf("output %s", got)
			}
			if left := alive(job.Token); len(left) > 0 {
				t.Errorf("left running: %q", left)
			}
			if n := children(t); n > before && !endsByItself[name] {
				t.Errorf("%d children, %d before", n, before)
			}
			b.task.Body.Script = "echo next"
			if got := b.ok(); got[0] != `"next"` {
				t.Errorf("the next job printed %s", got)
			}
		})
	}
}

func TestFloodOfOutput(t *testing.T) {
	b := newBench(t, script("yes"))
	b.cfg.MaxOutput = 1 << 20
	job := b.job()
	b.fails(KindOutput, job, "more than 1048576 bytes", "--max-output")
	if left := alive(job.Token); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
	// A short program is over before anybody looks.
	b.task.Body.Script = "head -c 1048577 /dev/zero"
	b.fails(KindOutput, b.job(), "more than 1048576 bytes")
	b.task.Body.Script = "yes x | head -c 1048576"
	b.ok()
}

func TestFloodOfStderr(t *testing.T) {
	b := newBench(t, script("echo first >&2; yes | head -c 30000000 >&2; echo last >&2; echo out"))
	b.cfg.LogLimit = 1 << 16
	job := b.job()
	res, f := b.try(t.Context(), job)
	if f != nil {
		t.Fatal(f)
	}
	log, err := os.ReadFile(job.Log)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(log)) != res.Logged || len(log) > 1<<16+200 {
		t.Errorf("log of %d bytes, said to be %d", len(log), res.Logged)
	}
	if !bytes.HasPrefix(log, []byte("first\ny\n")) || !bytes.HasSuffix(log, []byte("y\nlast\n")) {
		t.Error("head or tail is missing")
	}
	if want := fmt.Sprintf("%d bytes left out", 30000000+6+5-1<<16); !bytes.Contains(log, []byte(want)) {
		t.Errorf("log does not say %q", want)
	}
}

func TestStdinThatNobodyReads(t *testing.T) {
	big := strings.Repeat("x", 10<<20)
	b := newBench(t, script("echo done", "word"))
	if got := b.ok(text(big)); got[0] != `"done"` {
		t.Errorf("%s", got)
	}
	b.task.Body.Script = "wc -c"
	if got := b.ok(text(big)); got[0] != `"10485760"` {
		t.Errorf("%s", got)
	}
	if got := b.ok(text("small")); got[0] != `"5"` {
		t.Errorf("after a large one: %s", got)
	}
	b.task.Body.Script = "head -c 2; exec <&-; echo done"
	if got := b.ok(text("small")); got[0] != `"smdone"` {
		t.Errorf("%s", got)
	}
}

func TestRawBytes(t *testing.T) {
	b := newBench(t, script(`printf 'a\0\033[31m\377\n' >&2; echo '{}'`))
	job := b.job()
	if _, f := b.try(t.Context(), job); f != nil {
		t.Fatal(f)
	}
	if log, _ := os.ReadFile(job.Log); string(log) != "a\x00\x1b[31m\xff\n" {
		t.Errorf("log %q", log)
	}
	b.task.Body.Script = `printf 'a\0\033[31m'`
	if got := b.ok(); got[0] != `"a\u0000\u001b[31m"` {
		t.Errorf("%s", got)
	}
	b.task.Body.Script = `printf 'fine\nab\377cd\n'`
	b.fails(KindOutput, b.job(), "line 2, byte 3", "UTF-8", `\xff`, "format: file")
}

func TestTempDirIsEmptyForEachJob(t *testing.T) {
	b := newBench(t, script(`ls -A "$TMPDIR"; mkdir -p "$TMPDIR/a/b"; echo x >"$TMPDIR/a/b/c"; chmod 0 "$TMPDIR/a"`))
	for range 3 {
		if got := b.ok(); got[0] != `""` {
			t.Fatalf("found %s", got)
		}
	}
	b.task.Body.Script = `rm -rf "$TMPDIR"`
	b.ok()
	b.task.Body.Script = `ls -A "$TMPDIR"; touch "$TMPDIR/x"; rm "$TMPDIR/x"; chmod 500 "$TMPDIR"`
	b.ok()
	b.task.Body.Script = `stat -c %a "$TMPDIR"`
	if got := b.ok(); got[0] != `"700"` {
		t.Errorf("%s", got)
	}
}

// settles waits until something holds, which is only not yet so, a minute at most.
func settles(holds func() bool) {
	for began := time.Now(); !holds() && time.Since(began) < time.Minute; {
		time.Sleep(time.Millisecond)
	}
}

func TestNothingLeaks(t *testing.T) {
	b := newBench(t, script(`echo "$a"; echo x >&2; read -r line || :`, "a", "b"))
	b.ok(text("a"), text("b"))
	files, kids, routines := openFiles(t), children(t), runtime.NumGoroutine()
	for i := range 1000 {
		b.ok(text(strconv.Itoa(i)), text("b"))
	}
	settles(func() bool { return openFiles(t) <= files && children(t) <= kids && runtime.NumGoroutine() <= routines })
	if n := openFiles(t); n > files {
		t.Errorf("%d open files, %d before", n, files)
	}
	if n := children(t); n > kids {
		t.Errorf("%d children, %d before", n, kids)
	}
	if n := runtime.NumGoroutine(); n > routines {
		t.Errorf("%d goroutines, %d before", n, routines)
	}
	if names, err := os.ReadDir(filepath.Join(b.dir, "jobs")); err == nil && len(names) > 0 {
		t.Errorf("%d folders of jobs are left", len(names))
	}
}

// Several slots at once: no job gets another's output, end or strays.
func TestSlotsSideBySide(t *testing.T) {
	b := newBench(t, script(`(setsid -f sleep 300 >&2); sleep 0.0$n; echo $n`, "n"))
	r, err := New(b.cfg, b.task)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	for slot := range 4 {
		go func() {
			done <- func() error {
				s, err := NewSlot(SlotOptions{Index: slot + 1, Dir: filepath.Join(b.dir, "slots")})
				if err != nil {
					return err
				}
				for i := range 10 {
					n := strconv.Itoa(slot*10 + i)
					job := &Job{Attempt: 1, Token: b.dir + n, Args: []Arg{text(n)}, Dir: filepath.Join(b.dir, n)}
					res, err := r.Run(t.Context(), s, job)
					if err != nil {
						return err
					}
					if got := string(res.Items[0].JSON); got != `"`+n+`"` {
						return fmt.Errorf("job %s printed %s", n, got)
					}
					if left := alive(job.Token); len(left) > 0 {
						return fmt.Errorf("job %s left %q", n, left)
					}
				}
				return s.Close()
			}()
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestPanicsStayInside(t *testing.T) {
	torn := Arg{Slice: &value.Slice{Lens: [][]uint32{{5}}}} // says five, has none
	b := newBench(t, script("true", "word", "other"))
	b.fails(KindInternal, b.job(text("x")), "bug")
	b.fails(KindInternal, b.job(torn, torn), "panic", "bug")
	task := filterTask(".", "word")
	j := newBench(t, task)
	j.fails(KindInternal, j.job(torn), "panic", "bug")
}
