package spec

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const bodies = `
pipeline: bodies
params:
  model: small
  token: {secret: true, env: TOKEN}
env: {TOKEN: "{token}"}
pools:
  api: {size: 4, rate: 5/s}
  disk: 2
  slow: {rate: 0.5/m}
defaults: {cpus: 2, mem: 1.5G, on_error: continue, keep: false}
tasks:
  docs:
    out: Page<doc>
    run: printf 'a\nb\n'
    key: ascii_downcase
    schema: {type: string, maxLength: 3}
    keep: true
  embed:
    in: Page
    for: doc
    out: Vector
    worker: {argv: [python3, embed.py, --model, "{model}", "{}"], concurrency: 8}
    env: {MODEL: "{model}"}
    pool: api
    gpus: 1
    mem: 512M
    on_error: hole
    save: vectors/{doc}-{model}.json
    schema: schemas/vector.json
  draw:
    for: doc
    out: Number
    func: Draw
    pool: {env: POOL}
  all:
    in: {vectors: {from: Vector<doc>, holes: null}, doc_doc: Page<doc>}
    out: All
    run: cat
  same:
    in: {from: Vector<doc>, holes: null}
    out: Same
    worker: [cat]
    pool: slow
`

type files map[string]string

func (f files) ReadFile(path string) ([]byte, error) {
	text, found := f[path]
	if !found {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return []byte(text), nil
}

func bodiesOptions() Options {
	return Options{
		LookupEnv: func(name string) (string, bool) {
			text, set := map[string]string{"TOKEN": "hunter2", "POOL": "3"}[name]
			return text, set
		},
		Files: files{"schemas/vector.json": "\ufeff{ \"type\": \"array\" }"},
	}
}

func TestBodies(t *testing.T) {
	p := mustLoad(t, bodies, bodiesOptions())
	want := []*SharedPool{
		{Name: "api", Size: 4, Rate: Rate{5, time.Second}, Line: 8},
		{Name: "disk", Size: 2, Line: 9},
		{Name: "slow", Rate: Rate{0.5, time.Minute}, Line: 10},
	}
	if diff := cmp.Diff(want, p.Pools); diff != "" {
		t.Error(diff)
	}
	docs, embed, draw := p.Task("docs"), p.Task("embed"), p.Task("draw")
	if string(docs.Schema) != `{"type":"string","maxLength":3}` || docs.KeyFilter != "ascii_downcase" || !docs.Keep {
		t.Errorf("docs: %s, %q, keep %v", docs.Schema, docs.KeyFilter, docs.Keep)
	}
	if docs.CPUs != 2 || docs.Mem != 3<<29 || docs.GPUs != 0 || docs.OnError != OnErrorContinue {
		t.Errorf("docs takes %v, %v, %v and %v", docs.CPUs, docs.Mem, docs.GPUs, docs.OnError)
	}
	if embed.CPUs != 2 || embed.Mem != 512<<20 || embed.GPUs != 1 || embed.OnError != OnErrorHole || embed.Keep {
		t.Errorf("embed takes %v, %v, %v and %v", embed.CPUs, embed.Mem, embed.GPUs, embed.OnError)
	}
	if embed.Body.Kind != BodyWorker || embed.Body.Concurrency != 8 || len(embed.Body.Argv) != 5 || embed.Format != "" || len(embed.Stdin.From) != 0 {
		t.Errorf("embed: %+v", embed.Body)
	}
	if embed.SharedPool != p.Pools[0] || embed.Pool != (Pool{}) || string(embed.Schema) != `{"type":"array"}` || embed.Save.String() != "vectors/{doc}-{model}.json" {
		t.Errorf("embed: %+v", embed)
	}
	if draw.Body.Kind != BodyFunc || draw.Body.Func != "Draw" || draw.Pool != (Pool{Size: 3, Env: "POOL"}) || draw.SharedPool != nil {
		t.Errorf("draw: %+v", draw)
	}
	all := p.Task("all")
	if !all.In[0].HolesNull || all.In[1].HolesNull || !p.Task("same").In[0].HolesNull || p.Task("same").In[0].Arg != "vector_doc" {
		t.Errorf("holes: %+v", all.In)
	}
	if p.Task("same").Body.Concurrency != 1 || all.OnError != OnErrorContinue {
		t.Errorf("same: %+v", p.Task("same").Body)
	}
}

// An index is mentioned where it is all that tells a worker's jobs apart.
func TestIndicesOfWorkers(t *testing.T) {
	p := mustLoad(t, bodies, bodiesOptions())
	for task, want := range map[string]string{"embed": "model token", "draw": "doc", "same": "token"} {
		if got := strings.Join(p.Task(task).Mentions, " "); got != want {
			t.Errorf("%s mentions %q, want %q", task, got, want)
		}
	}
}

func TestSecrets(t *testing.T) {
	p := mustLoad(t, bodies, bodiesOptions())
	token := p.Param("token")
	if !token.Secret || token.Given || token.Text() != "hunter2" || !cmp.Equal(p.Secrets(), []string{"hunter2"}) {
		t.Errorf("%+v, secrets %v", token, p.Secrets())
	}
	other := bodiesOptions()
	other.Params = map[string]string{"token": "another"}
	q := mustLoad(t, bodies, other)
	if !q.Param("token").Given {
		t.Error("what -p gives is not given")
	}
	for i, task := range p.Tasks {
		if task.Fingerprint != q.Tasks[i].Fingerprint {
			t.Errorf("the fingerprint of %s has the secret in it", task.Name)
		}
		for _, f := range task.Fields {
			if strings.Contains(f.Name+f.Value, "hunter2") {
				t.Errorf("%s tells the secret: %+v", task.Name, f)
			}
		}
	}
	wrong := bodiesOptions()
	wrong.Params = map[string]string{"token": "hunter2"}
	_, err := Load([]byte(strings.Replace(bodies, "{secret: true,", "{secret: true, type: int,", 1)), wrong)
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error tells the secret: %v", err)
	}
}

