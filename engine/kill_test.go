package engine_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"operon/engine"
	"operon/storage"
)

// killed is a pipeline of every kind of body and entity, empty lists included.
// Each process notes that it began.
const killed = `pipeline: killed
tasks:
  seed:
    out: Seed<i>
    source: {count: 4}
  grow:
    in: Seed
    for: i
    out: Leaf<j>
    run: |
      echo "grow i=$i" >> "$RAN"
      n=$(cat)
      seq 1 $((n % 3))
  twice:
    in: Leaf
    for: [i, j]
    out: Twice
    jq: '. + "-" + .'
  pack:
    in: Twice
    for: [i, j]
    out: Pack
    format: file
    run: |
      echo "pack i=$i,j=$j" >> "$RAN"
      { cat; head -c 20000 /dev/zero | tr '\0' "$j"; } > "$out"
  sum:
    in: Twice<j>
    for: i
    out: Sum
    exec: [sh, -c, 'echo "sum i=$1" >> "$RAN"; wc -l', sum, "{i}"]
  odd:
    in: Twice
    for: [i, j]
    out: Odd
    jq: 'if startswith("1") then error("no luck") else . end'
    on_error: hole
  below: {in: Odd, for: [i, j], out: Below, jq: '.'}
  list: {in: {odds: {from: "Odd<i, j>", holes: null}}, out: List, jq: '.'}
  all:
    in: ["Pack<i, j>", "Sum<i>"]
    out: All
    run: echo "all " >> "$RAN"; cat | wc -c; echo "$sum_i"
`

var killedEntities = []string{"Seed", "Leaf", "Twice", "Pack", "Sum", "Odd", "Below", "List", "All"}

// victim is a project whose engine runs as a process of its own.
type victim struct {
	*project
	ran string
	env []string // of its engine
}

func newVictim(t *testing.T) *victim {
	p := newProject(t, killed)
	return &victim{project: p, ran: filepath.Join(p.dir, "ran")}
}

// command is the engine as a process; killAt is the commit point at which it
// kills itself, 0 for none.
func (v *victim) command(killAt int) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "OPERON_TEST_PIPELINE="+v.file, "OPERON_TEST_DIR="+v.dir,
		fmt.Sprintf("OPERON_TEST_KILL_AT=%d", killAt), "RAN="+v.ran)
	cmd.Env = append(cmd.Env, v.env...)
	return cmd
}

// runChild runs a child to its end, and returns what it said; or to its death by
// its own hand, and then killed is true.
func runChild(t testing.TB, cmd *exec.Cmd, what string) (out, errs []byte, killed bool) {
	t.Helper()
	var said, wrong bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &wrong
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return nil, nil, true
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", what, err, wrong.String())
	}
	return said.Bytes(), wrong.Bytes(), false
}

// runTo runs the engine to its end, or to its death: then killed is true.
func (v *victim) runTo(killAt int) (points int, killed bool) {
	v.t.Helper()
	out, errs, killed := runChild(v.t, v.command(killAt), fmt.Sprintf("kill at %d", killAt))
	if killed {
		return 0, true
	}
	var said struct {
		Points  int
		Summary engine.Summary
	}
	if err := json.Unmarshal(out, &said); err != nil {
		v.t.Fatalf("%v in %q", err, string(out))
	}
	if said.Summary.State != engine.StateComplete {
		v.t.Fatalf("kill at %d: %+v\n%s", killAt, said.Summary, errs)
	}
	return said.Points, false
}

