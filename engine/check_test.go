package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"operon/engine"
	"operon/engine/ticket"
	"operon/meta"
	"operon/spec/coord"
	"operon/storage"
)

// check checks the project's state.
func (p *project) check(mode engine.CheckMode) (*engine.CheckReport, error) {
	p.t.Helper()
	pl, err := engine.LoadFile(p.file, engine.LoadOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return engine.Check(context.Background(), pl, engine.CheckOptions{Dir: p.dir, Mode: mode})
}

func (p *project) mustCheck(what string) *engine.CheckReport {
	p.t.Helper()
	rep, err := p.check(engine.Exhaustive)
	if err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
	if !rep.Consistent {
		p.t.Fatalf("%s: %+v", what, rep.Faults)
	}
	return rep
}

// faulty has every kind of value and body in few jobs: lists, an empty one,
// files, a large text, a slice that closes over all.
const faulty = `pipeline: faulty
tasks:
  lines: {out: Line<i>, source: {values: ["b a", "", "d e f"]}}
  words: {in: Line, for: i, out: Word<j>, run: "tr ' ' '\\n'"}
  pack:
    in: Word
    for: [i, j]
    out: Pack
    format: file
    run: '{ cat; head -c 9000 /dev/zero | tr "\0" x; } > $out'
  big: {in: Word, for: [i, j], out: Big, jq: '. * 20000'}
  size: {in: Pack<j>, for: i, out: Size, run: "wc -l"}
  all: {in: ["Big<i, j>", "Size<i>"], out: All, jq: '[.big_i_j, .size_i] | tostring | length'}
`

// faultyJobs is how many jobs the pipeline has.
const faultyJobs = 1 + 3 + 5 + 5 + 3 + 1

func (p *project) open(name string) (*storage.Store, *meta.Store, func()) {
	p.t.Helper()
	d, err := storage.Open(p.stateDir(name), storage.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	m, err := meta.Open(p.stateDir(name), meta.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	return d, m, func() {
		if err := errors.Join(m.Close(), d.Close()); err != nil {
			p.t.Fatal(err)
		}
	}
}

// flows are the numbers of the current dataflows, by task.
func flows(t testing.TB, d *storage.Store) map[string]uint64 {
	t.Helper()
	out := map[string]uint64{}
	err := d.View(func(r *storage.Reader) error {
		headers, err := r.Headers()
		for _, h := range headers {
			if h.State == storage.Current {
				out[h.Task] = h.ID
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCheckOfWhatRunsLeave(t *testing.T) {
	p := newProject(t, faulty)
	if _, err := p.check(engine.Quick); !errors.Is(err, engine.ErrNoState) {
		t.Errorf("before any run: %v", err)
	}
	p.mustRun(engine.Options{Until: []string{"words"}})
	p.mustCheck("half of it")
	p.mustRun(engine.Options{})
	for _, mode := range engine.CheckModes() {
		rep, err := p.check(mode)
		if err != nil || !rep.Consistent || len(rep.Notes) > 0 {
			t.Errorf("%s: %+v, %v", mode, rep, err)
		}
		want := engine.Checked{Tickets: faultyJobs, Records: faultyJobs, Values: 3 + 5 + 5 + 5 + 3 + 1, Blobs: 10}
		switch mode {
		case engine.TrustAll:
			want = engine.Checked{}
		case engine.MetadataOnly:
			want.Values, want.Blobs = 0, 0
		case engine.Quick:
			want.Values, want.Blobs = 1, 0 // All alone is not read by a task
		}
		if rep.Checked != want {
			t.Errorf("%s: checked %+v, want %+v", mode, rep.Checked, want)
		}
	}
	if _, err := p.check("closely"); err == nil {
		t.Error("a mode that there is not")
	}
	p.edit(strings.Replace(faulty, "* 20000", "* 20001", 1))
	if rep := p.mustCheck("edited"); rep.Notes[engine.NoteChangedTasks] != 2 {
		t.Errorf("notes %v", rep.Notes)
	}
}

func TestCheckOfFailedJobs(t *testing.T) {
	p := newProject(t, `pipeline: p
tasks:
  n: {out: N<i>, source: {count: 3}}
  odd: {in: N, for: i, out: Odd, run: 'x=$(cat); test $x != 1'}
  all: {in: Odd<i>, out: All, run: cat}
`)
	if s, err := p.run(engine.Options{KeepGoing: true}); err != nil || s.Failed != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	p.mustCheck("a failed job")
	rep := p.mustRebuild(engine.RebuildOptions{})
	if rep.State != engine.StateFailed || rep.Kept != 3 {
		t.Errorf("%+v", rep)
	}
	p.mustCheck("rebuilt")
	p.edit(`pipeline: p
tasks:
  n: {out: N<i>, source: {count: 3}}
  odd: {in: N, for: i, out: Odd, run: 'x=$(cat); test $x != 4'}
  all: {in: Odd<i>, out: All, run: cat}
`)
	p.mustRun(engine.Options{})
	p.mustCheck("mended by hand")
}

// Every kind of fault is found where it is, and rebuild and a run mend it.
func TestEveryKindOfFault(t *testing.T) {
	t.Parallel()
	at := coord.Of(0)
	for _, c := range []struct {
		kind  engine.FaultKind
		where string // of the fault, task and coordinate
		do    func(*edit)
	}{
		{engine.FaultRecordMissing, "words at i=0", func(e *edit) {
			e.d.DropRecord(e.ids["words"], at)
		}},
		{engine.FaultTicketMissing, "size at i=2", func(e *edit) {
			e.m.PutTickets(e.ids["size"], "", 0, []byte{2, byte(ticket.Done)})
		}},
		{engine.FaultTicketWrong, "size at i=1", func(e *edit) {
			e.m.PutTickets(e.ids["size"], "", 0, []byte{1, byte(ticket.Done), 1, byte(ticket.Hole), 1, byte(ticket.Done)})
		}},
		{engine.FaultExtent, "words at i=2", func(e *edit) {
			e.m.PutResolutions(e.ids["words"], "", 0, []byte{3, 1, 5})
		}},
		{engine.FaultShare, "size", func(e *edit) {
			e.m.PutShare(e.ids["size"], 0, at, 2, 3)
		}},
		{engine.FaultDataflow, "all", func(e *edit) {
			e.m.PutDataflow(meta.Dataflow{ID: e.ids["all"], Task: "other", State: string(engine.DataflowComplete)})
		}},
		{engine.FaultCount, "all", func(e *edit) {
			e.d.DropRecord(e.ids["all"], "")
			e.m.PutTickets(e.ids["all"], "", 0, nil)
		}},
		{engine.FaultMetaDamaged, "size", func(e *edit) {
			e.m.PutTickets(e.ids["size"], coord.Of(1, 2), 0, []byte{1, byte(ticket.Done)})
		}},
		{engine.FaultRecordKey, "big at i=0,j=1", func(e *edit) {
			e.copyRecord("big", coord.Of(0, 0), "big", coord.Of(0, 1))
		}},
		{engine.FaultRecordShape, "words at i=1", func(e *edit) {
			e.copyRecord("all", "", "words", coord.Of(1))
		}},
		{engine.FaultBlobMissing, "pack at i=0,j=1", func(e *edit) {
			e.p.blob(0x61, func(path string) error { return os.Remove(path) })
		}},
		{engine.FaultBlobDamaged, "pack at i=0,j=1", func(e *edit) {
			e.p.blob(0x61, func(path string) error { return flip(path, 100) })
		}},
		{engine.FaultMetaMissing, "", func(e *edit) {
			if err := os.Remove(filepath.Join(e.p.stateDir("faulty"), meta.FileName)); err != nil {
				e.p.t.Fatal(err)
			}
		}},
		{engine.FaultMetaForeign, "", func(e *edit) {
			e.m.PutFootprint(meta.Footprint{Format: 1, RunID: "other", State: "complete", Pipeline: "faulty", File: "p.yaml"})
		}},
		{engine.FaultDataBehind, "", func(e *edit) {
			e.m.Applied = 1 << 40
		}},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			p := newProject(t, faulty)
			p.mustRun(engine.Options{})
			want := p.values("All") + p.values("Pack")
			p.change("faulty", c.do)
			rep, err := p.check(engine.Exhaustive)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, f := range rep.Faults {
				found = found || f.Kind == c.kind && f.Where() == c.where
				if f.Mend == "" || f.Detail == "" {
					t.Errorf("says too little: %+v", f)
				}
			}
			if !found || rep.Consistent {
				t.Errorf("not found at %q: %+v", c.where, rep.Faults)
			}
			p.mustRebuild(engine.RebuildOptions{})
			p.mustCheck("rebuilt")
			if s := p.mustRun(engine.Options{}); s.State != engine.StateComplete {
				t.Errorf("%+v", s)
			}
			p.mustCheck("run")
			if got := p.values("All") + p.values("Pack"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// edit is a change of both stores behind the engine's back.
type edit struct {
	p    *project
	data *storage.Store
	d    *storage.Batch
	m    *meta.Batch
	ids  map[string]uint64 // current dataflows
}

// change changes both stores.
func (p *project) change(name string, do func(*edit)) {
	p.t.Helper()
	d, m, shut := p.open(name)
	e := &edit{p, d, &storage.Batch{Urgent: true}, &meta.Batch{Urgent: true}, flows(p.t, d)}
	do(e)
	if e.d.Len() > 0 {
		d.Submit(e.d)
	}
	if e.m.Len() > 0 || e.m.Applied > 0 {
		m.Submit(e.m)
	}
	shut()
}

// copyRecord puts a job's record and output in the place of another's.
func (e *edit) copyRecord(from string, job coord.Coord, to string, at coord.Coord) {
	e.p.t.Helper()
	err := e.data.View(func(r *storage.Reader) error {
		rec, _, err := r.Record(e.ids[from], job)
		if err != nil {
			return err
		}
		out, err := r.Output(e.ids[from], job)
		if err != nil {
			return err
		}
		rec.Coord = at
		e.d.PutRecord(e.ids[to], rec, out)
		return nil
	})
	if err != nil {
		e.p.t.Fatal(err)
	}
}

// blob does something to the first blob whose text begins with a byte.
func (p *project) blob(first byte, do func(path string) error) {
	p.t.Helper()
	paths, _ := filepath.Glob(filepath.Join(p.dir, ".operon", "*", storage.BlobsDir, "*"))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil || len(text) == 0 || text[0] != first {
			continue
		}
		if err := os.Chmod(path, 0o600); err != nil {
			p.t.Fatal(err)
		}
		if err := do(path); err != nil {
			p.t.Fatal(err)
		}
		return
	}
	p.t.Fatal("no such blob")
}

// flip changes a byte of a file.
func flip(path string, at int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	if err == nil {
		b[0] ^= 0x10
		_, err = f.WriteAt(b, at)
	}
	return errors.Join(err, f.Close())
}

func TestCheckReportsAsJSON(t *testing.T) {
	rep := engine.CheckReport{
		Mode: engine.Quick, Checked: engine.Checked{Tickets: 1, Records: 2, Values: 3, Blobs: 4}, Notes: map[string]int64{"files-without-record": 1},
		Faults: []engine.Fault{
			{Task: "t", Coord: coord.Of(0, 7), Dims: []string{"i", "j"}, Kind: engine.FaultRecordKey, Detail: `a "b" <c>`, Mend: "m"},
			{Kind: engine.FaultMetaMissing, Detail: "d", Mend: "m"},
		},
	}
	text, err := json.Marshal(rep)
	if err != nil {
		t.Fatal(err)
	}
	var compact strings.Builder
	enc := json.NewEncoder(&compact)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(rep); err != nil {
		t.Fatal(err)
	}
	want := `{"mode":"quick","consistent":false,"checked":{"tickets":1,"records":2,"values":3,"blobs":4},"notes":{"files-without-record":1},` +
		`"faults":[{"task":"t","coord":{"i":0,"j":7},"kind":"record-key","detail":"a \"b\" <c>","mend":"m"},` +
		`{"task":"","coord":{},"kind":"metadata-missing","detail":"d","mend":"m"}]}` + "\n"
	if compact.String() != want {
		t.Errorf("%s\nwant\n%s", compact.String(), want)
	}
	var back engine.CheckReport
	if err := json.Unmarshal(text, &back); err != nil || fmt.Sprint(back.Faults) != fmt.Sprint(rep.Faults) && len(back.Faults) != 2 {
		t.Errorf("%+v, %v", back, err)
	}
	if f := back.Faults[0]; f.Where() != "t at i=0,j=7" {
		t.Errorf("%q", f.Where())
	}
}

// What the documentation lists is what there is.
func TestKindsAreDocumented(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range append(engine.FaultKinds(), engine.NoteKinds()...) {
		if k.Name == "" || k.Meaning == "" || seen[k.Name] {
			t.Errorf("%+v", k)
		}
		seen[k.Name] = true
	}
	for _, k := range engine.FaultKinds() {
		if k.Mend == "" {
			t.Errorf("%s: how to mend it?", k.Name)
		}
	}
}
