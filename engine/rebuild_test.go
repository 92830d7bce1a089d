package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"

	"operon/engine"
	"operon/engine/ticket/reference"
	"operon/meta"
	"operon/spec/coord"
	"operon/storage"
	"operon/storage/boltfile"
)

func (p *project) rebuild(o engine.RebuildOptions) (*engine.RebuildReport, error) {
	p.t.Helper()
	pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	o.Dir = p.dir
	return engine.Rebuild(context.Background(), pl, o)
}

func (p *project) mustRebuild(o engine.RebuildOptions) *engine.RebuildReport {
	p.t.Helper()
	rep, err := p.rebuild(o)
	if err != nil {
		p.t.Fatal(err)
	}
	return rep
}

// fates is what a rebuild did, a line a task that lost something.
func fates(rep *engine.RebuildReport) string {
	var b strings.Builder
	for _, t := range rep.Tasks {
		if t.Dropped+t.Aside == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s kept %d dropped %d aside %d", t.Task, t.Kept, t.Dropped, t.Aside)
		for _, why := range slices.Sorted(maps.Keys(t.Reasons)) {
			fmt.Fprintf(&b, " %s=%d", why, t.Reasons[why])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// metaText is all that the metadata says but for the time.
func (p *project) metaText(name string) string {
	p.t.Helper()
	m, err := meta.Open(p.stateDir(name), meta.Options{ReadOnly: true})
	if err != nil {
		p.t.Fatal(err)
	}
	defer m.Close()
	var b strings.Builder
	err = m.View(func(r *meta.Reader) error {
		foot, _, err := r.Footprint()
		fmt.Fprintln(&b, foot.RunID, foot.State, string(foot.Summary))
		flows, flowsErr := r.Dataflows()
		for _, f := range flows {
			fmt.Fprintln(&b, f)
			page := func(prefix coord.Coord, n uint32, data []byte) error {
				fmt.Fprintln(&b, prefix.Indices(), n, data)
				return nil
			}
			share := func(ref int, pins coord.Coord, done, quota uint64) error {
				fmt.Fprintln(&b, ref, pins.Indices(), done, quota)
				return nil
			}
			err = errors.Join(err, r.Tickets(f.ID, page), r.Resolutions(f.ID, page), r.Shares(f.ID, share))
		}
		return errors.Join(err, flowsErr)
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return b.String()
}

func (p *project) removeMeta(name string) {
	p.t.Helper()
	if err := os.Remove(filepath.Join(p.stateDir(name), meta.FileName)); err != nil {
		p.t.Fatal(err)
	}
}

func TestRebuildFromDataAlone(t *testing.T) {
	p := newProject(t, faulty)
	if _, err := p.rebuild(engine.RebuildOptions{}); !errors.Is(err, engine.ErrNoState) {
		t.Errorf("nothing there: %v", err)
	}
	p.mustRun(engine.Options{Until: []string{"pack"}})
	p.removeMeta("faulty")
	rep := p.mustRebuild(engine.RebuildOptions{})
	if rep.Kept != 9 || rep.Dropped+rep.Aside != 0 || rep.State != engine.StateStopped || rep.Why == "" {
		t.Errorf("half of it: %+v", rep)
	}
	p.mustCheck("half of it")
	if s := p.mustRun(engine.Options{}); s.Executed != faultyJobs-9 {
		t.Errorf("%+v", s)
	}
	p.removeMeta("faulty")
	if rep = p.mustRebuild(engine.RebuildOptions{}); rep.Kept != faultyJobs || rep.State != engine.StateComplete {
		t.Errorf("all of it: %+v", rep)
	}
	p.mustCheck("all of it")
	before := p.metaText("faulty")
	if rep = p.mustRebuild(engine.RebuildOptions{}); rep.Why != "" || rep.Dropped != 0 {
		t.Errorf("again: %+v", rep)
	}
	if after := p.metaText("faulty"); after != before {
		t.Errorf("another rebuild changed\n%s\nto\n%s", before, after)
	}
	if s := p.mustRun(engine.Options{}); s.Executed != 0 || s.Reused != faultyJobs {
		t.Errorf("%+v", s)
	}
}

// What the replay makes is what the run made.
func TestRebuildIsWhatTheRunMade(t *testing.T) {
	p := newProject(t, splitter)
	p.mustRun(engine.Options{Jobs: 4})
	first := p.mustRebuild(engine.RebuildOptions{})
	rebuilt := p.metaText("splitter")
	p.removeMeta("splitter")
	second := p.mustRebuild(engine.RebuildOptions{})
	if got := p.metaText("splitter"); got != rebuilt || first.Kept != second.Kept {
		t.Errorf("from data alone\n%s\nwith metadata\n%s", got, rebuilt)
	}
	p.mustCheck("rebuilt")
}

func TestRunRebuildsByItself(t *testing.T) {
	p := newProject(t, faulty)
	p.mustRun(engine.Options{})
	p.removeMeta("faulty")
	var notes []string
	s := p.mustRun(engine.Options{Events: func(e engine.Event) {
		if e.Kind == engine.EventNote {
			notes = append(notes, e.Message)
		}
	}})
	if s.Executed != 0 || s.Reused != faultyJobs || s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
	if text := strings.Join(notes, "\n"); !strings.Contains(text, "made the metadata again from the data (it is missing): kept 18 results") {
		t.Errorf("notes: %s", text)
	}
	p.mustCheck("rebuilt by a run")
}

func TestSkipAndRedo(t *testing.T) {
	t.Parallel()
	noted := strings.Replace(faulty, "pack:\n    in", "pack:\n    # \n    in", 1)
	for _, c := range []struct {
		name     string
		o        engine.RebuildOptions
		fates    string
		executed int64
	}{
		{"skip", engine.RebuildOptions{Skip: []string{"pack"}}, "pack kept 0 dropped 5 aside 0 skipped=5\nsize kept 0 dropped 3 aside 0 skipped=3\nall kept 0 dropped 1 aside 0 skipped=1\n", 9},
		{"redo", engine.RebuildOptions{Redo: []string{"pack"}}, "pack kept 0 dropped 0 aside 5 redo=5\nsize kept 0 dropped 0 aside 3 redo=3\nall kept 0 dropped 0 aside 1 redo=1\n", 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProject(t, noted)
			p.mustRun(engine.Options{})
			rep := p.mustRebuild(c.o)
			if got := fates(rep); got != c.fates {
				t.Errorf("got\n%s\nwant\n%s", got, c.fates)
			}
			p.mustCheck("rebuilt")
			if s := p.mustRun(engine.Options{}); s.Executed != c.executed || s.State != engine.StateComplete {
				t.Errorf("executed %d, want %d", s.Executed, c.executed)
			}
			p.mustCheck("run")
			if s := p.mustRun(engine.Options{}); s.Executed != 0 {
				t.Errorf("and again %d", s.Executed)
			}
		})
	}
	p := newProject(t, noted)
	p.mustRun(engine.Options{})
	for _, o := range []engine.Options{{Redo: []string{"pack"}}, {Redo: []string{"pack"}, Rebuild: true}} {
		if s := p.mustRun(o); s.Executed != 5 || s.Reused != faultyJobs-5 {
			t.Errorf("run %+v: %+v", o, s)
		}
		p.mustCheck("redone")
	}
	if s := p.mustRun(engine.Options{Rebuild: true, Skip: []string{"size"}}); s.Executed != 4 {
		t.Errorf("%+v", s)
	}
	var unknown *engine.UnknownError
	for _, o := range []engine.RebuildOptions{{Skip: []string{"pakc"}}, {Redo: []string{"pakc"}}} {
		if _, err := p.rebuild(o); !errors.As(err, &unknown) || unknown.Nearest != "pack" {
			t.Errorf("%v", err)
		}
	}
	if _, err := p.run(engine.Options{Redo: []string{"pakc"}}); !errors.As(err, &unknown) {
		t.Errorf("%v", err)
	}
}

// A run that is stopped goes on with what it was asked to do again.
func TestRedoIsPartOfTheRun(t *testing.T) {
	p := newProject(t, faulty)
	p.mustRun(engine.Options{})
	if s := p.mustRun(engine.Options{Redo: []string{"words"}, Until: []string{"lines"}}); s.Executed != 0 || s.State != engine.StateStopped {
		t.Fatalf("%+v", s)
	}
	if s := p.mustRun(engine.Options{}); s.Executed != 3 || s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
}

func TestDamagedBlob(t *testing.T) {
	damaged := func() *project {
		p := newProject(t, faulty)
		p.mustRun(engine.Options{})
		p.blob('a', func(path string) error { return flip(path, 50) })
		return p
	}
	p := damaged()
	rep := p.mustRebuild(engine.RebuildOptions{})
	if got, want := fates(rep), "pack kept 4 dropped 1 aside 0 blob-damaged=1\nsize kept 2 dropped 1 aside 0 needs-dropped=1\nall kept 0 dropped 1 aside 0 needs-dropped=1\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	p.mustCheck("rebuilt")
	if s := p.mustRun(engine.Options{}); s.Executed != 3 {
		t.Errorf("%+v", s)
	}
	p.mustCheck("run")

	p = damaged() // the job alone, as what hangs on it comes out the same
	if s := p.mustRun(engine.Options{RedoInconsistent: true}); s.Executed != 1 || s.Reused != faultyJobs-1 {
		t.Errorf("%+v", s)
	}
	p.mustCheck("redone")

	p = damaged() // a run that was not told to, and that has to look at all of it
	p.removeMeta("faulty")
	var inconsistent *engine.InconsistentError
	if _, err := p.run(engine.Options{}); !errors.As(err, &inconsistent) || inconsistent.Task != "pack" || inconsistent.Coord != "i=0,j=1" ||
		!strings.Contains(err.Error(), "--redo-inconsistent") {
		t.Errorf("%v", err)
	}
	if s := p.mustRun(engine.Options{RedoInconsistent: true}); s.Executed != 1 {
		t.Errorf("%+v", s)
	}
}

// A run that reads damaged data stops, and says where it is.
func TestRunMeetsDamage(t *testing.T) {
	p := newProject(t, faulty)
	p.mustRun(engine.Options{Until: []string{"big"}})
	p.blob('"', func(path string) error { return flip(path, 50) })
	var inconsistent *engine.InconsistentError
	if _, err := p.run(engine.Options{}); !errors.As(err, &inconsistent) || inconsistent.Task != "big" || !strings.HasPrefix(inconsistent.Coord, "i=") ||
		!strings.Contains(err.Error(), "--redo-inconsistent") {
		t.Fatalf("%v", err)
	}
	if s := p.mustRun(engine.Options{RedoInconsistent: true}); s.State != engine.StateComplete || s.Failed > 0 {
		t.Errorf("%+v", s)
	}
	p.mustCheck("redone")
}

func TestDataIsGone(t *testing.T) {
	p := newProject(t, faulty)
	p.mustRun(engine.Options{})
	want := p.values("All")
	if err := os.Remove(filepath.Join(p.stateDir("faulty"), storage.DataFile)); err != nil {
		t.Fatal(err)
	}
	rep, err := p.check(engine.Quick)
	if err != nil || len(rep.Faults) != 1 || rep.Faults[0].Kind != engine.FaultDataMissing {
		t.Errorf("%+v, %v", rep, err)
	}
	var inconsistent *engine.InconsistentError
	if _, err := p.run(engine.Options{}); !errors.As(err, &inconsistent) {
		t.Errorf("%v", err)
	}
	if s := p.mustRun(engine.Options{Rebuild: true}); s.Executed != faultyJobs {
		t.Errorf("%+v", s)
	}
	if got := p.values("All"); got != want {
		t.Errorf("%q", got)
	}
	p.mustCheck("made again")

	data := filepath.Join(p.stateDir("faulty"), storage.DataFile)
	if err := os.Truncate(data, 5000); err != nil {
		t.Fatal(err)
	}
	if rep, err = p.check(engine.Quick); err != nil || rep.Faults[0].Kind != engine.FaultDataDamaged {
		t.Errorf("%+v, %v", rep, err)
	}
	var lost *engine.DamagedError
	if _, err := p.rebuild(engine.RebuildOptions{}); !errors.As(err, &lost) || !strings.Contains(err.Error(), "--fresh") {
		t.Errorf("%v", err)
	}
	if _, err := p.run(engine.Options{}); !errors.As(err, &lost) {
		t.Errorf("%v", err)
	}
	if s := p.mustRun(engine.Options{Fresh: true}); s.Executed != faultyJobs {
		t.Errorf("%+v", s)
	}
}

// An edited pipeline keeps what is the same, also when its metadata is gone.
func TestRebuildOfAnotherShape(t *testing.T) {
	p := newProject(t, faulty)
	p.mustRun(engine.Options{})
	p.removeMeta("faulty")
	p.edit(strings.Replace(strings.Replace(strings.Replace(faulty, "size: {in: Pack<j>, for: i,", "size: {in: Pack, for: [i, j],", 1), `"Size<i>"`, `"Size<i, j>"`, 1), ".size_i]", ".size_i_j]", 1))
	rep := p.mustRebuild(engine.RebuildOptions{})
	if got, want := fates(rep), "size kept 0 dropped 0 aside 3 changed=3\nall kept 0 dropped 0 aside 1 changed=1\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	p.mustCheck("rebuilt")
	if s := p.mustRun(engine.Options{}); s.State != engine.StateComplete || s.Executed != 6 {
		t.Errorf("%+v", s)
	}
}

// A rebuild that is killed at any point leaves the old state or the new one.
func TestKilledRebuild(t *testing.T) {
	t.Parallel()
	p := newProject(t, faulty)
	p.mustRun(engine.Options{})
	want := p.values("All") + p.values("Pack")
	pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	points := 0
	for at := 1; ; at++ {
		killed := p.copied(func(q *project) {
			q.blob('a', func(path string) error { return flip(path, 50) })
			q.removeMeta("faulty")
		})
		crash := killed.snapshotAt(at, func(hook func(string)) {
			_, err := engine.Rebuild(context.Background(), pl, engine.RebuildOptions{Options: engine.Options{Dir: killed.dir, Hook: hook}})
			if err != nil {
				t.Fatal(err)
			}
		})
		if crash == nil {
			break
		}
		points++
		crash.mustRebuild(engine.RebuildOptions{})
		crash.mustCheck(fmt.Sprintf("killed at %d, rebuilt", at))
		if s := crash.mustRun(engine.Options{}); s.State != engine.StateComplete || s.Executed > 3 {
			t.Errorf("killed at %d: %+v", at, s)
		}
		if got := crash.values("All") + crash.values("Pack"); got != want {
			t.Errorf("killed at %d: %s", at, got)
		}
	}
	if points < 4 {
		t.Errorf("only %d commit points", points)
	}
}

// copied is the project in another folder, changed.
func (p *project) copied(change func(*project)) *project {
	p.t.Helper()
	q := &project{t: p.t, dir: p.t.TempDir()}
	q.file = filepath.Join(q.dir, "p.yaml")
	if err := os.CopyFS(q.dir, os.DirFS(p.dir)); err != nil {
		p.t.Fatal(err)
	}
	change(q)
	return q
}

// snapshotAt is the project as it lies on the disk at the at-th commit point of
// do, which is what a kill there leaves; nil if there is no such point.
func (p *project) snapshotAt(at int, do func(hook func(string))) (crash *project) {
	n := 0
	var mu sync.Mutex // each store has a writer of its own
	do(func(string) {
		mu.Lock()
		defer mu.Unlock()
		if n++; n == at {
			crash = p.copied(func(*project) {})
		}
	})
	return crash
}

// Random pipelines, stopped anywhere: what the run leaves is consistent; made
// again from the data alone it says the same; and with records taken away a
// rebuild keeps what does not hang on them, and a run ends as it would have.
func TestRebuildOfRandomPipelines(t *testing.T) {
	t.Parallel()
	n := uint64(14)
	if os.Getenv("OPERON_LONG") != "" {
		n = 300
	}
	stopped, damaged, kept, dropped := 0, 0, int64(0), int64(0)
	for seed := range n {
		rng := rand.New(rand.NewPCG(seed, 77))
		decl := reference.Random(rng, reference.Limits{Tasks: 9, Dims: 4, Crossed: seed%2 == 0})
		lengths := reference.RandomLengths(seed, 2)
		p := newProject(t, decl.YAML())
		pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("seed %d", seed)
		if s := runEcho(t, p, pl, lengths, rng, true); s.State != engine.StateComplete {
			stopped++
			if rng.IntN(3) > 0 {
				p.mustCheck(what + ", stopped first")
				runEcho(t, p, pl, lengths, rng, rng.IntN(3) == 0)
			}
		}
		p.mustCheck(what + ", run")
		p.mustRebuild(engine.RebuildOptions{})
		before := p.metaText(pl.Name)
		p.removeMeta(pl.Name)
		p.mustRebuild(engine.RebuildOptions{})
		if after := p.metaText(pl.Name); after != before {
			t.Fatalf("%s: with metadata\n%s\nfrom data alone\n%s", what, before, after)
		}
		taken := p.takeAway(pl.Name, rng)
		if taken > 0 {
			damaged++
			if rep, err := p.check(engine.MetadataOnly); err != nil || rep.Consistent {
				t.Fatalf("%s: %d records taken away, and %+v, %v", what, taken, rep, err)
			}
		}
		rep := p.mustRebuild(engine.RebuildOptions{RedoInconsistent: seed%3 == 0})
		kept, dropped = kept+rep.Kept, dropped+rep.Dropped+rep.Aside
		p.mustCheck(what + ", mended")
		for s := runEcho(t, p, pl, lengths, rng, true); s.State != engine.StateComplete; {
			p.mustCheck(what + ", stopped")
			s = runEcho(t, p, pl, lengths, rng, false)
		}
		p.mustCheck(what + ", complete")
		want := reference.Evaluate(pl, lengths)
		for _, task := range pl.Tasks {
			checkEntity(t, p, task, want[task.Out.Name], decl)
		}
		if t.Failed() {
			t.Fatalf("%s\n%s", what, decl)
		}
	}
	t.Logf("%d pipelines, %d stopped, %d damaged, %d results kept, %d dropped", n, stopped, damaged, kept, dropped)
	if stopped == 0 || damaged == 0 || dropped == 0 {
		t.Error("the test tests nothing")
	}
}

// takeAway drops some records behind the engine's back.
func (p *project) takeAway(name string, rng *rand.Rand) (taken int) {
	p.t.Helper()
	p.change(name, func(e *edit) {
		err := e.data.View(func(r *storage.Reader) (err error) {
			for _, id := range slices.Sorted(maps.Values(e.ids)) {
				err = errors.Join(err, r.Records(id, "", func(rec storage.Record) error {
					if rng.IntN(4) == 0 {
						e.d.DropRecord(id, rec.Coord)
						taken++
					}
					return nil
				}))
			}
			return err
		})
		if err != nil {
			p.t.Fatal(err)
		}
	})
	return taken
}

// Metadata of an older format is made again, and not lost.
func TestOlderMetadata(t *testing.T) {
	p := newProject(t, faulty)
	p.mustRun(engine.Options{})
	path := filepath.Join(p.stateDir("faulty"), meta.FileName)
	f, err := boltfile.Open(path, boltfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.Submit(boltfile.Commit{Apply: func(tx *bolt.Tx) error {
		bucket, key := []byte("state"), []byte("format")
		return tx.Bucket(bucket).Put(key, boltfile.Seal(bucket, key, make([]byte, 8)))
	}})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	rep, err := p.check(engine.Quick)
	if err != nil || len(rep.Faults) != 1 || rep.Faults[0].Kind != engine.FaultMetaOlder {
		t.Errorf("%+v, %v", rep, err)
	}
	if s := p.mustRun(engine.Options{}); s.Executed != 0 || s.Reused != faultyJobs {
		t.Errorf("%+v", s)
	}
	p.mustCheck("made again")
	if _, err := os.Stat(path + ".damaged-1"); err != nil {
		t.Error(err)
	}
}
