package spec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const paramPipeline = `
pipeline: p
params:
  text: {default: a, env: TEXT}
  n: {type: int, default: 1, env: N}
  ratio: {type: float, default: 0.5}
  flag: {type: bool, default: false}
  data: {type: json, default: []}
  mode: {choices: [fast, slow], default: fast}
  level: {type: int, choices: [1, 2], default: 1}
  must: {type: int}
tasks:
  a: {out: A, run: echo}
`

func paramTexts(p *Pipeline) map[string]string {
	got := map[string]string{}
	for _, param := range p.Params {
		got[param.Name] = string(param.Value.JSON)
	}
	return got
}

// The command line goes before the params file, that before the environment,
// that before the default.
func TestWhereParamsComeFrom(t *testing.T) {
	file, err := ParseParams([]byte("text: file\nn: 7\ndata: {a: [1.0, \"1\", no]}\nmust: 4\nflag: true\n"), "params.yaml")
	if err != nil {
		t.Fatal(err)
	}
	env := func(name string) (string, bool) { return map[string]string{"TEXT": "env", "N": "5"}[name], true }
	p := mustLoad(t, paramPipeline, Options{
		Params: map[string]string{"text": "command = line", "mode": "slow", "ratio": "1.50"}, ParamsFile: file, LookupEnv: env,
	})
	want := map[string]string{
		"text": `"command = line"`, "n": "7", "ratio": "1.50", "flag": "true", "data": `{"a":[1.0,"1","no"]}`, "mode": `"slow"`, "level": "1", "must": "4",
	}
	if diff := cmp.Diff(want, paramTexts(p)); diff != "" {
		t.Error(diff)
	}
	p = mustLoad(t, paramPipeline, Options{Params: map[string]string{"must": "1"}, LookupEnv: env})
	want = map[string]string{
		"text": `"env"`, "n": "5", "ratio": "0.5", "flag": "false", "data": `[]`, "mode": `"fast"`, "level": "1", "must": "1",
	}
	if diff := cmp.Diff(want, paramTexts(p)); diff != "" {
		t.Error(diff)
	}
	if p.Params[7].HasDefault || !p.Params[0].HasDefault || p.Params[0].EnvName != "TEXT" {
		t.Errorf("%+v", p.Params[7])
	}
}

func TestRawParams(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		{"text", "", `""`},
		{"text", "1.10", `"1.10"`},
		{"text", "a\nb", `"a\nb"`},
		{"text", "a\xff", "error"},
		{"n", "012", "error"},
		{"n", " 12 ", "12"},
		{"n", "1.0", "error"},
		{"n", "1e3", "error"},
		{"n", "123456789012345678901234567890", "123456789012345678901234567890"},
		{"ratio", "1e3", "1e3"},
		{"ratio", "NaN", "error"},
		{"ratio", ".5", "error"},
		{"flag", "yes", "error"},
		{"flag", "true", "true"},
		{"data", `{"a": [1.0, null]}`, `{"a":[1.0,null]}`},
		{"data", `{a: 1}`, "error"},
		{"data", "", "error"},
		{"data", "\"\xff\"", "error"},
		{"data", "1 2", "error"},
		{"mode", "fats", "error"},
		{"level", "3", "error"},
		{"level", "2", "2"},
		{"nothing", "3", "error"},
	} {
		p, err := Load([]byte(paramPipeline), Options{Params: map[string]string{"must": "1", c.name: c.raw}})
		got := "error"
		if err == nil {
			got = paramTexts(p)[c.name]
		}
		if got != c.want {
			t.Errorf("-p %s=%q: %s, want %s (%v)", c.name, c.raw, got, c.want, err)
		}
	}
}

// A param without default that the run does not give is an error of the run, and
// none for who only looks.
func TestMissingParam(t *testing.T) {
	if _, err := Load([]byte(paramPipeline), Options{}); err != nil {
		t.Error(err)
	}
	_, err := Load([]byte(paramPipeline), Options{File: "p.yaml", LookupEnv: noEnv})
	if err == nil || !strings.Contains(err.Error(), "p.yaml:11:3: the param `must` has no default") {
		t.Error(err)
	}
}

func TestParamsFileErrors(t *testing.T) {
	for src, want := range map[string]string{
		"":                    "params.yaml:1:1: the file is empty",
		"[1]":                 "params.yaml:1:1: the file wants a mapping",
		"n: 1\nn: 2\n":        "params.yaml:2:1: the key `n` is given twice",
		"n:\n":                "params.yaml:1:3: `n` has no value",
		"n: [1\n":             "params.yaml:2:1: a `,` or a `]` is missing",
		"{\"n\": \"1\"}":      "params.yaml:1:7: the value of the param `n` must be a whole number (found \"\\\"1\\\"\")",
		"x: 1\n":              "params.yaml:1:1: the pipeline has no param `x`",
		"mode: fats\n":        "params.yaml:1:7: the param `mode` is one of `fast` and `slow` (found \"fats\"); did you mean `fast`?",
		"text: {a: 1}\n":      "params.yaml:1:7: the value of the param `text` must be a text",
		"a: 1\n---\nb: 1\n":   "params.yaml:2:1: a second document",
		"level: 3\nmust: 1\n": "params.yaml:1:8: the param `level` is one of `1` and `2`",
	} {
		file, err := ParseParams([]byte(src), "params.yaml")
		if err == nil {
			_, err = Load([]byte(paramPipeline), Options{File: "p.yaml", ParamsFile: file})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", src, err, want)
		}
	}
}
