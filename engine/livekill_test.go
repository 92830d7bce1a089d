package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"operon/engine"
	"operon/engine/body"
	"operon/engine/ticket/reference"
	"operon/meta"
	"operon/spec"
	"operon/spec/value"
	"operon/storage"
)

// logging is a salted body that takes a moment, and says in the job's log what
// its command was.
type logging struct{ salted }

func commandOf(t *spec.TaskSpec) string {
	var b strings.Builder
	for _, arg := range t.Body.Argv {
		b.WriteString(arg.String() + " ")
	}
	return b.String()
}

func (x logging) Run(ctx context.Context, slot *body.Slot, j *body.Job) (*body.Result, error) {
	select {
	case <-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond):
	case <-ctx.Done():
		return nil, &body.Failure{Kind: body.KindCancelled, Message: "stopped"}
	}
	err := os.MkdirAll(filepath.Dir(j.Log), 0o777)
	if err == nil {
		err = os.WriteFile(j.Log, []byte(commandOf(x.t)), 0o666)
	}
	if err != nil {
		return nil, &body.Failure{Kind: body.KindInternal, Message: err.Error()}
	}
	res, err := x.salted.Run(ctx, slot, j)
	if res != nil {
		res.Logged = int64(len(commandOf(x.t)))
	}
	return res, err
}

func loggingBody(t *spec.TaskSpec) (body.Runner, error) { return logging{salted{t}}, nil }

// liveVersions are the files of a pipeline's versions, in the order in which a
// running engine is given them.
var liveVersions = []string{"a.yaml", "b.yaml", "c.yaml"}

// liveChild runs the first version of a pipeline, is given the others at certain
// commit points, and kills itself at another. In the place of the second version
// the tasks that OPERON_TEST_DROP names are dropped, if there are any.
func liveChild(dir string) (points int64, err error) {
	at, _ := strconv.ParseInt(os.Getenv("OPERON_TEST_KILL_AT"), 10, 64)
	workers, _ := strconv.Atoi(os.Getenv("OPERON_TEST_WORKERS"))
	var turns []int64
	for text := range strings.FieldsSeq(os.Getenv("OPERON_TEST_TURNS")) {
		n, _ := strconv.ParseInt(text, 10, 64)
		turns = append(turns, n)
	}
	var passed atomic.Int64
	moved := make(chan struct{}, 1)
	options := engine.Options{Dir: dir, Jobs: 3, Workers: workers, Bodies: loggingBody, Hook: func(string) {
		if passed.Add(1) == at {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // until it has arrived
		}
		select {
		case moved <- struct{}{}:
		default:
		}
	}}
	load := func(version int) (*spec.Pipeline, error) {
		file := filepath.Join(dir, "p.yaml") // edited in its place
		text, err := os.ReadFile(filepath.Join(dir, liveVersions[version]))
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			return nil, err
		}
		return engine.LoadFile(file, engine.LoadOptions{})
	}
	dropped := strings.Fields(os.Getenv("OPERON_TEST_DROP"))
	steps := []func(e *engine.Engine) error{nil, nil}
	version, ran := 0, -1 // given last, and taken
	give := func(n int) func(e *engine.Engine) error {
		return func(e *engine.Engine) error {
			version = n
			if e == nil {
				return nil // the next engine begins with it
			}
			pl, err := load(n)
			if err != nil {
				return err
			}
			if _, err = e.Reconcile(context.Background(), pl, engine.Options{}); err == nil {
				ran = n
			} else if errors.Is(err, engine.ErrNotRunning) {
				err = nil
			}
			return err
		}
	}
	steps[0], steps[1] = give(1), give(2)
	if len(dropped) > 0 {
		steps[0] = func(e *engine.Engine) error {
			for _, task := range dropped {
				if e != nil {
					_ = e.Drop(context.Background(), []string{task}) // it may be done
				}
			}
			return nil
		}
	}
	for ran < len(liveVersions)-1 {
		if ran == version {
			if err := steps[0](nil); err != nil {
				return 0, err
			}
			steps = steps[1:]
			continue
		}
		pl, err := load(version)
		if err != nil {
			return 0, err
		}
		options.Adopt = true // the versions lie in files of their own
		e, err := engine.New(pl, options)
		if err != nil {
			return 0, err
		}
		ended := make(chan error, 1)
		go func() {
			_, err := e.Run(context.Background())
			ended <- err
		}()
		ran = version
		for running := true; running; {
			select {
			case err := <-ended:
				running = false
				if err := errors.Join(err, e.Close()); err != nil {
					return 0, err
				}
			case <-moved:
				for len(steps) > 0 && passed.Load() >= turns[len(turns)-len(steps)] {
					if err := steps[0](e); err != nil {
						return 0, err
					}
					steps = steps[1:]
				}
			}
		}
	}
	return passed.Load(), nil
}

