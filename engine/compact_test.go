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

// roomy is a state of kept whose files have room.
func roomy(p *project) string {
	retire(p)
	// Many values and tickets that are gone again.
	p.edit(kept + "  many: {out: Many<m>, source: {count: 20000}}\n  twice: {in: Many, for: m, out: Twice, jq: '. * 2'}\n")
	p.mustRun(engine.Options{})
	p.edit(kept)
	p.mustRun(engine.Options{})
	p.clean(engine.CleanOptions{})
	p.ran()
	return "kept"
}

func TestCompact(t *testing.T) {
	t.Parallel()
	p := newProject(t, kept)
	roomy(p)
	want := p.all(keptEntities)
	rep, err := engine.Compact(context.Background(), p.stateDir("kept"), engine.CompactOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Files) != 2 || rep.After >= rep.Before || rep.Before != rep.Files[0].Before+rep.Files[1].Before {
		t.Errorf("%s", asJSON(rep))
	}
	for _, f := range rep.Files {
		if info, err := os.Stat(filepath.Join(p.stateDir("kept"), f.Name)); err != nil || info.Size() != f.After {
			t.Errorf("%+v, and it has %d (%v)", f, info.Size(), err)
		}
	}
	if got := p.all(keptEntities); got != want {
		t.Errorf("the values differ:\n%s\nwant\n%s", got, want)
	}
	p.deep("compacted")
	p.wantRan("compacted", nil)
	p.edit(strings.Replace(kept, "20000", "30000", 1))
	p.wantRan("an edit afterwards", map[string]int{"pack": 3, "size": 1})
}

func TestCompactNeedsTheDirectory(t *testing.T) {
	p := newProject(t, kept)
	if _, err := engine.Compact(context.Background(), p.stateDir("kept"), engine.CompactOptions{}); !errors.Is(err, engine.ErrNoState) {
		t.Errorf("%v", err)
	}
	p.mustRun(engine.Options{})
	lock, err := boltfile.AcquireLock(p.stateDir("kept"), true)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	var used *engine.InUseError
	if _, err := engine.Compact(context.Background(), p.stateDir("kept"), engine.CompactOptions{}); !errors.As(err, &used) {
		t.Errorf("beside a reader: %v", err)
	}
}

func TestKilledCompact(t *testing.T) {
	t.Parallel()
	var want string
	prepare := func(p *project) string {
		state := roomy(p)
		want = p.all(keptEntities)
		return state
	}
	reads := func(what string, p *project) {
		t.Helper()
		if got := p.all(keptEntities); got != want {
			t.Errorf("%s: the values differ:\n%s\nwant\n%s", what, got, want)
		}
		p.deep(what)
	}
	killEverywhere(t, prepare, "compact", reads, func(what string, p *project) {
		t.Helper()
		reads(what, p)
		for _, name := range []string{"data.db", "meta.db"} {
			if _, err := os.Stat(filepath.Join(p.stateDir("kept"), name+".new")); err == nil {
				t.Errorf("%s: half a copy of %s is left", what, name)
			}
		}
		p.wantRan(what, nil)
	})
}
