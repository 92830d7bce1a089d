package engine_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"operon/engine"
)

// serving is a pipeline of a worker over n words.
func serving(n int, worker string) string {
	return fmt.Sprintf(`pipeline: serving
tasks:
  numbers:
    out: Number<i>
    source: {count: %d}
  words:
    in: Number
    for: i
    out: Word
    jq: '"word \(.)"'
  shout:
    in: Word
    for: i
    out: Shout
    worker: %s
`, n, worker)
}

func upperPy(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("../testdata/workers/upper.py")
	if err != nil {
		t.Fatal(err)
	}
	return "[python3, " + path + "]"
}

func TestWorkerServesARun(t *testing.T) {
	const n = 300
	p := newProject(t, serving(n, upperPy(t)))
	if s := p.mustRun(engine.Options{Jobs: 2}); s.Executed != 2*n+1 || s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
	lines := strings.Split(strings.TrimSpace(p.values("Shout")), "\n")
	if len(lines) != n || lines[7] != `i=7 "WORD 7"` {
		t.Errorf("%d values, %q", len(lines), lines[min(7, len(lines)-1)])
	}
	if s := p.mustRun(engine.Options{Jobs: 2}); s.Executed != 0 {
		t.Errorf("the second run executed %d", s.Executed)
	}
}

const failing = `pipeline: failing
defaults: {on_error: continue}
tasks:
  numbers:
    out: Number<i>
    source: {count: 40}
  work:
    in: Number
    for: i
    out: Work
    retry: {times: 2, backoff: 1ms}
    timeout: 5m
    worker:
      concurrency: 4
      argv: [python3, -S, work.py]
`

const failingWorker = `import json, os, sys
seen = {}
for line in sys.stdin:
    job = json.loads(line); n = job["args"]["number"]
    mark = "tried-%d" % n
    first = not os.path.exists(mark)
    open(mark, "a").close()
    if n % 10 == 3 and first:
        os._exit(1)
    if n % 10 == 5:
        print(json.dumps({"id": job["id"], "error": "no %d" % n, "retry": False}), flush=True); continue
    if n % 10 == 7 and first:
        print("not protocol", flush=True); continue
    print(json.dumps({"id": job["id"], "value": n * n}), flush=True)
`

// Deaths and failures cost the jobs that they are about their attempts, and every
// other job ends as it should.
func TestWorkerFails(t *testing.T) {
	t.Parallel()
	p := newProject(t, failing)
	if err := os.WriteFile(filepath.Join(p.dir, "work.py"), []byte(failingWorker), 0o644); err != nil {
		t.Fatal(err)
	}
	s := p.mustRun(engine.Options{Jobs: 2})
	got := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(p.values("Work")), "\n") {
		got[line] = true
	}
	for n := range 40 {
		want := fmt.Sprintf("i=%d %d", n, n*n)
		if n%10 != 5 && !got[want] {
			t.Errorf("%s is missing", want)
		}
	}
	if len(s.Failures) != 1 || s.Failures[0].Jobs != 4 || s.Failures[0].Kind != "exit" {
		t.Errorf("failures: %+v", s.Failures)
	}
}

// A worker that has served all of its jobs does not wait for the end of the run.
func TestWorkerEndsWithItsTask(t *testing.T) {
	p := newProject(t, `pipeline: ends
tasks:
  word:
    out: Word
    worker: [sh, -c, 'echo "{{\"id\":1,\"value\":\"w\"}}"; cat >/dev/null; echo ended >.ended; mv .ended ended']
  after:
    in: Word
    out: After
    run: i=0; while ! test -e ended; do sleep 0.05; i=$((i+1)); test $i -lt 2400; done; cat ended
`)
	p.mustRun(engine.Options{Jobs: 1})
	if got := p.values("After"); got != "\"ended\"\n" {
		t.Errorf("after is %q", got)
	}
}

