package main

import (
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyFile(t *testing.T) {
	tests := []struct {
		name  string
		files []string
		want  string
		code  int
	}{
		{"none", nil, "", 2},
		{"operon.yaml", []string{"operon.yaml", "other.yaml"}, "operon.yaml", 0},
		{"named", []string{"x.operon.yaml"}, "x.operon.yaml", 0},
		{"two", []string{"operon.yaml", "x.operon.yaml"}, "", 2},
		{"hidden", []string{".operon.yaml"}, "", 2},
		{"folder", []string{"operon.yaml/x"}, "", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for _, f := range tt.files {
				write(t, f, "")
			}
			got, err := pipelineFile("")
			if code := ExitCode(here(err)); got != tt.want || code != tt.code {
				t.Errorf("got %q, %v (exit %d)", got, err, code)
			}
		})
	}
}

func TestPipelineName(t *testing.T) {
	tasks := "tasks: {a: {out: A, run: echo}}\n"
	tests := []struct {
		text, want string
		code       int
	}{
		{"pipeline: plain\n" + tasks, "plain", 0},
		{"\ufeffpipeline: bom\n" + tasks, "bom", 0},
		{"pipeline: \"quoted\" # why\r\n" + tasks, "quoted", 0},
		{"# pipeline: comment\npipeline: real\n" + tasks, "real", 0},
		{"description: |\n  pipeline: inner\npipeline: outer\n" + tasks, "outer", 0},
		{"{pipeline: flow, " + "tasks: {a: {out: A, run: echo}}}", "flow", 0},
		{`{"pipeline": "json", "tasks": {"a": {"out": "A", "run": "echo"}}}`, "json", 0},
		{"pipeline: kept\ntasks: [this, is, wrong\n", "kept", 0},
		{"pipeline: Not A Name\n" + tasks, "", 2},
		{"", "", 2},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "p.yaml")
			write(t, file, tt.text)
			got, err := pipelineName(file)
			if got != tt.want || ExitCode(err) != tt.code {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"": "''", "a/b-c_1.yaml": "a/b-c_1.yaml", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'", "é": "'é'", "~": "'~'",
	} {
		if got := quote(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, "1": 1, "1000": 1000, "64K": 64 << 10, "64k": 64 << 10, "256M": 256 << 20, "256MiB": 256 << 20, "2GB": 2 << 30, "1T": 1 << 40, "7B": 7,
	} {
		if got, err := size(text); got != want || err != nil {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"0", "-1", "K", "1.5M", "1X", "1KM", "9999999999G", "M1", " 1", "1iB2"} {
		if got, err := size(text); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}