// What is kept of a file does not tell its secrets, and can be looked at.
func TestSnapshot(t *testing.T) {
	const src = "\ufeffpipeline: p\nparams:\n  a: {secret: true, type: int, default: 4711} # é\n  b: {default: 'hunter2', secret: true, choices: [b, hunter2]}\n  c: open\ntasks:\n  t: {out: T, run: echo $a $b}\n"
	p := mustLoad(t, src, Options{LookupEnv: noEnv})
	if len(p.Warnings) != 2 || strings.Contains(p.Warnings.Error(), "4711") {
		t.Errorf("warnings: %v", p.Warnings)
	}
	if got := p.Param("a").Text() + p.Param("b").Text(); got != "4711hunter2" {
		t.Errorf("the values are %q", got)
	}
	kept := string(p.Snapshot())
	want := strings.Replace(strings.Replace(src, "4711", "0", 1), "'hunter2'", `"b"`, 1)
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Error(diff)
	}
	q := mustLoad(t, kept, Options{})
	if _, err := Load([]byte(kept), Options{LookupEnv: noEnv}); err != nil {
		t.Errorf("the snapshot can't be run: %v", err)
	}
	if q.Task("t").Fingerprint != p.Task("t").Fingerprint || q.Param("a").Value.Kind != 0 {
		t.Error("the snapshot is another pipeline")
	}
}

