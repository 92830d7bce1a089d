package engine_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"operon/engine"
	"operon/meta"
	"operon/storage"
)

// spread fills several pages with records, and lies under branches.
const spread = `pipeline: spread
tasks:
  n: {out: N<i>, source: {count: 600}}
  double: {in: N, for: i, out: Double, jq: '. * 2'}
  texts: {in: Double, for: i, out: Text<j>, jq: 'range(12) | "\(.) is a text that takes some room, so that a list of them lies beside its record, in a chunk of its own"'}
  total: {in: Double<i>, out: Total, jq: 'add'}
`

const spreadJobs = 1 + 600 + 600 + 1

// pageKind is the kind of a page of a database file; see package boltfile.
func pageKind(content []byte, n int) uint16 {
	return binary.LittleEndian.Uint16(content[n*os.Getpagesize()+8:])
}

// Whichever page of data.db is lost: a check says so unless nothing was in it,
// and a rebuild keeps what was not in it, or says that nothing can be done. The
// next run makes just the rest, and all is as it was.
func TestLostPages(t *testing.T) {
	t.Parallel()
	p := newProject(t, spread)
	p.mustRun(engine.Options{})
	want := p.values("Total") + p.values("Text")
	dir := p.stateDir("spread")
	whole := readTree(t, dir)
	content := whole[storage.DataFile]
	page := os.Getpagesize()
	step := 37
	if os.Getenv("OPERON_LONG") != "" {
		step = 1
	}
	mended, refused, harmless, branches := 0, 0, 0, 0
	for n := 2; n < len(content)/page; n++ {
		branch := pageKind(content, n) == 1
		if n%step != 0 && !branch {
			continue
		}
		damaged := tree{}
		for file, text := range whole {
			damaged[file] = text
		}
		damaged[storage.DataFile] = bytes.Clone(content)
		clear(damaged[storage.DataFile][n*page : (n+1)*page])
		damaged.write(t, dir)
		rep, err := p.check(engine.Exhaustive)
		if err != nil {
			t.Fatalf("page %d: %v", n, err)
		}
		if rep.Consistent {
			harmless++
			if s := p.mustRun(engine.Options{}); s.Executed != 0 || p.values("Total")+p.values("Text") != want {
				t.Errorf("page %d is no fault, and a run: %+v", n, s)
			}
			continue
		}
		done, err := p.rebuild(engine.RebuildOptions{RedoInconsistent: true})
		if lost, ok := errors.AsType[*engine.DamagedError](err); ok && strings.Contains(lost.Error(), "--fresh") {
			refused++
			if !bytes.Equal(readTree(t, dir)[storage.DataFile], damaged[storage.DataFile]) {
				t.Errorf("page %d: a refusal changed data.db", n)
			}
			continue
		}
		if err != nil {
			t.Errorf("page %d: %v", n, err)
			continue
		}
		mended++
		if done.Salvaged == nil {
			t.Errorf("page %d: %+v", n, done)
		} else if kept, err := os.ReadFile(filepath.Join(dir, done.Salvaged.Aside)); err != nil || !bytes.Equal(kept, damaged[storage.DataFile]) || !strings.Contains(done.String(), done.Salvaged.Aside) {
			t.Errorf("page %d: the damaged file is not kept as %s: %v", n, done.Salvaged.Aside, err)
		}
		if rep, err := p.check(engine.Exhaustive); err != nil || !rep.Consistent {
			t.Errorf("page %d: rebuilt: %+v, %v", n, rep, err)
		}
		s := p.mustRun(engine.Options{})
		// A page holds some forty records.
		if s.State != engine.StateComplete || s.Executed > 120 {
			t.Errorf("page %d: a run: %+v", n, s)
		}
		if branch {
			if branches++; s.Executed > 1 {
				t.Errorf("page %d, a branch: what it led to is there, and a run: %+v", n, s)
			}
		}
		if got := p.values("Total") + p.values("Text"); got != want {
			t.Errorf("page %d: other values", n)
		}
		if rep, err := p.check(engine.Exhaustive); err != nil || !rep.Consistent {
			t.Errorf("page %d: run: %+v, %v", n, rep, err)
		}
	}
	t.Logf("of %d pages: %d mended, %d of them branches, %d refused, %d harmless", len(content)/page, mended, branches, refused, harmless)
	if mended == 0 || branches == 0 || mended < 5*refused {
		t.Error("the test tests too little")
	}
}

