package live

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"operon/cmd/operon/internal/term"
	"operon/engine"
	"operon/spec/coord"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func after(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

func counts(at float64, s engine.TaskStatus) engine.Event {
	return engine.Event{Time: after(at), Kind: engine.EventTask, Task: &s}
}

// story is a run with everything that can be told: a resumed task, one that
// moves, one that fails, one that is blocked, one that was paused.
func story() []engine.Event {
	failure := &engine.Failed{
		Task: "get_words", Coord: coord.Of(7), Dims: []string{"input_no"}, Kind: "exit",
		Message: "exit status 3", Attempts: 2, Exit: 3, Stderr: []byte("no \x1b[31mluck\n"), Log: "/state/logs/get_words/input_no=7.log",
	}
	retry := *failure
	retry.Attempts = 1
	return []engine.Event{
		{Time: after(0), Kind: engine.EventRun, State: engine.StateRunning},
		{Time: after(0), Kind: engine.EventNote, Message: "resumed: 1 job was done"},
		counts(0, engine.TaskStatus{Task: "get_inputs", DataflowState: engine.DataflowComplete, Done: 1, Reused: 1}),
		counts(0.1, engine.TaskStatus{Task: "get_words", DataflowState: engine.DataflowRunning, Queued: 98, Running: 2}),
		counts(0.1, engine.TaskStatus{Task: "a_task_with_a_name_that_is_too_long", DataflowState: engine.DataflowWaiting, Waiting: 1}),
		counts(0.1, engine.TaskStatus{Task: "日本語", DataflowState: engine.DataflowWaiting, Waiting: 1}),
		counts(2.1, engine.TaskStatus{Task: "get_words", DataflowState: engine.DataflowRunning, Queued: 78, Running: 2, Done: 20}),
		{Time: after(3), Kind: engine.EventRetry, Failed: &retry, Delay: 1.5},
		{Time: after(4), Kind: engine.EventFailure, Failed: failure},
		counts(4.1, engine.TaskStatus{Task: "get_words", DataflowState: engine.DataflowFailed, Queued: 57, Running: 2, Done: 40, Failed: 1}),
		counts(4.1, engine.TaskStatus{Task: "日本語", DataflowState: engine.DataflowWaiting, Blocked: 1}),
		counts(4.2, engine.TaskStatus{Task: "a_task_with_a_name_that_is_too_long", DataflowState: engine.DataflowWaiting, Waiting: 1, Paused: true}),
		{Time: after(4.2), Kind: engine.EventRun, State: engine.StatePaused},
	}
}

func TestPicture(t *testing.T) {
	m := newModel(start, []string{"get_inputs", "get_words", "a_task_with_a_name_that_is_too_long", "日本語", "last"})
	for _, e := range story() {
		m.apply(e)
	}
	for _, size := range [][2]int{{120, 24}, {80, 24}, {40, 24}, {80, 4}} {
		var b strings.Builder
		for _, line := range m.picture(after(4.5), term.Facts{}, size[0], size[1]) {
			fmt.Fprintln(&b, line)
		}
		golden(t, fmt.Sprintf("picture-%dx%d.golden", size[0], size[1]), b.String())
	}
}

// No line is wider than the terminal and there are never more than fit,
// whatever the tasks.
func TestPictureFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(start, nil)
		n := rapid.Int64Range(0, 1e15)
		for range rapid.IntRange(0, 12).Draw(t, "events") {
			m.apply(counts(rapid.Float64Range(-5, 100).Draw(t, "at"), engine.TaskStatus{
				Task:    rapid.SampledFrom([]string{"a", "get_words", "日本語日本語日本語日本語日本語", strings.Repeat("x", 60)}).Draw(t, "task"),
				Waiting: n.Draw(t, "waiting"), Queued: n.Draw(t, "queued"), Running: n.Draw(t, "running"),
				Done: n.Draw(t, "done"), Failed: n.Draw(t, "failed"), Holes: n.Draw(t, "holes"),
			}))
		}
		columns, rows := rapid.IntRange(1, 150).Draw(t, "columns"), rapid.IntRange(1, 10).Draw(t, "rows")
		lines := m.picture(after(rapid.Float64Range(-5, 100).Draw(t, "now")), term.Facts{Color: true}, columns, rows)
		if len(lines) > max(rows-1, 2) {
			t.Errorf("%d lines on %d rows", len(lines), rows)
		}
		for _, line := range lines {
			if w := ansi.StringWidth(line); w > columns {
				t.Errorf("%d columns of %d: %q", w, columns, line)
			}
		}
	})
}