// Jobs that have ended are told of while their neighbours still run.
func TestWorkerResultsDoNotWait(t *testing.T) {
	p := newProject(t, `pipeline: early
tasks:
  numbers:
    out: Number<i>
    source: {count: 2}
  work:
    in: Number
    for: i
    out: Work
    worker:
      concurrency: 2
      argv: [python3, -S, work.py]
  first:
    in: Work
    for: i
    out: First
    run: cat; touch seen
`)
	worker := `import json, os, sys, time
for line in sys.stdin:
    job = json.loads(line); n = job["args"]["number"]
    if n == 1:
        limit = time.time() + 120
        while not os.path.exists("seen") and time.time() < limit: time.sleep(0.01)
    print(json.dumps({"id": job["id"], "value": os.path.exists("seen")}), flush=True)
`
	if err := os.WriteFile(filepath.Join(p.dir, "work.py"), []byte(worker), 0o644); err != nil {
		t.Fatal(err)
	}
	p.mustRun(engine.Options{Jobs: 2})
	if got := p.values("Work"); got != "i=0 false\ni=1 true\n" {
		t.Errorf("the values are %q", got)
	}
}

// A worker does not outlive an engine that is killed, and what it was doing is
// done by the next.
func TestWorkerDiesWithTheEngine(t *testing.T) {
	p := newProject(t, `pipeline: killed
tasks:
  numbers:
    out: Number<i>
    source: {count: 20}
  work:
    in: Number
    for: i
    out: Work
    worker: [python3, -S, work.py]
`)
	worker := `import json, os, sys, time
first = not os.path.exists("pid")
for line in sys.stdin:
    job = json.loads(line); n = job["args"]["number"]
    if n == 7 and first:
        with open("pid.new", "w") as f: f.write(str(os.getpid()))
        os.rename("pid.new", "pid")
        time.sleep(300)
    print(json.dumps({"id": job["id"], "value": n}), flush=True)
`
	if err := os.WriteFile(filepath.Join(p.dir, "work.py"), []byte(worker), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "OPERON_TEST_PIPELINE="+p.file, "OPERON_TEST_DIR="+p.dir, "OPERON_TEST_KILL_AT=0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid []byte
	await(t, "the worker begins", func() bool {
		pid, _ = os.ReadFile(filepath.Join(p.dir, "pid"))
		return len(pid) > 0
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	await(t, "the worker is gone", func() bool {
		status, err := os.ReadFile("/proc/" + string(pid) + "/stat")
		return err != nil || strings.Contains(string(status), ") Z ")
	})
	if s := p.mustRun(engine.Options{Jobs: 2}); s.State != engine.StateComplete || s.Executed > 20 {
		t.Errorf("%+v", s)
	}
	if lines := strings.Count(p.values("Work"), "\n"); lines != 20 {
		t.Errorf("%d values", lines)
	}
}

// await waits until something holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(2 * time.Minute); !holds(); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// BenchmarkWorker runs a pipeline of OPERON_JOBS jobs (20,000 by default) of a
// worker, and reports jobs a second, durable.
func BenchmarkWorker(b *testing.B) {
	n := 20_000
	if text := os.Getenv("OPERON_JOBS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	goUpper := filepath.Join(b.TempDir(), "upper")
	if out, err := exec.Command("go", "build", "-o", goUpper, "../testdata/workers/upper").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for name, worker := range map[string]string{
		"python":    upperPy(b),
		"go":        "[" + goUpper + "]",
		"python-32": "{concurrency: 32, argv: " + upperPy(b) + "}",
		"go-32":     "{concurrency: 32, argv: [" + goUpper + "]}",
	} {
		b.Run(name, func(b *testing.B) {
			var took time.Duration
			for range b.N {
				p := newProject(b, strings.Replace(serving(n, worker), "jq: '\"word \\(.)\"'", "jq: 'tostring'", 1))
				p.mustRun(engine.Options{Until: []string{"words"}})
				start := time.Now()
				p.mustRun(engine.Options{})
				took += time.Since(start)
			}
			b.ReportMetric(float64(n*b.N)/took.Seconds(), "jobs/s")
		})
	}
}
