package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"operon/engine"
)

const examples = "../testdata/pipelines"

// Every example ends with what was computed for it without the engine, and a
// second run finds nothing to do.
func TestExamples(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(examples, "*", "expected"))
	if err != nil || len(dirs) < 8 {
		t.Fatalf("%d examples, %v", len(dirs), err)
	}
	for _, dir := range dirs {
		name := filepath.Base(filepath.Dir(dir))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := copyExample(t, name)
			o := engine.Options{Jobs: 2, Environ: append(os.Environ(), "LC_ALL=C.UTF-8")}
			if s := p.mustRun(o); s.State != engine.StateComplete || s.Failed > 0 {
				t.Fatalf("%+v", s)
			}
			p.compare(filepath.Join(examples, name, "expected"))
			if s := p.mustRun(o); s.Executed != 0 || s.State != engine.StateComplete {
				t.Errorf("the second run executed %d", s.Executed)
			}
		})
	}
}

func copyExample(t *testing.T, name string) *project {
	t.Helper()
	p := &project{t: t, dir: t.TempDir()}
	p.file = filepath.Join(p.dir, name+".yaml")
	from := filepath.Join(examples, name)
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, path)
		if d.IsDir() {
			if rel == "expected" {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(p.dir, rel), 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(p.dir, rel), text, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// compare holds every entity against its file of expected values, but for those
// whose bytes depend on a tool's version.
func (p *project) compare(dir string) {
	p.t.Helper()
	skip, _ := os.ReadFile(filepath.Join(dir, "SKIP"))
	files, _ := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	for _, file := range files {
		entity := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		if slices.Contains(strings.Fields(string(skip)), entity) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			p.t.Fatal(err)
		}
		want, got := decodeLines(p.t, text), decodeLines(p.t, p.jsonl(entity))
		if !reflect.DeepEqual(got, want) {
			p.t.Errorf("%s is\n%v\nwant\n%v", entity, got, want)
		}
	}
}

// jsonl is an entity as get prints it with --json.
func (p *project) jsonl(entity string) []byte {
	p.t.Helper()
	pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	dir, err := engine.StateDirOf(pl, engine.Options{Dir: p.dir})
	if err != nil {
		p.t.Fatal(err)
	}
	s, err := engine.OpenState(dir)
	if err != nil {
		p.t.Fatal(err)
	}
	defer s.Close()
	var b bytes.Buffer
	dims := pl.Entity(entity).DimNames()
	_, err = s.Values(context.Background(), engine.Query{Entity: entity}, func(it engine.Item) error {
		at := map[string]uint32{}
		for n, d := range dims {
			at[d] = it.Coord.At(n)
		}
		coord, _ := json.Marshal(at)
		fmt.Fprintf(&b, `{"entity":%q,"coord":%s,"value":%s}`+"\n", entity, coord, it.Value.AppendJSON(nil))
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return b.Bytes()
}

func decodeLines(t testing.TB, text []byte) []any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var out []any
	for {
		var v any
		if err := d.Decode(&v); err == io.EOF {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
}