// What goes into the fingerprint of the newer keys, and what does not.
func TestFingerprintOfBodies(t *testing.T) {
	base := mustLoad(t, bodies, bodiesOptions())
	for _, c := range []struct{ task, old, new, field string }{
		{"embed", "concurrency: 8", "concurrency: 9", ""},
		{"embed", "    gpus: 1\n", "", ""},
		{"embed", "pool: api", "pool: disk", ""},
		{"embed", "save: vectors/{doc}-{model}.json", "save: v/{doc}", ""},
		{"embed", "on_error: hole", "on_error: stop", ""},
		{"docs", "key: ascii_downcase", "key: .", ""},
		{"docs", "keep: true", "keep: false", ""},
		{"embed", "--model, \"{model}\"", "\"{model}\"", "body"},
		{"embed", "model: small", "model: large", "param model"},
		{"embed", "MODEL: \"{model}\"", "MODEL: x", "env MODEL"},
		{"embed", "schema: schemas/vector.json", "schema: {type: array, minItems: 1}", "schema"},
		{"docs", "maxLength: 3", "maxLength: 4", "schema"},
		{"draw", "func: Draw", "func: Draw2", "body"},
		{"same", "holes: null}\n    out: Same", "holes: null}\n    workdir: x\n    out: Same", "workdir"},
		{"all", "{from: Vector<doc>, holes: null}, doc_doc", "Vector<doc>, doc_doc", "input vectors"},
	} {
		if !strings.Contains(bodies, c.old) {
			t.Fatalf("%q is not there", c.old)
		}
		was := base.Task(c.task)
		now := mustLoad(t, strings.Replace(bodies, c.old, c.new, 1), bodiesOptions()).Task(c.task)
		if moved := now.Fingerprint != was.Fingerprint; moved != (c.field != "") {
			t.Errorf("%s, %q → %q: moved %v", c.task, c.old, c.new, moved)
		}
		if diff := cmp.Diff(was.Fields, now.Fields); c.field != "" && !strings.Contains(diff, c.field) {
			t.Errorf("%q → %q: the fields do not say %s: %s", c.old, c.new, c.field, diff)
		}
	}
}

func TestSchemaFiles(t *testing.T) {
	const src = "pipeline: p\ntasks:\n  a: {out: A, run: echo, schema: PATH}\n"
	f := files{
		"s.json": "{\n\t\"type\": \"string\"\n}\n", "s.yaml": "type: string # a text\nmaxLength: 3\n",
		"bad.json": "{type: string}", "bad.yaml": "type: [\n", "wrong.json": `{"type": "text"}`, "list.json": "[]",
	}
	for path, want := range map[string]string{
		"s.json": `{"type":"string"}`, "s.yaml": `{"type":"string","maxLength":3}`, "true": "true", "false": "false",
		"bad.json": "error: is not JSON", "bad.yaml": "error: bad.yaml:", "wrong.json": "error: at /type", "list.json": "error: the schema is none",
		"none.json": "error: file does not exist",
	} {
		p, err := Load([]byte(strings.Replace(src, "PATH", path, 1)), Options{Files: f})
		if wantErr, isErr := strings.CutPrefix(want, "error: "); isErr {
			if err == nil || !strings.Contains(err.Error(), wantErr) {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if err != nil || string(p.Tasks[0].Schema) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	p, err := Load([]byte(strings.Replace(src, "PATH", "s.json", 1)), Options{})
	if err != nil || p.Tasks[0].Schema != nil {
		t.Errorf("without files: %v", err)
	}
}

// A breach names the innermost place and the rule.
func TestSchemaBreach(t *testing.T) {
	s, err := CompileSchema([]byte(`{"type":"object","required":["a"],"properties":{"a":{"type":"array","items":{"anyOf":[{"type":"string","maxLength":2},{"type":"null"}]}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		value any
		want  string
	}{
		{map[string]any{"a": []any{"x", "xyz"}}, "at /a/1: maxLength"},
		{map[string]any{}, "at the value: missing property 'a' (required)"},
		{"text", "at the value: got string, want object (type)"},
	} {
		err := s.Validate(c.value)
		if err == nil || !strings.HasPrefix(SchemaBreach(err), c.want) {
			t.Errorf("%v: %v", c.value, SchemaBreach(err))
		}
	}
	if got := SchemaBreach(errors.New("x")); got != "x" {
		t.Errorf("another error reads %q", got)
	}
}