func TestPlain(t *testing.T) {
	var b bytes.Buffer
	m := newModel(start, nil)
	d := &plain{out: &b, m: m, said: map[*task]saying{}}
	for _, e := range story() {
		d.event(e, m.apply(e))
	}
	d.tick(after(9)) // too soon for a reminder
	d.tick(after(15))
	e := counts(20, engine.TaskStatus{Task: "get_words", DataflowState: engine.DataflowFailed, Queued: 10, Running: 2, Done: 87, Failed: 1})
	d.event(e, m.apply(e))
	d.tick(after(21))
	d.tick(after(22))
	golden(t, "plain.golden", b.String())
}

func TestPlainTellsFewFailuresOfMany(t *testing.T) {
	var b bytes.Buffer
	m := newModel(start, nil)
	d := &plain{out: &b, m: m, said: map[*task]saying{}}
	for n := range uint32(500) {
		e := engine.Event{Time: start, Kind: engine.EventFailure, Failed: &engine.Failed{
			Task: "t", Coord: coord.Of(n), Dims: []string{"i"}, Message: "exit status 1", Attempts: 1}}
		d.event(e, m.apply(e))
	}
	if got := strings.Count(b.String(), "\n"); got != toldEach+1 {
		t.Errorf("%d lines:\n%s", got, b.String())
	}
}

func TestJSONLines(t *testing.T) {
	var b bytes.Buffer
	m := newModel(start, nil)
	d := jsonLines{&b}
	for _, e := range story() {
		d.event(e, m.apply(e))
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != len(story()) {
		t.Fatalf("%d lines for %d events", len(lines), len(story()))
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(lines[8]), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"time": "2026-01-02T03:04:09Z", "event": "failure",
		"failed": map[string]any{
			"task": "get_words", "coord": map[string]any{"input_no": 7.}, "kind": "exit", "message": "exit status 3",
			"attempts": 2., "exit": 3., "stderr": "no \x1b[31mluck\n", "log": "/state/logs/get_words/input_no=7.log",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestViewShowsAndEnds(t *testing.T) {
	for _, mode := range []Mode{ModeLive, ModePlain, ModeJSON, ModeQuiet} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b bytes.Buffer
				v := New(Options{Mode: mode, Out: &b, Start: time.Now(), Size: func() (int, int) { return 80, 24 }, Tasks: []string{"a"}})
				fmt.Fprintln(v, "before")
				v.Event(engine.Event{Time: time.Now(), Kind: engine.EventTask, Task: &engine.TaskStatus{Task: "a", Running: 1, DataflowState: engine.DataflowRunning}})
				<-time.After(1050 * time.Millisecond)
				fmt.Fprintln(v, "between")
				v.Event(engine.Event{Time: time.Now(), Kind: engine.EventTask, Task: &engine.TaskStatus{Task: "a", Done: 1, DataflowState: engine.DataflowComplete}})
				v.Close()
				fmt.Fprintln(v, "behind")
				got := strings.ReplaceAll(b.String(), "\x1b", "ESC")
				got = strings.ReplaceAll(got, time.Now().Add(-1050*time.Millisecond).Format(time.RFC3339Nano), "T0")
				got = strings.ReplaceAll(got, time.Now().Format(time.RFC3339Nano), "T1")
				golden(t, "view-"+string(mode)+".golden", got)
			})
		})
	}
}

