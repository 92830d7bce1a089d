package body

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a task on a slot, ready to run jobs.
type bench struct {
	t    testing.TB
	cfg  *Config
	task *spec.TaskSpec
	slot *Slot

	running *Running
	dir     string
	jobs    int
}

// newBench prepares a task; its missing parts are filled in as the loader would.
func newBench(t testing.TB, task *spec.TaskSpec) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{t: t, dir: dir, task: task, cfg: &Config{
		Pipeline: &spec.Pipeline{Name: "test"}, Dir: dir, Environ: []string{"PATH=" + os.Getenv("PATH")},
	}}
	complete(task)
	// Without control groups, unless a test asks for them.
	running, err := OpenRunning(filepath.Join(t.TempDir(), "running"), 1)
	if err != nil {
		t.Fatal(err)
	}
	slot, err := NewSlot(SlotOptions{Dir: filepath.Join(dir, "slots"), Running: running})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(slot.Close(), running.Close()); err != nil {
			t.Error(err)
		}
	})
	b.slot, b.running = slot, running
	return b
}

func complete(task *spec.TaskSpec) {
	if task.Name == "" {
		task.Name = "work"
	}
	if task.Out == nil {
		task.Out = &spec.Entity{Name: "Part", Producer: task}
	}
	if task.Body.Kind == "" {
		task.Body.Kind = spec.BodyRun
	}
	if task.Shell == nil {
		task.Shell = []string{"sh", "-e", "-c"}
	}
	if task.Grace == 0 {
		task.Grace = time.Minute
	}
}

func (b *bench) job(args ...Arg) *Job {
	b.jobs++
	return &Job{
		Coord: coord.Of(make([]uint32, len(b.task.Context))...), Attempt: 1,
		Token: fmt.Sprintf("%s-%d", tokenOf(b.dir), b.jobs), RunID: "run", Args: args,
		Dir: filepath.Join(b.dir, "jobs", fmt.Sprint(b.jobs)), Log: filepath.Join(b.dir, "logs", fmt.Sprint(b.jobs)),
	}
}

// try runs one job and closes its result.
func (b *bench) try(ctx context.Context, job *Job) (*Result, *Failure) {
	b.t.Helper()
	r, err := New(b.cfg, b.task)
	if err != nil {
		b.t.Fatal(err)
	}
	res, err := r.Run(ctx, b.slot, job)
	if err != nil {
		f, ok := err.(*Failure)
		if !ok {
			b.t.Fatalf("%T is no *Failure: %v", err, err)
		}
		if _, err := os.Stat(job.Dir); err == nil {
			b.t.Errorf("a failed job's folder is still there")
		}
		return nil, f
	}
	return res, nil
}

// ok runs one job that must end well, and returns its values as JSON.
func (b *bench) ok(args ...Arg) []string {
	b.t.Helper()
	res, f := b.try(b.t.Context(), b.job(args...))
	if f != nil {
		b.t.Fatalf("%s: %s\n%s", f.Kind, f.Message, f.Stderr)
	}
	var out []string
	for _, v := range res.Items {
		out = append(out, string(v.AppendJSON(nil)))
	}
	if err := res.Close(); err != nil {
		b.t.Error(err)
	}
	return out
}

// fails runs one job that must fail so, with a message that holds all parts.
func (b *bench) fails(kind Kind, job *Job, parts ...string) *Failure {
	b.t.Helper()
	_, f := b.try(b.t.Context(), job)
	if f == nil {
		b.t.Fatalf("it ended well; want a failure of kind %s", kind)
	}
	if f.Kind != kind {
		b.t.Errorf("failed as %s (%s), want %s", f.Kind, f.Message, kind)
	}
	for _, part := range parts {
		if !strings.Contains(f.Message, part) {
			b.t.Errorf("message %q does not say %q", f.Message, part)
		}
	}
	return f
}

func (b *bench) write(name, text string, mode os.FileMode) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// file is a stored file value: its bytes lie under a name that is not its own.
func (b *bench) file(name, text string, exec bool) value.Value {
	b.t.Helper()
	b.jobs++
	path := b.write(fmt.Sprintf("blobs/%d", b.jobs), text, 0o444)
	info, err := b.cfg.files.describe(path)
	if err != nil {
		b.t.Fatal(err)
	}
	info.Name, info.Exec, info.Path = name, exec, path
	return value.FromFile(info)
}

func text(s string) Arg     { return Arg{Value: value.FromText(s)} }
func raw(s string) Arg      { return Arg{Value: value.FromJSON([]byte(s))} }
func one(v value.Value) Arg { return Arg{Value: v} }
func list(vs ...value.Value) Arg {
	return Arg{Slice: &value.Slice{Lens: [][]uint32{{uint32(len(vs))}}, Items: vs}}
}

func texts(ss ...string) Arg {
	var vs []value.Value
	for _, s := range ss {
		vs = append(vs, value.FromText(s))
	}
	return list(vs...)
}

// script is a task with a script; its inputs are those named, on stdin unless
// mentioned.
func script(body string, args ...string) *spec.TaskSpec {
	t := &spec.TaskSpec{Body: spec.Body{Kind: spec.BodyRun, Script: body}}
	withInputs(t, spec.ScriptMentions(body), args)
	return t
}

func withInputs(t *spec.TaskSpec, mentioned, args []string) {
	for _, a := range args {
		in := &spec.Input{Arg: a, Entity: &spec.Entity{Name: "Word"}}
		t.In = append(t.In, in)
		found := false
		for _, m := range mentioned {
			if m == a {
				t.Mentions = append(t.Mentions, m)
				found = true
			}
		}
		if !found {
			t.Stdin.From = append(t.Stdin.From, in)
		}
	}
}

// argv is a task with a program.
func argv(entries []string, args ...string) *spec.TaskSpec {
	t := &spec.TaskSpec{Body: spec.Body{Kind: spec.BodyExec}}
	var mentioned []string
	for _, e := range entries {
		tmpl := spec.ParseTemplate(e)
		t.Body.Argv = append(t.Body.Argv, tmpl)
		mentioned = append(mentioned, tmpl.Names()...)
	}
	withInputs(t, mentioned, args)
	return t
}

func spawns(t *spec.TaskSpec, format spec.Format) *spec.TaskSpec {
	t.Spawn = &spec.Dim{Name: "word_no", Spawner: t}
	t.Format = format
	return t
}

func formatted(t *spec.TaskSpec, format spec.Format) *spec.TaskSpec {
	t.Format = format
	return t
}

// filterTask is a task with a jq filter.
func filterTask(code string, args ...string) *spec.TaskSpec {
	t := &spec.TaskSpec{Body: spec.Body{Kind: spec.BodyJQ, Script: code}}
	withInputs(t, spec.ScriptMentions(code), args)
	return t
}