// flipFreeList damages the list of free pages of a database file.
func flipFreeList(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[freeListAt(content)+8] ^= 0xFF
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// upkeep are the commands that write to a state and run nothing.
func (p *project) upkeep(pipeline string) map[string]func() error {
	return map[string]func() error{
		"clean": func() error {
			_, err := engine.Clean(context.Background(), p.stateDir(pipeline), engine.CleanOptions{})
			return err
		},
		"compact": func() error {
			_, err := engine.Compact(context.Background(), p.stateDir(pipeline), engine.CompactOptions{})
			return err
		},
	}
}

// Whoever writes to a file whose list of free pages is damaged is told the way
// out, which works.
func TestDamagedFreeListOfAState(t *testing.T) {
	p := newProject(t, spread)
	p.mustRun(engine.Options{})
	want := p.values("Total")
	data := filepath.Join(p.stateDir("spread"), storage.DataFile)
	flipFreeList(t, data)
	if got := p.values("Total"); got != want {
		t.Errorf("get reads %q", got)
	}
	rep, err := p.check(engine.Quick)
	if err != nil || len(rep.Faults) != 1 || rep.Faults[0].Kind != engine.FaultFreeList {
		t.Errorf("%+v, %v", rep, err)
	}
	writers := p.upkeep("spread")
	writers["run"] = func() error { _, err := p.run(engine.Options{}); return err }
	for name, do := range writers {
		var damaged *engine.DamagedError
		if err := do(); !errors.As(err, &damaged) || !strings.HasPrefix(err.Error(), "damaged: ") || !strings.Contains(err.Error(), "operon rebuild") || strings.Contains(err.Error(), "runtime") {
			t.Errorf("%s: %v", name, err)
		}
	}
	done := p.mustRebuild(engine.RebuildOptions{})
	if done.Kept != spreadJobs || done.Dropped+done.Aside != 0 || done.Salvaged == nil || done.Salvaged.Lost != 0 {
		t.Errorf("%+v", done)
	}
	p.mustCheck("rebuilt")
	for name, do := range writers {
		if err := do(); err != nil {
			t.Errorf("afterwards, %s: %v", name, err)
		}
	}
	p.mustCheck("written to")
}

// Metadata whose list of free pages is damaged is set aside by whoever would write
// to it, and a run makes it again: nothing runs twice.
func TestDamagedFreeListOfMetadata(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"none", "clean", "compact"} {
		p := newProject(t, spread)
		do := p.upkeep("spread")[name]
		if do == nil {
			do = func() error { return nil }
		}
		p.mustRun(engine.Options{})
		want := p.values("Total")
		path := filepath.Join(p.stateDir("spread"), meta.FileName)
		flipFreeList(t, path)
		for _, twice := range []string{"", " again"} { // what the first left is fine for the second
			if err := do(); err != nil {
				t.Errorf("%s%s: %v", name, twice, err)
			}
		}
		if s := p.mustRun(engine.Options{}); s.Executed != 0 || s.Reused != spreadJobs || s.State != engine.StateComplete {
			t.Errorf("%s: a run: %+v", name, s)
		}
		if got := p.values("Total"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		p.mustCheck(name)
		if aside, err := filepath.Glob(path + ".damaged-*"); err != nil || len(aside) != 1 {
			t.Errorf("%s: set aside: %v, %v", name, aside, err)
		}
	}
}
