package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"operon/engine"
	"operon/engine/body"
	"operon/spec"
	"operon/spec/value"
)

func (l *live) wantGPUs(task, at, want string) {
	l.t.Helper()
	if env := l.r.Env(task, at); !slices.Equal(env, []string{"CUDA_VISIBLE_DEVICES=" + want}) {
		l.t.Errorf("%s at %s has %v, want %s", task, at, env, want)
	}
}

// A retry has the GPUs of its first try: it waits for them although another is
// free, and they are kept for it.
func TestARetryHasTheGPUsOfItsFirstTry(t *testing.T) {
	p := newProject(t, `pipeline: gpus
tasks:
  items: {out: Item<i>, exec: ["true"]}
  work: {in: Item, for: i, out: Work, exec: ["true"], gpus: 1, retry: {times: 2, backoff: 1ms, on: [exit]}}
`)
	l := p.start(engine.Options{Jobs: 8, GPUs: 2, Environ: []string{}})
	l.r.OK("items", "", `0`, `1`, `2`, `3`, `4`)
	l.wantGPUs("work", "i=0", "0")
	l.wantGPUs("work", "i=1", "1")
	l.r.Fail("work", "i=1", body.KindExit, "exit status 1")
	l.wantGPUs("work", "i=2", "1") // before the retry is due
	l.r.OK("work", "i=0", `0`)
	l.wantGPUs("work", "i=3", "0")
	await(t, "the retry is due", func() bool {
		st, err := l.e.Status(t.Context())
		return err == nil && st.Tasks[1].Queued == 2
	})
	l.r.OK("work", "i=3", `3`)
	l.wantGPUs("work", "i=4", "0") // free, and not the retry's
	l.r.OK("work", "i=2", `2`)
	l.wantGPUs("work", "i=1", "1")
	l.r.Fail("work", "i=1", body.KindExit, "exit status 1")
	l.wantGPUs("work", "i=1", "1")
	l.r.OK("work", "i=1", `1`)
	l.r.OK("work", "i=4", `4`)
	if s := l.wait(); s.State != engine.StateComplete || s.Executed != 6 {
		t.Errorf("%+v", s)
	}
}

// usage is a body that notes which GPUs a job has, and that nobody else has them.
type usage struct {
	t     *testing.T
	rng   *rand.Rand
	mu    sync.Mutex
	busy  map[string]string
	first map[string]string
	tries int
}

type gpuUser struct {
	*usage
	task *spec.TaskSpec
}

func (u gpuUser) Run(_ context.Context, _ *body.Slot, j *body.Job) (*body.Result, error) {
	name := u.task.Name + "@" + j.Coord.Format(u.task.ContextNames())
	if u.task.Name == "items" {
		var out []value.Value
		for n := range 40 {
			out = append(out, value.FromJSON(fmt.Append(nil, n)))
		}
		return &body.Result{Items: out}, nil
	}
	list := strings.TrimPrefix(strings.Join(j.Env, " "), "CUDA_VISIBLE_DEVICES=")
	gpus := strings.Split(list, ",")
	u.mu.Lock()
	if before, tried := u.first[name]; tried && before != list {
		u.t.Errorf("attempt %d of %s has %s, the first had %s", j.Attempt, name, list, before)
	}
	u.first[name] = list
	u.tries++
	for _, gpu := range gpus {
		if other := u.busy[gpu]; other != "" {
			u.t.Errorf("%s and %s have GPU %s", name, other, gpu)
		}
		u.busy[gpu] = name
	}
	fails, rest := u.rng.IntN(3) == 0, time.Duration(u.rng.IntN(2))*time.Millisecond
	u.mu.Unlock()
	<-time.After(rest)
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, gpu := range gpus {
		u.busy[gpu] = ""
	}
	if fails && j.Attempt < 5 {
		return nil, &body.Failure{Kind: body.KindExit, Exit: 1, Message: "exit status 1"}
	}
	return &body.Result{Items: []value.Value{value.FromJSON([]byte("1"))}}, nil
}

// Whatever fails, and however many GPUs the tasks take: all retries have the GPUs
// of their first try, no GPU has two jobs, and everything ends.
func TestRetriesNeverWaitForEachOther(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 3))
		yaml := "pipeline: gpus\npools: {some: 3}\ndefaults: {retry: {times: 4, backoff: 0s, on: [exit]}}\ntasks:\n  items: {out: Item<i>, exec: [\"true\"]}\n"
		for n := range 4 {
			yaml += fmt.Sprintf("  t%d: {in: Item, for: i, out: T%d, exec: [\"true\"], gpus: %d, cpus: %d%s}\n", n, n, 1+rng.IntN(4), 1+rng.IntN(3), []string{"", ", pool: 2", ", pool: some"}[rng.IntN(3)])
		}
		p := newProject(t, yaml)
		u := &usage{t: t, rng: rng, busy: map[string]string{}, first: map[string]string{}}
		s := p.mustRun(engine.Options{Jobs: 6, GPUs: 4, CPUs: 4, Environ: []string{}, Bodies: func(t *spec.TaskSpec) (body.Runner, error) { return gpuUser{u, t}, nil }})
		if s.State != engine.StateComplete || s.Executed != 161 || u.tries < 180 {
			t.Errorf("%d tries, %+v\n%s", u.tries, s, yaml)
		}
	}
}
