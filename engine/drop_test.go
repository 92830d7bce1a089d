package engine_test

import (
	"testing"
	"time"

	"operon/engine"
)

const dropPipeline = `pipeline: drop
tasks:
  split: {out: Item<i>, exec: ["true"]}
  work: {in: Item, for: i, out: Done, exec: ["true"]}
  side: {in: Item, for: i, out: Side, exec: ["true"]}
`

// What an upstream makes after a task was dropped is not for that: no job of it is
// handed out, and the run does not wait for it, although it is paused.
func TestNothingIsReadyOfWhatWasDropped(t *testing.T) {
	for _, paused := range []bool{false, true} {
		p := newProject(t, dropPipeline)
		l := p.start(engine.Options{Jobs: 4})
		l.r.Await("split", "")
		if paused {
			if err := l.e.Pause(t.Context(), []string{"work"}, false); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.e.Drop(t.Context(), []string{"work"}); err != nil {
			t.Fatal(err)
		}
		l.r.OK("split", "", `1`, `2`)
		l.r.OK("side", "i=0", `1`)
		l.r.Await("side", "i=1")
		m, err := l.e.Metrics(t.Context())
		if err != nil || m.Ready["work"] > 0 || m.Discarded > 0 {
			t.Errorf("%d are ready, %d discarded, %v", m.Ready["work"], m.Discarded, err)
		}
		l.r.OK("side", "i=1", `1`)
		select {
		case <-l.done:
		case <-time.After(2 * time.Minute):
			t.Fatalf("paused %v: it waits for %+v", paused, l.status("work"))
		}
		s := l.wait()
		if s.State != engine.StateStopped || s.Asked || s.Executed != 3 || s.Tasks[1].DataflowState != engine.DataflowDropped || s.Tasks[1].Waiting != 2 {
			t.Errorf("%+v", s)
		}
		p.deep("after a drop")
	}
}
