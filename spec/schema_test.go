package spec

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(JSONSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertVocabs()
	if err := c.AddResource("operon.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("operon.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON is src as an editor's YAML reader would hand it to a schema: scalars
// that look like JSON are that, everything else is text.
func asJSON(t *testing.T, src []byte) any {
	t.Helper()
	r := &report{text: newText(src)}
	root := r.parse()
	if root == nil || len(r.errs) > 0 {
		t.Fatalf("%v", r.errs)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(root.appendJSON(nil)))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchemaAcceptsWhatLoadDoes(t *testing.T) {
	s := compileSchema(t)
	files, err := filepath.Glob("../testdata/pipelines/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"everything": everything, "params": paramPipeline, "fingerprinted": fingerprinted, "bodies": bodies, "jq": jqPipeline(".")}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(src, []byte("pipeline:")) || bytes.Contains(src, []byte("\npipeline:")) {
			texts[file] = string(src)
		}
	}
	for name, src := range texts {
		if _, err := Load([]byte(src), Options{File: name}); err != nil {
			t.Errorf("%v", err)
			continue
		}
		if err := s.Validate(asJSON(t, []byte(src))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What one key alone makes wrong the schema sees too.
func TestSchemaRefuses(t *testing.T) {
	s := compileSchema(t)
	const head = "pipeline: p\ntasks:\n  a:\n    out: A\n"
	for _, src := range []string{
		"tasks: {a: {out: A, run: x}}", "pipeline: p", "pipeline: p\ntasks: {}", "pipeline: My P\ntasks: {a: {out: A, run: x}}",
		"pipeline: p\ntask: {}\ntasks: {a: {out: A, run: x}}", "pipeline: p\ntasks: {A: {out: A, run: x}}", "pipeline: p\ntasks: {a: {out: a, run: x}}",
		"pipeline: p\ntasks: {a: {out: 'A<i, j>', run: x}}", "pipeline: p\ntasks: {a: {run: x}}", "pipeline: p\ntasks: {a: {out: A}}",
		head + "    run: x\n    exec: [x]\n", head + "    rum: x\n", head + "    run: [x]\n", head + "    run: ''\n", head + "    exec: x\n", head + "    exec: []\n",
		head + "    run: x\n    pool: 0\n", head + "    run: x\n    pool: API\n", head + "    run: x\n    pool: {size: 1}\n",
		head + "    run: x\n    retry: -1\n", head + "    run: x\n    retry: {on: [exit]}\n", head + "    run: x\n    retry: {times: 1, on: [0]}\n", head + "    run: x\n    retry: {times: 1, jitter: 2}\n",
		head + "    run: x\n    timeout: 30\n", head + "    run: x\n    timeout: -1s\n", head + "    run: x\n    grace: 5 s\n",
		head + "    run: x\n    cache: no\n", head + "    run: x\n    shell: zsh\n", head + "    run: x\n    format: yaml\n", head + "    run: x\n    for: [I]\n",
		head + "    run: x\n    in: {X: A}\n", head + "    run: x\n    in: [[A]]\n", head + "    run: x\n    in: 'A<'\n", head + "    run: x\n    order: '--i'\n",
		head + "    run: x\n    env: [A]\n", head + "    run: x\n    env: {1A: x}\n", head + "    run: x\n    stdin: {as: text}\n", head + "    run: x\n    stdin: {from: x, as: xml}\n",
		head + "    run: x\n    schema: 1\n", head + "    run: x\n    schema: [a]\n", head + "    run: x\n    key: []\n", head + "    worker: x\n", head + "    worker: []\n",
		head + "    worker: {argv: [x], concurrency: 0}\n", head + "    worker: {concurrency: 1}\n", head + "    func: [x]\n", head + "    run: x\n    on_error: skip\n",
		head + "    run: x\n    cpus: 0\n", head + "    run: x\n    mem: 2\n", head + "    run: x\n    mem: 2 G\n", head + "    run: x\n    gpus: 0.5\n", head + "    run: x\n    keep: yes\n", head + "    run: x\n    save: []\n",
		"pipeline: p\npools: {a: 0}\n" + head[12:] + "    run: x\n", "pipeline: p\npools: {a: {rate: 5}}\n" + head[12:] + "    run: x\n",
		"pipeline: p\npools: {a: {rate: 5/d}}\n" + head[12:] + "    run: x\n", "pipeline: p\npools: {a: {sise: 5}}\n" + head[12:] + "    run: x\n",
		head + "    run: x\n    in: {from: 'X<i>', holes: 0}\n",
		head + "    source: {}\n", head + "    source: {glob: x, lines: y}\n", head + "    source: {count: -1}\n", head + "    source: {count: 1.5}\n", head + "    source: {glob: []}\n",
		"pipeline: p\nparams: {N: 1}\n" + head[12:] + "    run: x\n", "pipeline: p\nparams: {n: {type: number}}\n" + head[12:] + "    run: x\n",
		"pipeline: p\ndefaults: {out: A}\n" + head[12:] + "    run: x\n",
	} {
		if err := s.Validate(asJSON(t, []byte(src))); err == nil {
			t.Errorf("the schema takes %q", src)
		}
		if _, err := Load([]byte(src), Options{}); err == nil {
			t.Errorf("Load takes %q", src)
		}
	}
}

// Every key has a sentence.
func TestSchemaIsOfTheTables(t *testing.T) {
	text := string(JSONSchema())
	for _, table := range []*table{pipelineTable(), taskTable(), defaultsTable(), sourceTable(), stdinTable()} {
		for _, f := range table.fields {
			if f.doc == "" || f.shape == nil || f.shape.says == "" {
				t.Errorf("%s of %s has no documentation", f.name, table.of)
			}
			if quoted, _ := json.Marshal(f.doc); !bytes.Contains(unescape(text), unescape(string(quoted))) {
				t.Errorf("%s: %s is not in the schema", f.name, f.doc)
			}
		}
	}
}

// unescape takes out how JSON happens to write < and >.
func unescape(s string) []byte {
	return []byte(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(s))
}
