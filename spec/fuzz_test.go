package spec

import (
	"os"
	"path/filepath"
	"testing"
)

// Whatever the bytes: no panic, every place inside the document, and what is
// accepted keeps the promises that the types make.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"../testdata/bad/*.yaml", "../testdata/pipelines/*/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	for _, src := range []string{
		everything, paramPipeline, fingerprinted, bodies,
		"? {a: b}\n: <<: *x\n", "pipeline: p\ntasks: {a: &a {<<: *a}}", "a: \"\\x41\\u00e9\\\n  x\"", "pipeline: \u2028p\u0085q\n", "\"pipeline\": !!str p\n\t\n", "- &a [*a]\n", "%YAML 1.1\n---\n", "a: |2-\n\n    x\n   y\n",
		"pipeline: p\ntasks:\n  a:\n    out: A\n    jq: >-\n      .a\n\n      | b\n", "{pipeline: p, tasks: {a: {out: A<i>, run: \"$((i))\"}, b: {in: {x: 'A<i>'}, out: B, jq: \"$x | \\u0066oo\"}}}",
	} {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := Load(src, Options{File: "f.yaml", LookupEnv: noEnv})
		if err != nil {
			errs := err.(Errors)
			if len(errs) == 0 || p != nil {
				t.Fatal("an error that says nothing")
			}
			checkRanges(t, src, errs)
			return
		}
		checkRanges(t, src, p.Warnings)
		checkPromises(t, p)
	})
}

// checkPromises checks what Pipeline's types say of every pipeline.
func checkPromises(t *testing.T, p *Pipeline) {
	t.Helper()
	if len(p.Topo) != len(p.Tasks) || len(p.Tasks) == 0 || !IsName(p.Name) {
		t.Fatalf("%d tasks, %d sorted", len(p.Tasks), len(p.Topo))
	}
	for i, d := range p.Dims {
		if d.Index != i || d.Spawner.Spawn != d || p.Dim(d.Name) != d {
			t.Fatalf("dimension %+v", d)
		}
	}
	for i, task := range p.Tasks {
		if task.Index != i || p.Task(task.Name) != task || p.Entity(task.Out.Name) != task.Out || task.Out.Producer != task || task.Body.Kind == "" {
			t.Fatalf("task %+v", task)
		}
		checkTaskPromises(t, task)
	}
}

func checkTaskPromises(t *testing.T, task *TaskSpec) {
	t.Helper()
	inContext := map[*Dim]bool{}
	last := -1
	for _, d := range task.Context {
		if d.Index <= last {
			t.Fatalf("%s: the context is not in canonical order", task.Name)
		}
		last = d.Index
		inContext[d] = true
		for _, p := range d.Prec {
			if !inContext[p] {
				t.Fatalf("%s: the context is not closed", task.Name)
			}
		}
	}
	args := map[string]bool{"out": true}
	for _, in := range task.In {
		if args[in.Arg] || len(in.Free)+len(in.Slice) != len(in.Entity.Dims) {
			t.Fatalf("%s: input %s", task.Name, in)
		}
		args[in.Arg] = true
		for _, d := range in.Free {
			if !inContext[d] {
				t.Fatalf("%s: %s hangs", task.Name, d.Name)
			}
			for _, s := range in.Slice {
				if d.DependsOn(s) {
					t.Fatalf("%s: %s stays fixed", task.Name, d.Name)
				}
			}
		}
	}
}

func FuzzParseParams(f *testing.F) {
	for _, s := range []string{"n: 1\n", "{\"a\": [1]}", "", "a: &x [*x]\n", "n: 010\nmode: slow\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		file, err := ParseParams(src, "params.yaml")
		if err != nil {
			checkRanges(t, src, err.(Errors))
			return
		}
		if _, err := Load([]byte(paramPipeline), Options{ParamsFile: file}); err != nil && err.Error() == "" {
			t.Fatal("an error that says nothing")
		}
	})
}
