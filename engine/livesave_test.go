package engine_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"operon/engine"
)

// What an earlier version of a task made is never saved over what a later one
// made, however long saving takes.
func TestSaveWhileReconciled(t *testing.T) {
	const hold = "pipeline: live\ntasks:\n  hold: {out: Hold, exec: [\"true\"]}\n"
	p := newProject(t, hold+"  slow: {out: Slow, exec: [\"true\"], save: out/slow.txt}\n  fast: {out: Fast, exec: [\"true\"], save: out/fast.txt}\n")
	held := p.holdSave("live", "out")
	l := p.start(engine.Options{Jobs: 4})
	l.r.OK("slow", "", `1`)
	held.await()
	l.r.OK("fast", "", `1`)
	l.awaitDone("fast", 1)
	l.reconcile(p, hold+"  fast: {out: Fast, exec: [\"true\", \"edited\"], save: out/fast.txt}\n", "hold keep, fast replace fingerprint, slow drop")
	l.r.OK("fast", "", `2`)
	l.awaitDone("fast", 1)
	for range 20 { // a second saver would have its chance
		time.Sleep(10 * time.Millisecond)
	}
	held.release()
	l.r.OK("hold", "", `0`)
	l.wait()
	if err := os.Remove(filepath.Join(p.dir, "out", "slow.txt")); err != nil { // the FIFO, under its last name
		t.Fatal(err)
	}
	if got := p.saved("out")["fast.txt"]; got != "2\n" {
		t.Errorf("saved %q", got)
	}
}

// That holds with a version in between that saves nothing, too.
func TestSaveWhileReconciledTwice(t *testing.T) {
	const hold = "pipeline: live\ntasks:\n  hold: {out: Hold, exec: [\"true\"]}\n"
	p := newProject(t, hold+"  task: {out: Task, exec: [\"true\"], save: out/task.txt}\n")
	held := p.holdSave("live", "out")
	l := p.start(engine.Options{Jobs: 4})
	l.r.OK("task", "", `1`)
	held.await()
	l.reconcile(p, hold+"  task: {out: Task, exec: [\"true\"]}\n", "hold keep, task keep")
	l.reconcile(p, hold+"  task: {out: Task, exec: [\"true\", \"edited\"], save: out/task.txt}\n", "hold keep, task replace fingerprint")
	l.r.OK("task", "", `2`)
	l.awaitDone("task", 1)
	for range 20 { // a second saver would have its chance
		time.Sleep(10 * time.Millisecond)
	}
	held.release()
	l.r.OK("hold", "", `0`)
	l.wait()
	if got := p.saved("out")["task.txt"]; got != "2\n" {
		t.Errorf("saved %q", got)
	}
}
