package engine_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"operon/engine"
	"operon/storage"
)

const remembered = `pipeline: remembered
tasks:
  n: {out: N<i>, source: {count: 4}}
  small: {in: N, for: i, out: Small, jq: '. + 1'}
  list: {in: N, for: i, out: Part<j>, jq: 'range(300) | "\(.) some text"'}
  big: {in: N, for: i, out: Big, jq: '"\(.)" * 20000'}
  pack: {in: N, for: i, out: Pack, format: file, run: '{ printf "%s" "p$n"; head -c 5000 /dev/zero; } > $out'}
  all: {in: ["Small<i>", "Part<i, j>", "Big<i>", "Pack<i>"], out: All, jq: '[.small_i, .part_i_j, .big_i] | tostring | length'}
`

// rewritten edits every task but the source.
func rewritten(yaml string) string {
	return strings.NewReplacer("'. + 1'", "'. + 10'", "some text", "other text", "* 20000", "* 20002", "head -c 5000", "head -c 5001").Replace(yaml)
}

// inData changes the data behind the store's back.
func (p *project) inData(pipeline string, do func(tx *bolt.Tx) error) {
	p.t.Helper()
	db, err := bolt.Open(filepath.Join(p.stateDir(pipeline), storage.DataFile), 0o600, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(do); err != nil {
		p.t.Fatal(err)
	}
}

// spoil damages the first value of every bucket of a kind whose dataflow is one of
// ids.
func spoil(kind byte, ids ...uint64) func(tx *bolt.Tx) error {
	return func(tx *bolt.Tx) error {
		for _, id := range ids {
			b := tx.Bucket(binary.BigEndian.AppendUint64([]byte{kind}, id))
			if b == nil {
				continue
			}
			k, v := b.Cursor().First()
			bad := bytes.Clone(v)
			bad[len(bad)/2] ^= 1
			if err := b.Put(bytes.Clone(k), bad); err != nil {
				return err
			}
		}
		return nil
	}
}

// aged is a project with results of an earlier definition, in the dataflows old.
func aged(t *testing.T) (p *project, old []uint64) {
	p = newProject(t, remembered)
	p.mustRun(engine.Options{})
	d, _, shut := p.open("remembered")
	for task, id := range flows(t, d) {
		if task != "n" {
			old = append(old, id)
		}
	}
	shut()
	p.edit(rewritten(remembered))
	p.mustRun(engine.Options{})
	return p, old
}

// earlierBlobs damages the first blob of the earlier definition that begins with
// some text.
func (p *project) earlierBlob(begin string, size int64, do func(path string) error) {
	p.t.Helper()
	paths, _ := filepath.Glob(filepath.Join(p.stateDir("remembered"), storage.BlobsDir, "*"))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err == nil && strings.HasPrefix(string(text), begin) && int64(len(text)) == size {
			if err := errors.Join(os.Chmod(path, 0o600), do(path)); err != nil {
				p.t.Fatal(err)
			}
			return
		}
	}
	p.t.Fatal("no such blob")
}

// What is damaged of an earlier definition's results is no harm to a run, but
// said, and goes with a rebuild; what is whole of them is taken back as before.
func TestDamagedMemo(t *testing.T) {
	t.Parallel()
	every := scale(2, 1) // of the ways to mend each
	for i, c := range []struct {
		name, reasons string
		dropped       int64
		do            func(p *project, old []uint64)
	}{
		{"records", "map[record-damaged:5]", 5, func(p *project, old []uint64) { p.inData("remembered", spoil('r', old...)) }},
		{"values", "map[values-damaged:1]", 1, func(p *project, old []uint64) { p.inData("remembered", spoil('v', old...)) }},
		{"a file", "map[blob-damaged:1]", 1, func(p *project, _ []uint64) {
			p.earlierBlob("p", 5002, func(path string) error { return flip(path, 50) })
		}},
		{"a text that is gone", "map[blob-missing:1]", 1, func(p *project, _ []uint64) { p.earlierBlob(`"0`, 20002, os.Remove) }},
	} {
		for n, how := range []string{"rebuild", "rebuild --redo-inconsistent", "run --redo-inconsistent", "run --rebuild", "run without metadata"} {
			if (i+n)%every != 0 {
				continue
			}
			t.Run(c.name+", "+how, func(t *testing.T) {
				p, old := aged(t)
				want := p.values("All")
				c.do(p, old)
				if s := p.mustRun(engine.Options{}); s.Executed != 0 {
					t.Errorf("a run that was told nothing: %+v", s)
				}
				rep, err := p.check(engine.Exhaustive)
				if err != nil || int64(len(rep.Faults)) != c.dropped {
					t.Fatalf("%+v, %v", rep, err)
				}
				for _, f := range rep.Faults {
					if !strings.HasPrefix(f.Detail, "of an earlier definition: ") || !strings.Contains(f.Mend, "current results do not rest on it") {
						t.Errorf("%+v", f)
					}
				}
				switch how {
				case "rebuild", "rebuild --redo-inconsistent":
					rep := p.mustRebuild(engine.RebuildOptions{RedoInconsistent: how != "rebuild"})
					if rep.Memo.Dropped != c.dropped || fmt.Sprint(rep.Memo.Reasons) != c.reasons || rep.Dropped+rep.Aside > 0 {
						t.Errorf("%+v", rep)
					}
				case "run without metadata":
					p.removeMeta("remembered")
					fallthrough
				default:
					o := engine.Options{RedoInconsistent: how == "run --redo-inconsistent", Rebuild: how == "run --rebuild"}
					if s := p.mustRun(o); s.Executed != 0 {
						t.Errorf("%s: %+v", how, s)
					}
				}
				p.mustCheck("mended")
				if got := p.values("All"); got != want {
					t.Errorf("%s, not %s", got, want)
				}
				p.edit(remembered) // undone: what is whole is not made again
				if s := p.mustRun(engine.Options{}); s.Executed != c.dropped {
					t.Errorf("undone: %+v, want %d executed", s, c.dropped)
				}
				p.mustCheck("undone")
			})
		}
	}
}

// A source's own record that can't be read is dropped like any other.
func TestDamagedRecordOfASource(t *testing.T) {
	p := newProject(t, remembered)
	p.mustRun(engine.Options{})
	d, _, shut := p.open("remembered")
	source := flows(t, d)["n"]
	shut()
	p.inData("remembered", spoil('r', source))
	for _, mode := range []engine.CheckMode{engine.MetadataOnly, engine.Quick, engine.Exhaustive} {
		if rep, err := p.check(mode); err != nil || len(rep.Faults) == 0 || rep.Faults[0].Task != "n" || rep.Faults[0].Kind != engine.FaultRecordDamaged {
			t.Errorf("%s: %+v, %v", mode, rep, err)
		}
	}
	var wrong *engine.InconsistentError
	if _, err := p.run(engine.Options{}); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "operon rebuild") || strings.Contains(err.Error(), "instance") {
		t.Errorf("%v", err)
	}
	if rep := p.mustRebuild(engine.RebuildOptions{RedoInconsistent: true}); rep.Tasks[0].Reasons["record-damaged"] != 1 || rep.Tasks[0].Dropped != 1 {
		t.Errorf("%+v", rep)
	}
	p.mustCheck("rebuilt")
	if s := p.mustRun(engine.Options{}); s.Executed != 1 || s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
	p.mustCheck("run")
}