// liveVictim is a pipeline in versions, and what the last one comes to.
type liveVictim struct {
	*project
	env  []string
	want map[string]string // values by entity
}

// copy is the victim in another folder.
func (v *liveVictim) copy() *liveVictim {
	out := *v
	out.project = v.copied(func(*project) {})
	out.file = filepath.Join(out.dir, filepath.Base(v.file))
	return &out
}

// runTo runs the child until it kills itself, or, where killed is false, to its
// end.
func (v *liveVictim) runTo(killAt int64) (points int64, killed bool) {
	v.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "OPERON_TEST_DO=live", "OPERON_TEST_DIR="+v.dir, fmt.Sprintf("OPERON_TEST_KILL_AT=%d", killAt))
	cmd.Env = append(cmd.Env, v.env...)
	out, _, killed := runChild(v.t, cmd, fmt.Sprintf("kill at %d", killAt))
	if killed {
		return 0, true
	}
	points, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		v.t.Fatal(err)
	}
	return points, false
}

// durable are the keys of all jobs whose record is there.
func (v *liveVictim) durable() map[value.Digest]bool {
	v.t.Helper()
	out := map[value.Digest]bool{}
	s, err := storage.Open(v.stateDir("edited"), storage.Options{ReadOnly: true})
	if errors.Is(err, os.ErrNotExist) {
		return out
	}
	if err != nil {
		v.t.Fatal(err)
	}
	defer s.Close()
	err = s.View(func(r *storage.Reader) error {
		headers, err := r.Headers()
		for _, h := range headers {
			if err == nil {
				err = r.Records(h.ID, "", func(rec storage.Record) error { out[rec.Key] = true; return nil })
			}
		}
		return err
	})
	if err != nil {
		v.t.Fatal(err)
	}
	return out
}

// resume runs the last version to its end, and looks at everything.
func (v *liveVictim) resume(what string) {
	v.t.Helper()
	for _, file := range liveVersions {
		p := *v.project
		p.file = filepath.Join(v.dir, file)
		if _, err := p.check(engine.Exhaustive); err == nil {
			p.deep(what + ", before the resume, with " + file)
			break // the file that the footprint names
		}
	}
	had := v.durable()
	s := v.mustRun(engine.Options{Jobs: 3, Bodies: loggingBody, Adopt: true})
	if s.State != engine.StateComplete {
		v.t.Fatalf("%s: %+v", what, s)
	}
	unseen := int64(0)
	for _, key := range keysOf(v.t.(*testing.T), v.stateDir("edited")) {
		if !had[key] {
			had[key] = true
			unseen++
		}
	}
	if s.Executed != unseen {
		v.t.Errorf("%s: executed %d, and %d keys had no record", what, s.Executed, unseen)
	}
	v.deep(what + ", after the resume")
	for entity, want := range v.want {
		if got := v.values(entity); got != want {
			v.t.Errorf("%s: %s is\n%swant\n%s", what, entity, got, want)
		}
	}
	v.onlyCurrent(what)
}

