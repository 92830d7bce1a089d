package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"operon/engine"
)

const handed = `pipeline: handed
tasks:
  a: {out: A, format: file, file: a.bin, run: "head -c 300000 /dev/zero"}
  b: {in: A, out: B, run: 'wc -c < "$a"'}
`

// onlyBlob is the one stored file of the project.
func (p *project) onlyBlob(pipeline string) string {
	p.t.Helper()
	found, _ := filepath.Glob(filepath.Join(p.stateDir(pipeline), "blobs", "*"))
	for _, path := range found {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	p.t.Fatalf("no blob among %v", found)
	return ""
}

// A stored file that is not what was written never reaches a job.
func TestADamagedFileReachesNoJob(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string) error{
		"cut short": func(path string) error { return os.Truncate(path, 100) },
		"one byte": func(path string) error {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text[1000] = 1
			return os.WriteFile(path, text, 0o644)
		},
		"gone": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t, handed)
			p.mustRun(engine.Options{})
			blob := p.onlyBlob("handed")
			if err := os.Chmod(blob, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := damage(blob); err != nil {
				t.Fatal(err)
			}
			p.edit(strings.Replace(handed, "wc -c", "wc  -c", 1))
			var wrong *engine.InconsistentError
			if s, err := p.run(engine.Options{}); !errors.As(err, &wrong) {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}

// A job can't change what it is handed for others.
func TestAJobChangesNoStoredFile(t *testing.T) {
	p := newProject(t, `pipeline: p
tasks:
  g: {out: G, format: file, run: echo one}
  bad: {in: G, out: Bad, run: 'chmod u+w "$g"; echo HACK >> "$g"; cat "$g"'}
  after: {in: [G, Bad], out: After, run: ': "$bad"; cat "$g"', stdin: none}
`)
	p.mustRun(engine.Options{})
	if got := p.values("After"); got != "\"one\"\n" {
		t.Errorf("%q", got)
	}
}

// What a job returned while a file that it depends on changed is not kept.
func TestAResultOfChangedInputsIsNotKept(t *testing.T) {
	for name, yaml := range map[string]string{
		"source": `pipeline: p
tasks:
  f: {out: F<k>, source: {glob: "in/*.txt"}}
  r: {in: F, for: k, out: R, run: 'test -e changed || { touch changed; echo v2 > in/1.txt; }; cat "$f"'}
`,
		"dependency": `pipeline: p
tasks:
  r: {out: R, deps: in/1.txt, run: 'test -e changed || { touch changed; echo v2 > in/1.txt; }; cat in/1.txt'}
`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t, yaml)
			if err := os.Mkdir(filepath.Join(p.dir, "in"), 0o755); err != nil {
				t.Fatal(err)
			}
			p.write("in/1.txt", "v1\n")
			s, err := p.run(engine.Options{})
			if err != nil || s.Failed != 1 || !strings.Contains(s.Failures[0].Sample.Message, "in/1.txt changed while the run was under way") {
				t.Fatalf("%+v %v", s, err)
			}
			p.write("in/1.txt", "v1\n")
			p.mustRun(engine.Options{})
			if got := p.values("R"); !strings.HasSuffix(got, "\"v1\"\n") {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestGlobCopies(t *testing.T) {
	p := newProject(t, `pipeline: p
tasks:
  f: {out: F<k>, source: {glob: "*.txt", copy: true}}
  r: {in: F, for: k, out: R, run: 'cat "$f"'}
`)
	p.write("1.txt", "one")
	p.mustRun(engine.Options{})
	if got := p.values("R"); got != "k=0 \"one\"\n" {
		t.Errorf("%q", got)
	}
}