// finished are the jobs whose record is durable, as the bodies note themselves.
func (v *victim) finished() map[string]bool {
	v.t.Helper()
	out := map[string]bool{}
	s, err := storage.Open(filepath.Join(v.dir, ".operon", "killed"), storage.Options{ReadOnly: true})
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return out
		}
		v.t.Fatal(err)
	}
	defer s.Close()
	err = s.View(func(r *storage.Reader) error {
		headers, err := r.Headers()
		if err != nil {
			return err
		}
		for _, h := range headers {
			err := r.Records(h.ID, "", func(rec storage.Record) error {
				out[h.Task+" "+rec.Coord.Format(h.Dims)] = true
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		v.t.Fatal(err)
	}
	return out
}

// began are the jobs that noted that they began, from the n-th note on.
func (v *victim) began(n int) []string {
	text, err := os.ReadFile(v.ran)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		v.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	return lines[min(n, len(lines)):]
}

func (v *victim) entities() string {
	var b strings.Builder
	for _, e := range killedEntities {
		b.WriteString(v.values(e))
	}
	return b.String()
}

// consistent wants an exhaustive check to find no fault.
func (v *victim) consistent(what string) {
	v.t.Helper()
	if rep, err := v.check(engine.Exhaustive); err == nil && !rep.Consistent {
		v.t.Errorf("%s: %+v", what, rep.Faults)
	} else if err != nil && !errors.Is(err, engine.ErrNoState) {
		v.t.Errorf("%s: %v", what, err)
	}
}

// resume runs to the end and checks that nothing finished ran again.
func (v *victim) resume(what string, want string) {
	v.t.Helper()
	v.consistent(what + ", before the resume")
	done, before := v.finished(), len(v.began(0))
	v.runTo(0)
	v.consistent(what + ", after the resume")
	for _, job := range v.began(before) {
		if done[job] {
			v.t.Errorf("%s: %s ran again", what, job)
		}
	}
	if got := v.entities(); got != want {
		v.t.Errorf("%s: the entities differ:\n%s\nwant\n%s", what, got, want)
	}
	v.noProcessLeft(what)
}

// noProcessLeft looks for processes that still hold the project's name.
func (v *victim) noProcessLeft(what string) {
	v.t.Helper()
	procs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range procs {
		env, err := os.ReadFile(p)
		if err == nil && bytes.Contains(env, []byte("RAN="+v.ran+"\x00")) {
			v.t.Errorf("%s: %s is left over", what, filepath.Dir(p))
		}
	}
}

// The engine is killed at each commit point in turn; after a resume everything
// is as if it had not been.
func TestKillAtEveryCommitPoint(t *testing.T) {
	t.Parallel()
	undisturbed := newVictim(t)
	points, _ := undisturbed.runTo(0)
	want := undisturbed.entities()
	if strings.Count(want, "\n") < 15 {
		t.Fatalf("only\n%s", want)
	}
	step := 1
	if os.Getenv("OPERON_LONG") == "" {
		step = max(1, points/6)
	}
	kills := 0
	for at := 1; ; at += step {
		v := newVictim(t)
		if _, killed := v.runTo(at); !killed {
			break
		}
		kills++
		v.resume(fmt.Sprintf("killed at point %d", at), want)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d commit points, %d kills, %d resumes, differences: 0", points, kills, kills)
	if kills == 0 {
		t.Error("nothing was killed")
	}
}

// The engine is killed at random moments, again and again, until it gets to the
// end in between.
func TestKillAtRandomTimes(t *testing.T) {
	t.Parallel()
	undisturbed := newVictim(t)
	undisturbed.runTo(0)
	want := undisturbed.entities()
	rounds := 2
	if os.Getenv("OPERON_LONG") != "" {
		rounds = 25
	}
	kills, jobs := 0, 0
	for range rounds {
		v := newVictim(t)
		for range 6 {
			done, before := v.finished(), len(v.began(0))
			cmd := v.command(0)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			timer := time.AfterFunc(time.Duration(rand.IntN(80))*time.Millisecond, func() { cmd.Process.Kill() })
			if cmd.Wait() != nil {
				kills++
			}
			timer.Stop()
			v.consistent("killed at random")
			for _, job := range v.began(before) {
				jobs++
				if done[job] {
					t.Errorf("%s ran again", job)
				}
			}
		}
		v.resume("killed at random", want)
	}
	t.Logf("%d rounds, %d kills, %d jobs begun, differences: 0", rounds, kills, jobs)
}

// A later run is killed at each commit point in turn: one that runs something
// again, one after an edit, one that first makes the metadata again.
func TestKillLaterRuns(t *testing.T) {
	t.Parallel()
	complete := newVictim(t)
	complete.runTo(0)
	want := complete.entities()
	step := 5
	if os.Getenv("OPERON_LONG") != "" {
		step = 1
	}
	for _, c := range []struct {
		name   string
		env    []string
		before func(v *victim)
	}{
		{"redo", []string{"OPERON_TEST_REDO=grow pack"}, func(*victim) {}},
		{"edit", nil, func(v *victim) { v.edit(strings.Replace(killed, "seq 1", "seq  1", 1)) }},
		{"rebuild", []string{"OPERON_TEST_REBUILD=1"}, func(v *victim) { v.removeMeta("killed") }},
		{"rebuild by itself", nil, func(v *victim) { v.removeMeta("killed") }},
	} {
		kills := 0
		for at := 1; ; at += step {
			v := &victim{project: complete.copied(func(*project) {}), env: c.env}
			v.ran = filepath.Join(v.dir, "ran")
			c.before(v)
			if _, killed := v.runTo(at); !killed {
				break
			}
			kills++
			what := fmt.Sprintf("%s, killed at point %d", c.name, at)
			if !strings.HasPrefix(c.name, "rebuild") { // which starts from what is not consistent
				v.consistent(what)
			}
			v.env = nil
			v.runTo(0)
			v.consistent(what + ", after the resume")
			if got := v.entities(); got != want {
				t.Fatalf("%s: the entities differ:\n%s\nwant\n%s", what, got, want)
			}
		}
		if kills == 0 {
			t.Errorf("%s: nothing was killed", c.name)
		}
		t.Logf("%s: %d kills", c.name, kills)
	}
}