// onlyCurrent wants nothing in the metadata, and no log, of a dataflow that is no
// task's any more.
func (v *liveVictim) onlyCurrent(what string) {
	v.t.Helper()
	d, m, done := v.open("edited")
	current := flows(v.t, d)
	err := m.View(func(r *meta.Reader) error {
		there, err := r.Dataflows()
		for _, f := range there {
			if current[f.Task] != f.ID {
				v.t.Errorf("%s: the metadata has dataflow %d of %s yet", what, f.ID, f.Task)
			}
		}
		if len(there) != len(current) {
			v.t.Errorf("%s: the metadata has %d dataflows, want %d", what, len(there), len(current))
		}
		return err
	})
	done()
	if err != nil {
		v.t.Fatal(err)
	}
	pl, err := engine.LoadFile(v.file, engine.LoadOptions{})
	if err != nil {
		v.t.Fatal(err)
	}
	logs := filepath.Join(v.stateDir("edited"), "logs")
	err = filepath.WalkDir(logs, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if task := pl.Task(filepath.Base(filepath.Dir(path))); task == nil || string(text) != commandOf(task) {
			v.t.Errorf("%s: the log %s is of an earlier version", what, strings.TrimPrefix(path, logs))
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.t.Fatal(err)
	}
}

// newLiveVictim is a random pipeline in three versions.
func newLiveVictim(t *testing.T, seed uint64) *liveVictim {
	rng := rand.New(rand.NewPCG(seed, 53))
	e := edited{decl: reference.Random(rng, reference.Limits{Tasks: 7, Dims: 3}), salt: map[string]int{}}
	for len(e.decl) < 3 {
		e.decl = reference.Random(rng, reference.Limits{Tasks: 7, Dims: 3})
	}
	v := &liveVictim{project: newProject(t, e.yaml()), want: map[string]string{}}
	var before []edited
	for n, file := range liveVersions {
		if n > 0 {
			for range 1 + rng.IntN(2) {
				before = append(before, e.clone())
				e.edit(rng, before)
			}
		}
		v.file = filepath.Join(v.dir, file)
		v.edit(e.yaml())
	}
	first := 4 + rng.IntN(10)
	v.env = []string{
		fmt.Sprintf("OPERON_TEST_WORKERS=%d", 1+seed%2),
		fmt.Sprintf("OPERON_TEST_TURNS=%d %d", first, first+2+rng.IntN(10)),
	}
	if seed%3 == 2 {
		v.env = append(v.env, "OPERON_TEST_DROP="+e.decl[rng.IntN(len(e.decl))].Task+" "+e.decl[rng.IntN(len(e.decl))].Task)
	}
	fresh := newProject(t, e.yaml())
	runSalted(t, fresh)
	for _, d := range e.decl {
		v.want[d.Out] = fresh.values(d.Out)
	}
	return v
}

// An engine is killed at each commit point while it is given other versions of
// its pipeline, or told to drop tasks.
func TestKillWhileReconciled(t *testing.T) {
	t.Parallel()
	seeds, step := uint64(3), int64(17)
	if os.Getenv("OPERON_LONG") != "" {
		seeds, step = 8, 1
	}
	kills, all := 0, int64(0)
	for seed := range seeds {
		v := newLiveVictim(t, seed)
		undisturbed := v.copy()
		points, _ := undisturbed.runTo(0)
		undisturbed.resume(fmt.Sprintf("seed %d, not killed", seed))
		all += points
		for at := 1 + int64(seed)%step; ; at += step {
			v := v.copy()
			if _, killed := v.runTo(at); !killed {
				break // timing moves the points a little
			}
			kills++
			v.resume(fmt.Sprintf("seed %d, killed at point %d", seed, at))
			if t.Failed() {
				t.Fatalf("seed %d: %v", seed, v.env)
			}
		}
	}
	t.Logf("%d commit points, %d kills, %d resumes, differences: 0", all, kills, kills)
	if kills == 0 {
		t.Error("nothing was killed")
	}
}
