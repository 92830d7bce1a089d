package body

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An engine that is killed at once leaves the children of a job's shell behind.
// The next one ends them, and nobody else.
func TestEndStraysAfterAKilledEngine(t *testing.T) {
	if dir := os.Getenv("OPERON_TEST_ENGINE"); dir != "" {
		beKilled(t, dir)
		return
	}
	dir := t.TempDir()
	engine := exec.Command(os.Args[0], "-test.run=^TestEndStraysAfterAKilledEngine$")
	engine.Env = append(os.Environ(), "OPERON_TEST_ENGINE="+dir)
	if err := engine.Start(); err != nil {
		t.Fatal(err)
	}
	waitForFile(filepath.Join(dir, "work", "started"))
	if err := engine.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = engine.Wait() // killed
	bystander := exec.Command("sleep", "300")
	other := "another-" + tokenOf(dir)
	bystander.Env = []string{"OPERON_JOB=" + other}
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = bystander.Process.Kill()
		_ = bystander.Wait()
	}()

	settles(func() bool { return len(alive(other)) == 1 }) // it has done its exec

	token := tokenOf(dir)
	ended, err := EndStrays(t.Context(), filepath.Join(dir, "running"), token+"-")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, s := range ended {
		if !strings.HasPrefix(s.Token, token) || s.PID == 0 {
			t.Errorf("ended %+v", s)
		}
		if strings.Contains(s.Command, "sleep 30") {
			found++
		}
	}
	if found < 2 {
		t.Errorf("ended %+v, want the two that sleep", ended)
	}
	if left := alive(token + "-1"); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
	if len(alive(other)) != 1 {
		t.Error("a bystander was killed")
	}
	again, err := EndStrays(t.Context(), filepath.Join(dir, "running"), token+"-")
	if err != nil || len(again) > 0 {
		t.Errorf("the second time: %+v, %v", again, err)
	}
}

// beKilled is the engine of the test above: it runs a job that never ends.
func beKilled(t *testing.T, dir string) {
	r, err := OpenRunning(filepath.Join(dir, "running"), 1)
	if err != nil {
		t.Fatal(err)
	}
	slot, err := NewSlot(SlotOptions{Running: r, Dir: filepath.Join(dir, "slots")})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	task := script("sleep 301 & setsid -f sleep 302; echo >started; sleep 303; echo")
	complete(task)
	run, err := New(&Config{Dir: filepath.Join(dir, "work"), Environ: []string{"PATH=" + os.Getenv("PATH")}}, task)
	if err != nil {
		t.Fatal(err)
	}
	_, err = run.Run(t.Context(), slot, &Job{Token: tokenOf(dir) + "-1", Dir: filepath.Join(dir, "job")})
	t.Fatalf("it ended: %v", err)
}

func TestEndStraysNeedsAPrefix(t *testing.T) {
	if _, err := EndStrays(t.Context(), "nothing", ""); err == nil {
		t.Error("an empty prefix was taken")
	}
	if ended, err := EndStrays(t.Context(), filepath.Join(t.TempDir(), "nothing"), "no-such-token"); err != nil || len(ended) > 0 {
		t.Errorf("%v, %v", ended, err)
	}
}

// tokenOf is a token that no other test has, of this run of the tests or another.
func tokenOf(dir string) string { return filepath.Base(filepath.Dir(dir)) }
