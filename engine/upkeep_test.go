package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"operon/engine"
)

// childDo is a child of a test that looks after a state: it kills itself at a
// commit point if it is told to, and else prints how many points it passed.
func childDo(do string) int {
	at, _ := strconv.ParseInt(os.Getenv("OPERON_TEST_KILL_AT"), 10, 64)
	dir, file := os.Getenv("OPERON_TEST_DIR"), os.Getenv("OPERON_TEST_PIPELINE")
	var points atomic.Int64
	hook := func(string) {
		if points.Add(1) == at {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // until it has arrived
		}
	}
	if do == "live" {
		n, err := liveChild(dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(n)
		return 0
	}
	if err := upkeep(context.Background(), do, dir, file, hook); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(points.Load())
	return 0
}

// upkeep does one of the things that look after a state.
func upkeep(ctx context.Context, do, dir, file string, hook func(string)) (err error) {
	switch do {
	case "clean":
		_, err = engine.Clean(ctx, dir, engine.CleanOptions{Hook: hook})
	case "compact":
		_, err = engine.Compact(ctx, dir, engine.CompactOptions{Hook: hook})
	case "accept":
		pl, loaded := engine.LoadFile(file, engine.LoadOptions{})
		if loaded != nil {
			return loaded
		}
		_, err = engine.Accept(ctx, pl, engine.AcceptOptions{Dir: filepath.Dir(file), Task: "pack", Hook: hook})
	default:
		err = fmt.Errorf("no such thing to do: %s", do)
	}
	return err
}

// doTo is upkeep in a process of its own, up to its end, or to its death: then
// killed is true.
func (p *project) doTo(do, state string, killAt int) (points int, killed bool) {
	p.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "OPERON_TEST_DO="+do, "OPERON_TEST_DIR="+p.stateDir(state), "OPERON_TEST_PIPELINE="+p.file,
		fmt.Sprintf("OPERON_TEST_KILL_AT=%d", killAt))
	out, _, killed := runChild(p.t, cmd, fmt.Sprintf("%s, kill at %d", do, killAt))
	if killed {
		return 0, true
	}
	points, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		p.t.Fatal(err)
	}
	return points, false
}

// copyTree copies a folder, so that many tests can start from one state.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// killEverywhere prepares a project once, and kills what is done to a copy of it
// at each commit point in turn. check looks at the state after the kill, and
// finish does the same thing again and looks at what it came to.
func killEverywhere(t *testing.T, prepare func(*project) string, do string, check, finish func(what string, p *project)) {
	t.Helper()
	origin := newProject(t, "")
	state := prepare(origin)
	copyOf := func() *project {
		p := &project{t: t, dir: filepath.Join(t.TempDir(), "copy")}
		copyTree(t, origin.dir, p.dir)
		p.file = filepath.Join(p.dir, "p.yaml")
		return p
	}
	undisturbed := copyOf()
	points, _ := undisturbed.doTo(do, state, 0)
	finish("undisturbed", undisturbed)
	step := 1
	if os.Getenv("OPERON_LONG") == "" {
		step = max(1, points/8)
	}
	kills := 0
	for at := 1; at <= points; at += step {
		p := copyOf()
		if _, killed := p.doTo(do, state, at); !killed {
			break
		}
		kills++
		what := fmt.Sprintf("killed at point %d of %d", at, points)
		check(what, p)
		p.doTo(do, state, 0)
		finish(what, p)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d commit points, %d kills", points, kills)
	if kills == 0 {
		t.Error("nothing was killed")
	}
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
