package body

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"operon/spec"
	"operon/spec/value"
)

// workerTask is a task with a worker; its inputs are those named.
func workerTask(argv []string, args ...string) *spec.TaskSpec {
	t := &spec.TaskSpec{Body: spec.Body{Kind: spec.BodyWorker, Concurrency: 1}}
	for _, a := range argv {
		t.Body.Argv = append(t.Body.Argv, spec.ParseTemplate(a))
	}
	withInputs(t, args, args)
	t.Mentions = nil
	return t
}

// pyWorker is a worker whose jobs are done by some lines of Python: they find
// the request as job, and reply with say(...).
func pyWorker(lines string, args ...string) *spec.TaskSpec {
	t := workerTask([]string{"python3", "-S", "-c"}, args...)
	t.Body.Argv = append(t.Body.Argv, spec.Template{{Text: `
import json, os, sys, time
def say(**answer):
    sys.stdout.write(json.dumps(answer) + "\n"); sys.stdout.flush()
held = []
for line in sys.stdin:
    job = json.loads(line); id = job["id"]; word = job["args"].get("word")
` + "    " + strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n    ") + "\n"}})
	return t
}

// outcomes is a batch that keeps what comes of it.
type outcomes struct {
	results  []*Result
	failures []*Failure
	order    []int
	stop     func() bool
	more     func(room int, wake func()) []*Job
	idle     int
}

func newOutcomes(n int) *outcomes {
	return &outcomes{results: make([]*Result, n), failures: make([]*Failure, n)}
}

func (o *outcomes) Stopped() bool { return o.stop != nil && o.stop() }
func (o *outcomes) Idle()         { o.idle++ }
func (o *outcomes) More(room int, wake func()) []*Job {
	if o.more == nil {
		return nil
	}
	jobs := o.more(room, wake)
	o.results = append(o.results, make([]*Result, len(jobs))...)
	o.failures = append(o.failures, make([]*Failure, len(jobs))...)
	return jobs
}
func (o *outcomes) Done(i int, res *Result, f *Failure) {
	if o.results[i] != nil || o.failures[i] != nil || (res == nil) == (f == nil) {
		panic(fmt.Sprintf("job %d is done twice, or not at all: %v", i, f))
	}
	o.results[i], o.failures[i] = res, f
	o.order = append(o.order, i)
}

// said is what came of the jobs: values, failures as "kind: message", "-" for one
// that was not run.
func (o *outcomes) said() []string {
	var out []string
	for i, res := range o.results {
		switch {
		case res != nil:
			var items []string
			for _, v := range res.Items {
				items = append(items, string(v.AppendJSON(nil)))
			}
			out = append(out, strings.Join(items, " "))
		case o.failures[i] != nil:
			out = append(out, string(o.failures[i].Kind)+": "+o.failures[i].Message)
		default:
			out = append(out, "-")
		}
	}
	return out
}

// workers is a runner under test.
type workers struct {
	*bench
	r BatchRunner
}

func newWorkers(t testing.TB, task *spec.TaskSpec) *workers {
	t.Helper()
	b := newBench(t, task)
	r, err := New(b.cfg, task)
	if err != nil {
		t.Fatal(err)
	}
	w := &workers{b, r.(BatchRunner)}
	t.Cleanup(func() { w.r.Close(context.Background()) })
	return w
}

// batch runs a job for each word.
func (w *workers) batch(ctx context.Context, words ...string) *outcomes {
	w.t.Helper()
	o := newOutcomes(len(words))
	w.into(ctx, o, words...)
	return o
}

func (w *workers) into(ctx context.Context, o *outcomes, words ...string) {
	var jobs []*Job
	for _, word := range words {
		var args []Arg
		if len(w.task.In) > 0 {
			args = []Arg{text(word)}
		}
		jobs = append(jobs, w.job(args...))
	}
	w.r.RunBatch(ctx, w.slot, jobs, o)
}

// wants checks what came of a batch: each a text, or the begin of a failure.
func (o *outcomes) wants(t *testing.T, want ...string) {
	t.Helper()
	got := o.said()
	for i := range want {
		if i >= len(got) || got[i] != want[i] && !(strings.HasSuffix(want[i], "…") && strings.HasPrefix(got[i], strings.TrimSuffix(want[i], "…"))) {
			t.Errorf("job %d: %q, want %q", i, got[min(i, len(got)-1)], want[i])
		}
	}
}

func TestWorkerServes(t *testing.T) {
	w := newWorkers(t, pyWorker(`say(id=id, value=[word, os.getpid()])`, "word"))
	pids := map[string]bool{}
	for range 3 {
		for _, said := range w.batch(t.Context(), "a", "b", "c").said() {
			pids[strings.Split(said, ",")[1]] = true
		}
	}
	if len(pids) != 1 {
		t.Errorf("served by %d processes", len(pids))
	}
}

// The request is what the protocol says; files are paths, slices nested lists,
// holes null.
func TestWorkerRequest(t *testing.T) {
	task := pyWorker(`say(id=id, value=job)`, "word", "doc", "all")
	i := &spec.Dim{Name: "i", Spawner: task}
	task.Context = []*spec.Dim{i}
	w := newWorkers(t, task)
	file := w.file("a b.txt", "content", false)
	job := w.job(text("x\n\"é"), one(file), list(value.FromJSON([]byte("1.0")), value.NewHole("gone")))
	res, err := w.r.Run(t.Context(), w.slot, job)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		ID    int
		Task  string
		Coord map[string]int
		Args  struct {
			Word string
			Doc  string
			All  json.RawMessage
		}
	}
	if err := json.Unmarshal(res.Items[0].JSON, &got); err != nil {
		t.Fatal(err)
	}
	if got.ID != 1 || got.Task != "work" || got.Coord["i"] != 0 || got.Args.Word != "x\n\"é" || string(got.Args.All) != "[1.0,null]" {
		t.Errorf("the request was %s", res.Items[0].JSON)
	}
	if filepath.Base(got.Args.Doc) != "a b.txt" {
		t.Errorf("the file is %s", got.Args.Doc)
	}
	if content, err := os.ReadFile(got.Args.Doc); err != nil || string(content) != "content" {
		t.Errorf("the file holds %q, %v", content, err)
	}
	if err := res.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(job.Dir); !os.IsNotExist(err) {
		t.Errorf("the job's folder is still there: %v", err)
	}
}

// Values come as they were written, in any order, and lists of them.
func TestWorkerAnswers(t *testing.T) {
	t.Run("digits", func(t *testing.T) {
		w := newWorkers(t, pyWorker(`sys.stdout.write('  { "value" : { "a" : [ 1.0, 12345678901234567890 ] } , "more": {"x": 1}, "id":%d}\n' % id); sys.stdout.flush()`, "word"))
		w.batch(t.Context(), "a").wants(t, `{"a":[1.0,12345678901234567890]}`)
	})
	t.Run("list", func(t *testing.T) {
		w := newWorkers(t, spawns(pyWorker(`say(id=id, values=list(word))`, "word"), ""))
		w.batch(t.Context(), "abc", "", "x").wants(t, `"a" "b" "c"`, ``, `"x"`)
	})
	t.Run("any order", func(t *testing.T) {
		task := pyWorker("held.append(job)\nif len(held) == 4:\n    for j in reversed(held): say(id=j['id'], value=j['args']['word'])\n    held.clear()", "word")
		task.Body.Concurrency = 4
		w := newWorkers(t, task)
		o := w.batch(t.Context(), "a", "b", "c", "d", "e", "f", "g", "h")
		o.wants(t, `"a"`, `"b"`, `"c"`, `"d"`, `"e"`, `"f"`, `"g"`, `"h"`)
		if !slices.Equal(o.order, []int{3, 2, 1, 0, 7, 6, 5, 4}) {
			t.Errorf("ended in the order %v", o.order)
		}
	})
	t.Run("null", func(t *testing.T) {
		w := newWorkers(t, pyWorker(`say(id=id, value=None, error=None, retry=None, retry_after=None)`))
		w.batch(t.Context(), "").wants(t, "null")
	})
}

// One at a time is the default: the next request comes with the answer.
func TestWorkerConcurrency(t *testing.T) {
	task := pyWorker("import select\nmore = bool(select.select([0], [], [], 0.05)[0])\nsay(id=id, value=more)")
	w := newWorkers(t, task)
	w.batch(t.Context(), "", "", "").wants(t, "false", "false", "false")
}

func TestWorkerErrors(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   string
	}{
		"error":     {`say(id=id, error="no such word")`, "exit: no such word"},
		"traceback": {`say(id=id, error="ValueError: x\n  in line 1\n")`, "exit: ValueError: x"},
		"empty":     {`say(id=id, error="")`, "exit: the worker says that the job failed, and not why"},
		"object":    {`say(id=id, error={"a": 1})`, `exit: {"a":1}`},
		"no value":  {`say(id=id)`, "output: the worker's answer has no `value`…"},
		"values":    {`say(id=id, values=[])`, "output: the worker's answer has no `value`…"},
		"no JSON":   {`print("loading model", flush=True)`, "output: the worker printed a line that is no answer: loading model (byte 1: expected an answer…"},
		"no id":     {`say(value=1)`, "output: the worker printed a line that is no answer: {\"value\": 1} (byte 1: the answer has no id)…"},
		"stranger":  {`say(id=id+7, value=1)`, "output: the worker answered request 8, which it does not hold…"},
		"twice":     {`say(id=id, value=1, **{"values": 3})`, "output: the worker printed a line that is no answer: …"},
		"bad retry": {`say(id=id, error="x", retry=3)`, "output: the worker printed a line that is no answer: …"},
		"exit":      {`sys.exit(3)`, "exit: the worker died: exit status 3"},
		"exit 0":    {`sys.exit(0)`, "exit: the worker died: exit status 0"},
		"signal":    {`os.kill(os.getpid(), 9)`, "signal: the worker died: killed by signal SIGKILL…"},
		"closes":    {`os.close(1); os.close(0); time.sleep(300)`, "signal: the worker died: killed by signal SIGTERM"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkers(t, pyWorker("print('to the log', file=sys.stderr, flush=True)\n"+c.answer))
			o := w.batch(t.Context(), "")
			o.wants(t, c.want)
			f := o.failures[0]
			if f == nil {
				return
			}
			if f.Usage.Start.IsZero() {
				t.Error("it says nothing of its time")
			}
			if name == "exit" && (f.Exit != 3 || string(f.Stderr) != "to the log\n" || f.Logged != 11 || filepath.Base(f.Log) != "worker-0.log") {
				t.Errorf("%+v, stderr %q", f, f.Stderr)
			}
			if name == "traceback" && !strings.Contains(string(f.Stderr), "in line 1") {
				t.Errorf("the rest is %q", f.Stderr)
			}
		})
	}
}

