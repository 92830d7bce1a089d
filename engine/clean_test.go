package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"operon/engine"
	"operon/storage/boltfile"
)

// kept is a pipeline with values of every size, files, and standard error.
const kept = `pipeline: kept
tasks:
  seed: {out: Seed<i>, source: {count: 3}}
  grow:
    in: Seed
    for: i
    out: Leaf<j>
    run: echo grow >> ran; echo log >&2; n=$(cat); seq 1 $((n + 1))
  pack:
    in: Leaf
    for: [i, j]
    out: Pack
    format: file
    run: echo pack >> ran; { cat; head -c 20000 /dev/zero; } > "$out"
  size:
    in: "Pack<i, j>"
    out: Size
    run: echo size >> ran; wc -c
`

var keptEntities = []string{"Seed", "Leaf", "Pack", "Size"}

func (p *project) all(entities []string) string {
	var b strings.Builder
	for _, e := range entities {
		b.WriteString(e + "\n" + p.values(e))
	}
	return b.String()
}

func (p *project) clean(o engine.CleanOptions) *engine.CleanReport {
	p.t.Helper()
	rep, err := engine.Clean(context.Background(), p.stateDir("kept"), o)
	if err != nil {
		p.t.Fatal(err)
	}
	return rep
}

// count is how many files lie below a folder of the state.
func (p *project) files(folder string) int {
	p.t.Helper()
	n := 0
	filepath.WalkDir(filepath.Join(p.stateDir("kept"), folder), func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return nil
	})
	return n
}

// retire runs kept, edited and back at what it was but for one task, so that
// dataflows of two tasks are retired.
func retire(p *project) {
	p.edit(kept)
	p.mustRun(engine.Options{})
	p.edit(strings.Replace(kept, "20000", "30000", 1))
	p.mustRun(engine.Options{})
	p.ran()
}

