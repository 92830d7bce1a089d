package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// servedVersions are a pipeline before and after an edit: total is replaced, double
// is gone, half is new. Each job of make leaves a line in runs, and most wait for go.
var servedVersions = []string{`pipeline: p
tasks:
  items: {out: Item<i>, source: {values: [1, 2, 3, 4, 5, 6]}}
  make: {in: Item, for: i, out: Made, run: 'echo "$item" >>runs; until test "$item" -lt 3 -o -e go; do sleep 0.01; done; echo $((item * 10))'}
  double: {in: Made, for: i, out: Double, run: 'echo $((made * 2))'}
  total: {in: Made<i>, out: Total, run: 'tr -d "[]" | tr , "\n" | awk "{s += \$1} END {print s}"'}
`, `pipeline: p
tasks:
  items: {out: Item<i>, source: {values: [1, 2, 3, 4, 5, 6]}}
  make: {in: Item, for: i, out: Made, run: 'echo "$item" >>runs; until test "$item" -lt 3 -o -e go; do sleep 0.01; done; echo $((item * 10))'}
  half: {in: Made, for: i, out: Half, run: 'echo $((made / 2))'}
  total: {in: Half<i>, out: Total, run: 'tr -d "[]" | tr , "\n" | awk "{s += \$1} END {print s}"'}
`}

// served is a folder that a server and its clients work in.
type served struct {
	t   *testing.T
	dir string
}

func newServed(t *testing.T) *served {
	s := &served{t, t.TempDir()}
	s.edit(0)
	return s
}

// edit puts a version of the pipeline in the place of what is there.
func (s *served) edit(version int) {
	s.t.Helper()
	temp := filepath.Join(s.dir, "p.new")
	if err := os.WriteFile(temp, []byte(servedVersions[version]), 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(s.dir, "p.yaml")); err != nil {
		s.t.Fatal(err)
	}
}

// release lets the jobs that wait go on.
func (s *served) release() {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// process is a program that was started, and what it says.
type process struct {
	*exec.Cmd
	out, errs bytes.Buffer
	ended     chan struct{}
}

func (s *served) start(env string, args ...string) *process {
	s.t.Helper()
	p := &process{Cmd: exec.Command("operon", args...), ended: make(chan struct{})}
	p.Dir, p.Stdout, p.Stderr = s.dir, &p.out, &p.errs
	p.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", env)
	if err := p.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		p.Wait()
		close(p.ended)
	}()
	s.t.Cleanup(func() { p.end() })
	return p
}

// end kills the program if it runs, and waits for its end.
func (p *process) end() {
	p.Process.Kill()
	<-p.ended
}

// serve starts a server that kills itself at a commit point, 0 for none, and waits
// until it answers or has ended.
func (s *served) serve(killAt int) *process {
	s.t.Helper()
	env := ""
	if killAt > 0 {
		env = fmt.Sprintf("OPERON_TEST_KILL_AT=%d", killAt)
	}
	os.Remove(filepath.Join(s.dir, ".operon", "serve.sock")) // of one that was killed
	p := s.start(env, "serve", "-j2")
	s.until(p, func() bool {
		_, err := os.Stat(filepath.Join(s.dir, ".operon", "serve.sock"))
		return err == nil
	})
	return p
}

// until waits for something, or for the end of a server.
func (s *served) until(server *process, there func() bool) {
	s.t.Helper()
	deadline := time.After(2 * time.Minute)
	for !there() {
		select {
		case <-server.ended:
			return
		case <-deadline:
			s.t.Fatalf("what is waited for does not come; the server says:\n%s", server.errs.String())
		case <-time.After(time.Millisecond):
		}
	}
}

// runs is how often each item's job was begun.
func (s *served) runs() map[string]int {
	text, _ := os.ReadFile(filepath.Join(s.dir, "runs"))
	out := map[string]int{}
	for line := range strings.FieldsSeq(string(text)) {
		out[line]++
	}
	return out
}

// durable are the items whose jobs the state has results of, read while nobody
// has it.
func (s *served) durable() []string {
	s.t.Helper()
	p := s.start("", "get", "p.yaml", "Made", "--json")
	<-p.ended
	var out []string
	for line := range bytes.Lines(p.out.Bytes()) {
		var v struct{ Value string }
		if err := json.Unmarshal(line, &v); err != nil || v.Value == "" {
			s.t.Fatalf("get says %q, %v", line, err)
		}
		out = append(out, strings.TrimSuffix(v.Value, "0"))
	}
	return out
}

func (s *served) mustSay(want string, args ...string) {
	s.t.Helper()
	p := s.start("", args...)
	<-p.ended
	if code := p.ProcessState.ExitCode(); code != 0 || want != "" && p.out.String() != want {
		s.t.Fatalf("operon %s: exit %d\n%s%s", strings.Join(args, " "), code, p.out.String(), p.errs.String())
	}
}

// edited lets a server that kills itself at a commit point run the pipeline, gives
// it the edited one once a job has begun, and reports whether it was killed.
func (s *served) edited(killAt int) (killed bool) {
	s.t.Helper()
	server := s.serve(killAt)
	first := s.start("", "run", "p.yaml", "--server", "--ui", "quiet")
	s.until(server, func() bool { return len(s.runs()) > 0 })
	s.edit(1)
	second := s.start("", "run", "p.yaml", "--server", "--ui", "quiet")
	s.until(server, func() bool {
		status := s.start("", "status", "p.yaml", "--server", "--json")
		<-status.ended
		return bytes.Contains(status.out.Bytes(), []byte(`"half"`))
	})
	s.release()
	<-second.ended
	<-first.ended
	select {
	case <-server.ended:
		return true
	default:
	}
	server.end()
	return false
}

// A server is killed at a commit point while one client's pipeline runs, or while
// another client edits it. The next server goes on with the edited one: the results
// are the same, and no job runs again whose result was durable.
func TestServerKilledAtEachPoint(t *testing.T) {
	step := 11
	if os.Getenv("OPERON_LONG") != "" {
		step = 1
	}
	kills := 0
	for killAt, whole := 1, 0; whole < 3; killAt += step {
		s := newServed(t)
		killed := s.edited(killAt)
		if killed {
			kills++
		} else {
			whole++ // it was to be killed after its end
		}
		durable, before := []string{}, s.runs()
		if _, err := os.Stat(filepath.Join(s.dir, ".operon", "p", "data.db")); err == nil {
			durable = s.durable()
		}
		server := s.serve(0)
		s.mustSay("", "run", "p.yaml", "--server", "--ui", "quiet")
		server.end()
		s.mustSay("105\n", "get", "p.yaml", "Total")
		s.mustSay("", "check-consistency", "p.yaml", "--mode", "exhaustive")
		after := s.runs()
		for _, item := range durable {
			if after[item] != before[item] {
				t.Errorf("kill at %d: item %s, whose result was durable, was run %d times, and %d before", killAt, item, after[item], before[item])
			}
		}
		if len(after) != 6 {
			t.Errorf("kill at %d: %v", killAt, after)
		}
		if t.Failed() {
			break
		}
	}
	if kills == 0 {
		t.Error("no server was killed")
	}
	t.Logf("%d servers killed", kills)
}
