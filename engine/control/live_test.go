package control_test

import (
	"strings"
	"testing"
	"time"

	"operon/engine"
	"operon/engine/control"
	hosts "operon/engine/serve"
)

// begun is a submission that is under way, with the task then at i=0 done, and at
// i=1 running.
func (x *there) begun(t *testing.T) (end chan *engine.Summary) {
	t.Helper()
	_, end = x.submit(t, two)
	x.OK("then", "i=0", `1`)
	x.Await("then", "i=1")
	limit := time.Now().Add(time.Minute)
	for { // until the engine has heard it
		s, err := x.dial(t, x.socket).Pipeline("p").Status(t.Context())
		if err == nil && len(s.Tasks) == 2 && s.Tasks[1].Done == 1 {
			return end
		}
		if time.Now().After(limit) {
			t.Fatalf("the engine does not hear that a job is done: %+v, %v", s, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// submit submits in a goroutine. The answer to initialization_complete, and the
// summary, come in channels; both are closed after an error.
func (x *there) submit(t *testing.T, text string) (chan hosts.Answer, chan *engine.Summary) {
	t.Helper()
	p, i := wanted(t, text)
	c := x.dial(t, x.socket)
	answer, end := make(chan hosts.Answer, 1), make(chan *engine.Summary, 1)
	go func() {
		defer close(answer)
		defer close(end)
		s, err := c.Submit(t.Context(), p, i, nil, control.Hear{Answer: func(a *hosts.Answer) {
			if a.Command == hosts.InitializationComplete {
				answer <- *a
			}
		}})
		if err == nil {
			end <- s
		}
	}()
	return answer, end
}

// A resubmission of the same keeps everything, and its client hears the run.
func TestLiveReconcileKeepsAll(t *testing.T) {
	x := hosted(t)
	x.begun(t)
	answer, end := x.submit(t, two)
	a := <-answer
	if a.Reconciled == nil || a.Reconciled.Kept != 2 || a.Reconciled.Replaced+a.Reconciled.Created+a.Reconciled.Dropped != 0 {
		t.Fatalf("%+v", a.Reconciled)
	}
	x.OK("then", "i=1", `2`)
	if s := <-end; s == nil || !s.Asked || s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
}

// An edit of one task replaces it alone, says why, and drops what is gone.
func TestLiveReconcileReplaces(t *testing.T) {
	x := hosted(t)
	x.begun(t)
	answer, end := x.submit(t, strings.Replace(two, "echo", "printf", 1)+"  more: {in: B, for: i, out: C, run: 'echo $b'}\n")
	a := <-answer
	if r := a.Reconciled; r == nil || r.Kept != 1 || r.Replaced != 1 || r.Created != 1 || r.Dropped != 0 {
		t.Fatalf("%+v", r)
	}
	for _, job := range []string{"i=0", "i=1"} {
		x.OK("then", job, `"`+job+`"`) // two jobs with one key would be one execution
		x.OK("more", job, `4`)
	}
	if s := <-end; s == nil || s.State != engine.StateComplete || len(s.Tasks) != 3 {
		t.Errorf("%+v", s)
	}
}

// A dropped task ends, and the run without it.
func TestLiveDrop(t *testing.T) {
	x := hosted(t)
	end := x.begun(t)
	err := x.dial(t, x.http).Pipeline("p").Drop(t.Context(), []string{"then"})
	if err != nil {
		t.Fatal(err)
	}
	if s := <-end; s == nil || s.Asked {
		t.Errorf("%+v", s)
	}
	if err := x.dial(t, x.socket).Pipeline("p").Drop(t.Context(), []string{"then"}); err == nil {
		t.Error("there was nothing to drop")
	}
}

// A running engine's own numbers are among the metrics.
func TestLiveMetrics(t *testing.T) {
	x := hosted(t)
	x.begun(t)
	_, text := x.ask(t, "GET", "/metrics", "", nil)
	for _, want := range []string{
		`operon_jobs_total{pipeline="p",task="then",outcome="executed"} 1`,
		`operon_jobs_running{pipeline="p",task="then"} 1`,
		`operon_reconcile_reused_total{pipeline="p"} 0`,
		`operon_worker_lag{pipeline="p",worker="0"} 0`,
		`operon_commit_seconds_count{pipeline="p"} `,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
