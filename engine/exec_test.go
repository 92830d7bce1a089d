package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"operon/engine"
	"operon/engine/worker"
	"operon/spec/coord"
	"operon/spec/value"
)

const execYAML = `pipeline: execs
params: {n: {default: 7, type: int}}
tasks:
  list:
    out: Page<page>
    run: printf 'one\ntwo\n'
  work:
    in: {text: Page}
    for: page
    out: Done
    env: {WORD: "{text}"}
    run: |
      echo "to stderr of $OPERON_TASK at $OPERON_COORD" >&2
      echo "$WORD $n $page $OPERON_ATTEMPT"
      test "$page" != 1
    on_error: hole
  file:
    in: {text: Page}
    for: page
    out: Copy
    format: file
    run: printf '%s' "$text" > "$out"
  read:
    in: {copy: Copy}
    for: page
    out: Text
    run: cat "$copy"; echo " $(basename "$copy")"
  all:
    in: Done<page>
    out: All
    run: cat
`

// exec runs a job and describes what came of it.
func (p *project) exec(task string, at coord.Binding) (string, error) {
	p.t.Helper()
	pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	var b strings.Builder
	err = engine.Exec(p.t.Context(), pl, engine.Options{Dir: p.dir}, engine.ExecQuery{Task: task, At: at}, func(x *engine.Execution) error {
		for _, v := range x.Items {
			if v.Kind == value.File {
				text, err := os.ReadFile(v.File.Path)
				fmt.Fprintf(&b, "file %s: %s, %v\n", v.File.Name, text, err)
				continue
			}
			fmt.Fprintf(&b, "%s\n", v.JSON)
		}
		if x.Failed != nil {
			fmt.Fprintf(&b, "failed: %s\n", x.Failed.Message)
		}
		if x.Log != "" {
			text, err := os.ReadFile(x.Log)
			fmt.Fprintf(&b, "stderr: %s%v\n", text, err)
		}
		return nil
	})
	return b.String(), err
}

func TestExecRunsOneJobByHand(t *testing.T) {
	p := newProject(t, execYAML)
	if _, err := p.exec("work", coord.Binding{"page": 0}); !errors.Is(err, engine.ErrNoState) {
		t.Errorf("without a state: %v", err)
	}
	if got, err := p.exec("list", nil); err != nil || got != "\"one\"\n\"two\"\n" {
		t.Errorf("a root needs none: %q, %v", got, err)
	}
	p.mustRun(engine.Options{})
	before := p.values("Done") + p.holes("Done")
	for _, c := range []struct {
		task string
		at   coord.Binding
		want string
	}{
		{"work", coord.Binding{"page": 0}, "\"one 7 0 1\"\nstderr: to stderr of work at page=0\n<nil>\n"},
		{"work", coord.Binding{"page": 1}, "failed: exit status 1\nstderr: to stderr of work at page=1\n<nil>\n"},
		{"file", coord.Binding{"page": 1}, "file copy: two, <nil>\n"},
		{"read", coord.Binding{"page": 1}, "\"two copy\"\n"},
	} {
		if got, err := p.exec(c.task, c.at); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.task, got, err, c.want)
		}
	}
	var hole *worker.HoleError
	if _, err := p.exec("all", nil); !errors.As(err, &hole) || hole.Reason != "exit status 1: to stderr of work at page=1" {
		t.Errorf("%v", err)
	}
	for _, at := range []coord.Binding{nil, {"page": 2}, {"pge": 1}} {
		var unknown *engine.UnknownError
		if _, err := p.exec("work", at); !errors.As(err, &unknown) {
			t.Errorf("%v: %v", at, err)
		}
	}
	if after := p.values("Done") + p.holes("Done"); after != before {
		t.Errorf("something was stored:\n%s\n%s", before, after)
	}
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "operon-exec-*"))
	if len(left) > 0 {
		t.Errorf("folders stay: %v", left)
	}
	// An edited body is what runs.
	p.edit(strings.Replace(execYAML, `test "$page" != 1`, "", 1))
	if got, err := p.exec("work", coord.Binding{"page": 1}); err != nil || !strings.HasPrefix(got, "\"two 7 1 1\"\n") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestExecOfWhatIsNotThereYet(t *testing.T) {
	p := newProject(t, execYAML)
	p.mustRun(engine.Options{Until: []string{"list"}})
	if _, err := p.exec("read", coord.Binding{"page": 0}); !errors.Is(err, engine.ErrNotThereYet) {
		t.Errorf("%v", err)
	}
	l := p.start(engine.Options{Fresh: true})
	l.r.Await("list", "")
	var used *engine.InUseError
	if _, err := p.exec("list", nil); !errors.As(err, &used) {
		t.Errorf("beside an engine: %v", err)
	}
	l.stop()
	l.wait()
}
