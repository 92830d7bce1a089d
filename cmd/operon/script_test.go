package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the scripts of testdata/script: each is a session with the
// program, and says what it must print.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("OPERON_UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			// Under the race detector every process sleeps a second at its end,
			// and the scripts start hundreds.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"jsonhas":  jsonHas,
			"killloop": killLoop,
			"waitfor":  waitFor,
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Getuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// exits runs a program and wants that exit code: exits CODE PROGRAM ARGS…
// Standard output and error go to the files out and err.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	// The script's own exec knows the environment and the folder, so only the
	// exit code is ours to find: the shell prints it.
	err = ts.Exec("sh", append([]string{"-c", `"$@" >out 2>err; echo $? >code`, "sh"}, args[1:]...)...)
	ts.Check(err)
	got := strings.TrimSpace(ts.ReadFile("code"))
	if got != strconv.Itoa(want) {
		ts.Fatalf("exit %s, want %d\nstdout:\n%s\nstderr:\n%s", got, want, ts.ReadFile("out"), ts.ReadFile("err"))
	}
}

// jsonHas wants that a field of the JSON object in a file, one line, holds a
// value: jsonhas FILE FIELD VALUE. A field of a list's item is tasks.0.done.
func jsonHas(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: jsonhas FILE FIELD VALUE")
	}
	var doc any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &doc))
	for step := range strings.SplitSeq(args[1], ".") {
		switch d := doc.(type) {
		case map[string]any:
			doc = d[step]
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n >= len(d) {
				ts.Fatalf("%s: no item %s", args[1], step)
			}
			doc = d[n]
		default:
			ts.Fatalf("%s: nothing below %v", args[1], d)
		}
	}
	if got := fmt.Sprint(doc); got != args[2] {
		ts.Fatalf("%s is %s, want %s\n%s", args[1], got, args[2], ts.ReadFile(args[0]))
	}
}

// waitFor waits until a command succeeds: waitfor PROGRAM ARGS…, two minutes
// at most. It is for what no rendezvous can be made with.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		err := ts.Exec(args[0], args[1:]...)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("waited for %s in vain: %v", strings.Join(args, " "), err)
		}
		<-tick.C
	}
}

// killLoop runs the program again and again, killed at the first, second, …
// commit point, each time in a fresh state, and then once undisturbed; what it
// ends with must be what a run without a kill gives: killloop EVERY ARGS… The
// script's check command, "sh check", prints what is to be compared.
func killLoop(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: killloop EVERY ARGS…")
	}
	every, err := strconv.Atoi(args[0])
	ts.Check(err)
	run := append([]string{"operon"}, args[1:]...)
	shell := func(env string) string {
		script := `rm -rf .operon; ` + env + ` "$@" >out 2>err; echo $? >code`
		ts.Check(ts.Exec("sh", append([]string{"-c", script, "sh"}, run...)...))
		return strings.TrimSpace(ts.ReadFile("code"))
	}
	check := func() string {
		ts.Check(ts.Exec("sh", "-c", "sh ./check >checked 2>&1"))
		return ts.ReadFile("checked")
	}
	if code := shell(""); code != "0" {
		ts.Fatalf("undisturbed: exit %s\n%s", code, ts.ReadFile("err"))
	}
	want := check()
	killed := 0
	for n := 1; ; n += every {
		code := shell("OPERON_TEST_KILL_AT=" + strconv.Itoa(n))
		if code == "0" {
			break
		}
		killed++
		if err := ts.Exec(run[0], run[1:]...); err != nil {
			ts.Fatalf("killed at commit point %d, the next run: %v", n, err)
		}
		if got := check(); got != want {
			ts.Fatalf("killed at commit point %d: got\n%s\nwant\n%s", n, got, want)
		}
	}
	if killed == 0 {
		ts.Fatalf("no commit point was met")
	}
	ts.Logf("killed %d times", killed)
}
