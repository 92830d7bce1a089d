package engine_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"operon/engine"
	"operon/engine/body"
	"operon/engine/enginetest"
	"operon/spec"
	"operon/spec/value"
)

// deadly serves jobs in batches. At one of them the worker dies; the others last
// long enough for that one to be added to them.
type deadly struct {
	body.Runner
	poison string
	deaths *atomic.Int64
}

func (d deadly) Close(context.Context) {}

func (d deadly) RunBatch(ctx context.Context, _ *body.Slot, jobs []*body.Job, b body.Batch) {
	wake := make(chan struct{}, 1)
	wakeUp := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	held, begun := map[int]struct{}{}, 0
	begin := func(jobs []*body.Job) {
		for _, j := range jobs {
			if at := j.Coord.Format([]string{"i"}); at == d.poison {
				d.deaths.Add(1)
				panic("met " + at)
			}
			held[begun] = struct{}{}
			begun++
		}
	}
	begin(jobs)
	for late := time.After(50 * time.Millisecond); len(held) > 0; {
		begin(b.More(2-len(held), wakeUp))
		select {
		case <-wake:
			continue
		case <-late:
		case <-ctx.Done():
		}
		for n := range held {
			delete(held, n)
			b.Done(n, &body.Result{Items: []value.Value{value.FromJSON([]byte(`1`))}, Usage: body.Usage{Start: time.Now(), Wall: time.Second}}, nil)
		}
	}
}

// A job at which workers die runs alone, also where jobs are added to those that
// run: no other is blamed for it. Once it was given up, and the engine is told anew
// what is wanted, it is tried as often again.
func TestOnlyTheJobThatKillsWorkersFails(t *testing.T) {
	const hold = "tasks:\n  hold: {out: Hold, exec: [\"true\"]}\n" // which has one of the slots
	p := newProject(t, strings.Replace(crowd(6, 2, ", on_error: continue"), "tasks:\n", hold, 1))
	var deaths atomic.Int64
	failed := make(chan string, 8)
	events := func(e engine.Event) {
		if e.Kind == engine.EventFailure {
			failed <- e.Failed.At()
		}
	}
	l := p.startOf(engine.Options{Jobs: 2, Events: events}, func(r *enginetest.Rendezvous, pl *spec.Pipeline) bodies {
		others := p.workersOnly(pl, func(*spec.TaskSpec) (body.Runner, error) { return deadly{poison: "i=1", deaths: &deaths}, nil })
		return func(task *spec.TaskSpec) (body.Runner, error) {
			if task.Name == "hold" {
				return r.Body(task)
			}
			return others(task)
		}
	})
	for n := range int64(2) {
		if at := <-failed; at != "i=1" || deaths.Load() != 3*(n+1) {
			t.Errorf("%s failed after %d deaths", at, deaths.Load())
		}
		if n == 0 {
			l.ask(p, engine.Options{})
		}
	}
	l.r.OK("hold", "", `0`)
	if s := l.wait(); s.Failed != 1 || s.Executed != 1+5+1 {
		t.Errorf("%d failed, %d executed", s.Failed, s.Executed)
	}
}
