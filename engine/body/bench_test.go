package body

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"operon/spec"
	"operon/spec/value"
)

// The price of a job over that of its process, which is started and waited for
// in turn with it, so that both see the same machine: the median of each, and
// how many times the one is the other.
func BenchmarkProcess(b *testing.B) {
	for name, c := range map[string]struct {
		task *spec.TaskSpec
		args []Arg
		bare []string
	}{
		"quiet":       {argv([]string{"true"}), nil, []string{"/bin/true"}},
		"with output": {argv([]string{"echo", "{word}"}, "word"), []Arg{text("hello")}, []string{"/bin/echo", "hello"}},
		"with stdin":  {argv([]string{"cat"}, "word"), []Arg{text("hello")}, []string{"/bin/cat"}},
		"script":      {script(":"), nil, []string{"/bin/sh", "-e", "-c", ":"}},
	} {
		b.Run(name, func(b *testing.B) {
			h := newBench(b, c.task)
			r, err := New(h.cfg, h.task)
			if err != nil {
				b.Fatal(err)
			}
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			if err != nil {
				b.Fatal(err)
			}
			defer null.Close()
			var own, bare []time.Duration
			for b.Loop() {
				start := time.Now()
				runJob(b, r, h.slot, c.args)
				half := time.Now()
				forkExec(b, c.bare, h.cfg.Environ, null.Fd())
				own, bare = append(own, half.Sub(start)), append(bare, time.Since(half))
			}
			b.ReportMetric(float64(median(own).Microseconds()), "µs/job")
			b.ReportMetric(float64(median(bare).Microseconds()), "µs/bare")
			b.ReportMetric(float64(median(own))/float64(median(bare)), "ratio")
		})
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func forkExec(b *testing.B, args, env []string, null uintptr) {
	pid, err := syscall.ForkExec(args[0], args, &syscall.ProcAttr{Env: env, Files: []uintptr{null, null, null}})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
		b.Fatal(err)
	}
}

func runJob(b *testing.B, r Runner, slot *Slot, args []Arg) {
	res, err := r.Run(b.Context(), slot, &Job{Attempt: 1, Token: "bench-1", RunID: "bench", Args: args})
	if err != nil {
		b.Fatal(err)
	}
	if err := res.Close(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkTinyFilter(b *testing.B) {
	h := newBench(b, filterTask(". * 2", "n"))
	benchJobs(b, h, raw("123456"))
}

func benchJobs(b *testing.B, h *bench, args ...Arg) {
	r, err := New(h.cfg, h.task)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		runJob(b, r, h.slot, args)
	}
}

func BenchmarkReadJSON(b *testing.B) {
	doc := []byte(`{"id": 123456, "name": "a string of some length", "tags": ["x", "y", "z"], "nested": {"a": 1.5, "b": null, "c": true}}`)
	in := make([]byte, len(doc))
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		copy(in, doc)
		if _, err := oneJSON(in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadLines(b *testing.B) {
	doc := []byte(strings.Repeat("a line of text\n", 10000))
	benchRead(b, doc, limited(readLines))
}

func BenchmarkReadJSONL(b *testing.B) {
	doc := []byte(strings.Repeat(`{"id":123456,"name":"a string"}`+"\n", 10000))
	benchRead(b, doc, limited(readJSONL))
}

func benchRead(b *testing.B, doc []byte, read func([]byte) ([]value.Value, error)) {
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := read(bytes.Clone(doc)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCountMillion(b *testing.B) {
	h := newBench(b, sourceTask(spec.Source{Kind: spec.SourceCount, Count: 1_000_000}))
	benchJobs(b, h)
}