func TestCleanDropsWhatIsRetired(t *testing.T) {
	p := newProject(t, kept)
	retire(p)
	want := p.all(keptEntities)
	logs := filepath.Join(p.stateDir("kept"), "logs")
	p.write(".operon/kept/blobs/"+strings.Repeat("a", 64), "a stray")
	p.write(".operon/kept/tmp/left", "half done")
	p.write(".operon/kept/data.db.new", "half done")
	for _, name := range []string{"gone/i=0.log", "grow/i=9.log", "grow/i=0,j=0.log", "grow/x.log", "seed/job.log"} {
		os.MkdirAll(filepath.Dir(filepath.Join(logs, name)), 0o700)
		if err := os.WriteFile(filepath.Join(logs, name), []byte("old\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := p.files(".")
	dry := p.clean(engine.CleanOptions{DryRun: true})
	if now := p.files("."); now != before {
		t.Errorf("a dry run left %d files of %d", now, before)
	}
	rep := p.clean(engine.CleanOptions{})
	if !dry.DryRun {
		t.Error("a dry run does not say so")
	}
	dry.DryRun = false
	if asJSON(dry) != asJSON(rep) {
		t.Errorf("a dry run said %s, and it was %s", asJSON(dry), asJSON(rep))
	}
	if rep.Records != 7 || len(rep.Tasks) != 2 || rep.Blobs.Files != 4 || rep.Logs.Files != 5 || rep.Temporary.Files != 2 {
		t.Errorf("%s", asJSON(rep))
	}
	if rep.Blobs.Bytes < 3*20000 || rep.Bytes != rep.Data+rep.Blobs.Bytes+rep.Logs.Bytes+rep.Temporary.Bytes {
		t.Errorf("%s", asJSON(rep))
	}
	if got := p.all(keptEntities); got != want {
		t.Errorf("the values differ:\n%s\nwant\n%s", got, want)
	}
	if p.files("logs") != 3 || p.files("blobs") != 3 {
		t.Errorf("%d logs, %d blobs", p.files("logs"), p.files("blobs"))
	}
	if again := p.clean(engine.CleanOptions{}); again.Bytes != 0 || again.Records != 0 {
		t.Errorf("again: %s", asJSON(again))
	}
	p.wantRan("nothing changed", nil)
	p.edit(kept) // what it had made is gone
	p.wantRan("undone after a clean", map[string]int{"pack": 3, "size": 1})
}

func TestCleanKeepsWhatAnUnfinishedRunMayReuse(t *testing.T) {
	p := newProject(t, kept)
	retire(p)
	// The edit is undone, and the run ends before it gets there.
	p.edit(kept)
	p.mustRun(engine.Options{Until: []string{"seed"}})
	rep := p.clean(engine.CleanOptions{})
	if rep.Kept != 3 || rep.Records != 6 { // also the sizes: their task is as it was
		t.Errorf("%s", asJSON(rep))
	}
	p.wantRan("from the memo", nil)
	p.edit(strings.Replace(kept, "20000", "30000", 1))
	p.mustRun(engine.Options{Until: []string{"seed"}})
	if rep := p.clean(engine.CleanOptions{All: true}); rep.Kept != 0 || rep.Records != 15 || rep.Logs.Files != 3 {
		t.Errorf("%s", asJSON(rep))
	}
}

func TestCleanNeedsTheDirectory(t *testing.T) {
	p := newProject(t, kept)
	if _, err := engine.Clean(context.Background(), p.stateDir("kept"), engine.CleanOptions{}); !errors.Is(err, engine.ErrNoState) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(p.stateDir("kept")); err == nil {
		t.Error("it made the directory")
	}
	p.mustRun(engine.Options{})
	lock, err := boltfile.AcquireLock(p.stateDir("kept"), false)
	if err != nil {
		t.Fatal(err)
	}
	var used *engine.InUseError
	for _, dry := range []bool{true, false} {
		if _, err := engine.Clean(context.Background(), p.stateDir("kept"), engine.CleanOptions{DryRun: dry}); !errors.As(err, &used) {
			t.Errorf("dry %v: %v", dry, err)
		}
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	p.clean(engine.CleanOptions{})
}

func TestKilledClean(t *testing.T) {
	t.Parallel()
	var want string
	prepare := func(p *project) string {
		retire(p)
		want = p.all(keptEntities)
		return "kept"
	}
	reads := func(what string, p *project) {
		t.Helper()
		if got := p.all(keptEntities); got != want {
			t.Errorf("%s: the values differ:\n%s\nwant\n%s", what, got, want)
		}
	}
	killEverywhere(t, prepare, "clean", reads, func(what string, p *project) {
		t.Helper()
		reads(what, p)
		if p.files("blobs") != 3 {
			t.Errorf("%s: %d blobs", what, p.files("blobs"))
		}
		if again := p.clean(engine.CleanOptions{}); again.Bytes != 0 {
			t.Errorf("%s: there was more: %s", what, asJSON(again))
		}
		p.deep(what)
		p.wantRan(what, nil)
	})
}

// deep checks all that is stored, each record against its ticket and back.
func (p *project) deep(what string) {
	p.t.Helper()
	pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	rep, err := engine.Check(context.Background(), pl, engine.CheckOptions{Dir: p.dir, Mode: engine.Exhaustive})
	if err != nil {
		p.t.Fatal(err)
	}
	if !rep.Consistent {
		p.t.Errorf("%s: %s", what, asJSON(rep))
	}
}

func TestMemoLimit(t *testing.T) {
	p := newProject(t, kept)
	p.mustRun(engine.Options{})
	edits := []string{"30000", "40000", "50000"}
	for _, size := range edits {
		p.edit(strings.Replace(kept, "20000", size, 1))
		p.mustRun(engine.Options{MemoLimit: 240000})
	}
	p.ran()
	// 20000 had to go, 30000 and 40000 are within the limit.
	p.edit(strings.Replace(kept, "20000", "30000", 1))
	p.wantRan("within the limit", nil)
	p.edit(kept)
	p.wantRan("beyond it", map[string]int{"pack": 3})
	p.mustRun(engine.Options{MemoLimit: -1}) // also where there is nothing to run
	if rep := p.clean(engine.CleanOptions{DryRun: true}); rep.Records != 0 {
		t.Errorf("no limit of 0: %s", asJSON(rep))
	}
}

func TestMemoLimitWaitsForACompleteRun(t *testing.T) {
	p := newProject(t, kept)
	retire(p)
	p.edit(kept)
	p.mustRun(engine.Options{Until: []string{"seed"}, MemoLimit: -1})
	p.wantRan("from the memo", nil)
}