// A run whose output nobody takes any more goes on.
func TestViewOutlivesItsReader(t *testing.T) {
	for _, mode := range []Mode{ModeLive, ModePlain, ModeJSON} {
		v := New(Options{Mode: mode, Out: broken{}, Start: time.Now(), Size: func() (int, int) { return 80, 24 }})
		for range 3 * backlog {
			v.Event(engine.Event{Kind: engine.EventNote, Message: "x"})
		}
		v.Close()
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestSummary(t *testing.T) {
	tasks := []engine.TaskSummary{
		{TaskStatus: engine.TaskStatus{Task: "get_words", Done: 40, Failed: 3}, Executed: 40},
		{TaskStatus: engine.TaskStatus{Task: "tally", Blocked: 1}},
	}
	group := engine.FailureGroup{Task: "get_words", Kind: "exit", Jobs: 2, Sample: engine.Failed{
		Task: "get_words", Coord: coord.Of(7), Dims: []string{"input_no"}, Message: "exit status 3", Attempts: 2,
		Stderr: []byte("one\r\ntwo\x1b[31m\tx\n"), Log: "/state/logs/get_words/input_no=7.log"}}
	single := engine.FailureGroup{Task: "tally", Kind: "output", Jobs: 1, Sample: engine.Failed{
		Task: "tally", Message: "expected a JSON list\nline 1, byte 3: got an object", Attempts: 1}}
	many := make([]engine.FailureGroup, 13)
	for i := range many {
		many[i] = engine.FailureGroup{Task: fmt.Sprintf("t%d", i), Jobs: 1, Sample: engine.Failed{Task: fmt.Sprintf("t%d", i), Message: "no", Attempts: 1}}
	}
	tests := []struct {
		name string
		e    Ending
	}{
		{"complete", Ending{Summary: &engine.Summary{Pipeline: "p", State: engine.StateComplete, Executed: 3, Reused: 2, Elapsed: 75.2, Asked: true}, Get: []string{"operon get A", "operon get B"}}},
		{"nothing", Ending{Summary: &engine.Summary{Pipeline: "p", State: engine.StateComplete, Reused: 1, Elapsed: 0.01, Asked: true}}},
		{"failed", Ending{Summary: &engine.Summary{Pipeline: "p", State: engine.StateFailed, Executed: 40, Failed: 3, Blocked: 1, Elapsed: 1, Tasks: tasks, Failures: []engine.FailureGroup{group, single}}, Again: "operon run p.yaml"}},
		{"failed-quiet", Ending{Quiet: true, Summary: &engine.Summary{Pipeline: "p", State: engine.StateFailed, Failed: 3, Tasks: tasks, Failures: []engine.FailureGroup{group, single}}}},
		{"failed-colour", Ending{Facts: term.Facts{Color: true}, Summary: &engine.Summary{Pipeline: "p", State: engine.StateFailed, Failed: 1, Failures: []engine.FailureGroup{group}}, Again: "operon run"}},
		{"failed-many", Ending{Summary: &engine.Summary{Pipeline: "p", State: engine.StateFailed, Failed: 13, Failures: many}, Again: "operon run"}},
		{"stopped", Ending{Summary: &engine.Summary{Pipeline: "p", State: engine.StateStopped, Executed: 1, Elapsed: 4000}, Again: "operon run"}},
		{"until", Ending{Summary: &engine.Summary{Pipeline: "p", State: engine.StateStopped, Executed: 1, Asked: true}, Again: "operon run"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := WriteSummary(&b, tt.e); err != nil {
				t.Fatal(err)
			}
			golden(t, "summary-"+tt.name+".golden", b.String())
		})
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0.0s", 0: "0.0s", 320 * time.Millisecond: "0.3s", 9940 * time.Millisecond: "9.9s", 9960 * time.Millisecond: "10s",
		59400 * time.Millisecond: "59s", 59600 * time.Millisecond: "1m00s", 185 * time.Second: "3m05s",
		time.Hour - time.Second: "59m59s", time.Hour - time.Millisecond: "1h00m", 127 * time.Minute: "2h07m", 100 * time.Hour: "100h00m",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