// What a worker says of another attempt is carried on.
func TestWorkerSaysWhetherToRetry(t *testing.T) {
	w := newWorkers(t, pyWorker("answer = {'yes': {'retry': True, 'retry_after': 1.5}, 'no': {'retry': False}}.get(word, {})\nsay(id=id, error='busy', **answer)", "word"))
	for word, want := range map[string]string{"yes": "true 1.5s", "no": "false 0s", "": "- 0s"} {
		f := w.batch(t.Context(), word).failures[0]
		got := "-"
		if f.Retryable != nil {
			got = fmt.Sprint(*f.Retryable)
		}
		if f.Message != "busy" {
			t.Errorf("%s: %s", word, f.Message)
		}
		if got += " " + f.RetryAfter.String(); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}

// After a job that failed none begins in the batch, and the process goes on.
func TestWorkerBatchEndsWithAFailure(t *testing.T) {
	w := newWorkers(t, pyWorker(`say(id=id, **({"error": "x"} if word == "bad" else {"value": os.getpid()}))`, "word"))
	o := w.batch(t.Context(), "a", "bad", "c", "d")
	o.wants(t, o.said()[0], "exit: x", "-", "-")
	if again := w.batch(t.Context(), "c").said()[0]; again != o.said()[0] {
		t.Errorf("another process served: %s and %s", o.said()[0], again)
	}
}

// The death of a worker fails the jobs it held, not those it answered before, and
// the next batch has another.
func TestWorkerDies(t *testing.T) {
	task := pyWorker("held.append(id)\nif word == 'die':\n    os._exit(7)\nif word == 'ok':\n    say(id=id, value=word)", "word")
	task.Body.Concurrency = 3
	w := newWorkers(t, task)
	w.batch(t.Context(), "ok", "wait", "die", "ok").wants(t, `"ok"`, "exit: the worker died: exit status 7", "exit: the worker died: exit status 7", "…")
	w.batch(t.Context(), "ok").wants(t, `"ok"`)
}

// A worker that ends while nothing is asked of it is replaced, and nobody blamed.
func TestWorkerEndsIdle(t *testing.T) {
	w := newWorkers(t, pyWorker("say(id=id, value=os.getpid())\nsys.exit(1)"))
	first := w.batch(t.Context(), "").said()[0]
	p := w.r.(*persistent)
	<-p.idle[0].Ended()
	if second := w.batch(t.Context(), "").said()[0]; second == first || strings.Contains(second, "died") {
		t.Errorf("first %s, then %s", first, second)
	}
}

// A job that takes too long costs its process, whether that hears of it or not.
func TestWorkerTimeout(t *testing.T) {
	task := workerTask([]string{"sh", "-c", `trap '' TERM; echo began >&2; while :; do sleep 1; done`})
	task.Timeout, task.Grace = 100*time.Millisecond, 50*time.Millisecond
	w := newWorkers(t, task)
	o := w.batch(t.Context(), "", "")
	o.wants(t, "timeout: took longer than its timeout of 100ms", "-")
	if p := w.r.(*persistent); len(p.idle) != 0 || p.numbers.taken[0] {
		t.Error("the process is still there")
	}
}

// The neighbours of a job that takes too long are run again.
func TestWorkerNeighboursAreLost(t *testing.T) {
	task := pyWorker("if word == 'b': say(id=id, value=word)", "word")
	task.Body.Concurrency = 3
	task.Timeout = time.Hour
	w := newWorkers(t, task)
	o := newOutcomes(3)
	b := &batch{persistent: w.r.(*persistent), ctx: t.Context(), slot: w.slot, to: o}
	b.jobs = []*Job{w.job(text("a")), w.job(text("b")), w.job(text("c"))}
	for b.fill(); len(b.held) == 3; {
		b.exchange() // until b has been answered
	}
	b.held[0].deadline = time.Now()
	b.expire()
	for len(b.held) > 0 {
		b.exchange()
	}
	b.release()
	o.wants(t, "timeout: took longer than its timeout of 1h0m0s", `"b"`, "lost: the worker that held it was stopped…")
}

// A cancelled context ends the process: with a grace period, or at once.
func TestWorkerIsStopped(t *testing.T) {
	for _, cause := range []error{ErrKill, context.Canceled} {
		ctx, cancel := context.WithCancelCause(t.Context())
		task := pyWorker("say(id=id, value=1) if word == 'ok' else os.kill(int(word), 10)", "word")
		w := newWorkers(t, task)
		o := newOutcomes(3)
		o.stop = func() bool {
			if len(o.order) == 1 {
				cancel(cause)
			}
			return false
		}
		w.into(ctx, o, "ok", "ok", "ok")
		o.wants(t, "1", "…")
		if o.results[2] != nil {
			t.Errorf("a job began after the end: %v", o.said())
		}
		if p := w.r.(*persistent); len(p.idle) != 0 {
			t.Errorf("%d processes are kept", len(p.idle))
		}
	}
}

// Stopped jobs are not begun, and those under way finish.
func TestWorkerFinishesWhatItHolds(t *testing.T) {
	task := pyWorker(`say(id=id, value=word)`, "word")
	task.Body.Concurrency = 2
	w := newWorkers(t, task)
	o := newOutcomes(4)
	asked := 0
	o.stop = func() bool { asked++; return asked > 2 }
	w.into(t.Context(), o, "a", "b", "c", "d")
	o.wants(t, `"a"`, `"b"`, "-", "-")
}

// At the end of standard input a worker may finish; then nothing of it is left.
func TestWorkerFinishes(t *testing.T) {
	task := workerTask([]string{"sh", "-c", `read x; echo '{"id":1,"value":1}'; cat >/dev/null; echo finished >"$DONE"; rm -r "$TMPDIR/x"; kill -0 $$`})
	task.Env = []spec.EnvVar{{Name: "DONE", Value: spec.ParseTemplate("done")}}
	w := newWorkers(t, task)
	w.batch(t.Context(), "").wants(t, "1")
	dir := w.r.(*persistent).idle[0].dir
	if err := os.Mkdir(filepath.Join(dir, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.r.Close(t.Context())
	if got, err := os.ReadFile(filepath.Join(w.dir, "done")); err != nil || string(got) != "finished\n" {
		t.Errorf("it did not finish: %q, %v", got, err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("its folder is still there: %v", err)
	}
}

// A worker that can't be started says why, and one that dies at once is given a
// rest before the next try.
func TestWorkerDoesNotStart(t *testing.T) {
	w := newWorkers(t, workerTask([]string{"no-such-worker"}))
	w.batch(t.Context(), "").wants(t, "exit: command not found: no-such-worker…")
	w = newWorkers(t, workerTask([]string{"false"}))
	var began time.Time
	for range 3 {
		began = time.Now()
		w.batch(t.Context(), "").wants(t, "exit: the worker died: exit status 1")
	}
	p := w.r.(*persistent)
	if p.crashes != 3 || p.rested.Before(began.Add(firstRest<<2)) {
		t.Errorf("%d crashes, and a rest until %v, %v after the last began", p.crashes, p.rested, p.rested.Sub(began))
	}
	p.rested = time.Now().Add(time.Hour) // it is asked whether it is to stop before that
	o := newOutcomes(1)
	asked := 0
	o.stop = func() bool { asked++; return asked > 1 }
	w.into(t.Context(), o, "")
	o.wants(t, "-")
}

// Params reach argv and the environment; what is inherited is beside them, and
// what the engine adds over it.
func TestWorkerSurroundings(t *testing.T) {
	task := workerTask([]string{"python3", "-c", `
import json, os, sys
for line in sys.stdin:
    print(json.dumps({"id": json.loads(line)["id"], "value": [sys.argv[1], os.environ["MODE"], os.environ["GPU"], os.environ["OPERON_TASK"], os.path.basename(os.getcwd()), "OPERON_COORD" in os.environ, os.path.isdir(os.environ["TMPDIR"])]}), flush=True)
`, "--n={n}"})
	task.Env = []spec.EnvVar{{Name: "MODE", Value: spec.ParseTemplate("{n}-fast")}}
	task.Workdir = "below"
	b := newBench(t, task)
	b.cfg.Pipeline.Params = []*spec.Param{{Name: "n", Value: value.FromJSON([]byte("3"))}}
	b.cfg.Environ = append(b.cfg.Environ, "GPU=all")
	if err := os.Mkdir(filepath.Join(b.dir, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := New(b.cfg, task)
	if err != nil {
		t.Fatal(err)
	}
	w := &workers{b, r.(BatchRunner)}
	defer w.r.Close(t.Context())
	w.batch(t.Context(), "").wants(t, `["--n=3","3-fast","all","work","below",false,true]`)
	job := w.job()
	job.Env = []string{"GPU=1"}
	o := newOutcomes(1)
	w.r.RunBatch(t.Context(), w.slot, []*Job{job}, o)
	o.wants(t, `["--n=3","3-fast","1","work","below",false,true]`)
	if p := w.r.(*persistent); len(p.idle) != 1 {
		t.Errorf("%d processes are kept, and one is used at a time", len(p.idle))
	}
}

// An answer that is larger than a pipe, and a request that is.
func TestWorkerLargeTexts(t *testing.T) {
	task := pyWorker(`say(id=id, value=word + word)`, "word")
	task.Body.Concurrency = 3
	w := newWorkers(t, task)
	big := strings.Repeat("x", 3<<20)
	for i, res := range w.batch(t.Context(), big, "y", big, big).results {
		if res == nil || len(res.Items[0].JSON) != 2+2*len(big) && i != 1 {
			t.Fatalf("job %d: %v", i, res)
		}
	}
	w.cfg.MaxOutput = 1 << 20
	w = &workers{w.bench, mustRunner(t, w.cfg, task)}
	defer w.r.Close(t.Context())
	w.batch(t.Context(), big).wants(t, "output: the worker's answer is longer than 1048576 bytes (--max-output)…")
}

func mustRunner(t testing.TB, cfg *Config, task *spec.TaskSpec) BatchRunner {
	t.Helper()
	r, err := New(cfg, task)
	if err != nil {
		t.Fatal(err)
	}
	return r.(BatchRunner)
}

// The log is bounded while the worker runs: head and tail are kept.
func TestWorkerLog(t *testing.T) {
	task := pyWorker("for i in range(int(word)): sys.stderr.write('line %07d\\n' % i)\nsys.stderr.flush()\nsay(id=id, value=1)", "word")
	b := newBench(t, task)
	b.cfg.LogLimit = 4000
	w := &workers{b, mustRunner(t, b.cfg, task)}
	w.batch(t.Context(), "10", "5000").wants(t, "1", "1")
	w.r.Close(t.Context())
	text, err := os.ReadFile(filepath.Join(w.dir, "logs", "worker-0.log"))
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	if len(got) > 4200 || !strings.HasPrefix(got, "line 0000000\nline 0000001\n") || !strings.HasSuffix(got, "line 0004998\nline 0004999\n") || strings.Count(got, "bytes left out here") != 1 {
		t.Errorf("the log of %d bytes is\n%s", len(got), got)
	}
}

// Workers in two languages do the same.
func TestWorkerExamples(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, argv := range map[string][]string{
		"python": {"python3", filepath.Join(root, "testdata/workers/upper.py")},
		"go":     {goWorker(t)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkers(t, workerTask(argv, "word"))
			w.batch(t.Context(), "a", "b\n\"", "").wants(t, `"A"`, `"B\n\""`, `""`)
			bad := newWorkers(t, workerTask(argv))
			if f := bad.batch(t.Context(), "x").failures[0]; f == nil || f.Kind != KindExit || !strings.Contains(f.Message, "word") {
				t.Errorf("without a word: %v", f)
			}
		})
	}
}

func goWorker(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "upper")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../../testdata/workers/upper")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func BenchmarkWorker(b *testing.B) {
	root, err := filepath.Abs("../..")
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		argv []string
		n    int
	}{
		{"python", []string{"python3", filepath.Join(root, "testdata/workers/upper.py")}, 1},
		{"python-32", []string{"python3", filepath.Join(root, "testdata/workers/upper.py")}, 32},
		{"go", []string{goWorker(b)}, 1},
		{"go-32", []string{goWorker(b)}, 32},
	} {
		b.Run(c.name, func(b *testing.B) {
			task := workerTask(c.argv, "word")
			task.Body.Concurrency = c.n
			w := newWorkers(b, task)
			words := make([]string, 100)
			for i := range words {
				words[i] = fmt.Sprint("word ", i)
			}
			jobs := 0
			for b.Loop() {
				o := w.batch(b.Context(), words...)
				if len(o.order) != len(words) || o.results[99] == nil {
					b.Fatal(o.said())
				}
				jobs += len(words)
			}
			b.ReportMetric(float64(jobs)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
