package engine_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"operon/engine"
	"operon/spec/coord"
	"operon/storage"
)

// hide takes the record of a job out of data.db and leaves all counts, as a
// damaged page does.
func (p *project) hide(pipeline string, c coord.Coord, records uint64) {
	p.t.Helper()
	db, err := bolt.Open(filepath.Join(p.stateDir(pipeline), storage.DataFile), 0o600, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	hidden := false
	err = db.Update(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			if len(name) != 9 || name[0] != 'r' || b.Sequence() != records {
				return nil
			}
			cur := b.Cursor()
			if k, _ := cur.Seek([]byte(c)); !bytes.HasPrefix(k, []byte(c)) {
				return nil
			}
			hidden = true
			return cur.Delete()
		})
	})
	if err := errors.Join(err, db.Close()); err != nil || !hidden {
		p.t.Fatal(hidden, err)
	}
}

// The records of a part of a task are fewer than the tickets say: what is there
// is printed, and that something is missing is said.
func TestGetNoticesHiddenRecords(t *testing.T) {
	const yaml = `pipeline: hidden
tasks:
  a: {out: A<i>, source: {count: 4}}
  b: {in: A, for: i, out: B<j>, jq: 'range(3)'}
  c: {in: B, for: [i, j], out: C, jq: '. + 1'}
  d: {in: C, for: [i, j], out: D<k>, jq: 'range(.)'}
  e: {in: "D<i, j, k>", out: E, run: 'exit 1'}
`
	for _, until := range []string{"complete", "failed"} {
		p := newProject(t, yaml)
		o := engine.Options{}
		if until == "complete" {
			o.Until = []string{"d"}
		}
		if _, err := p.run(o); err != nil {
			t.Fatal(err)
		}
		ask := func(entity string, at coord.Binding) (n int, err error) {
			s, err := engine.OpenState(p.stateDir("hidden"))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			_, err = s.Values(context.Background(), engine.Query{Entity: entity, At: at}, func(engine.Item) error {
				n++
				return nil
			})
			return n, err
		}
		for _, at := range []coord.Binding{{"i": 1}, {"i": 1, "j": 2}, {"j": 2}, {"i": 2, "k": 0}, nil} {
			if _, err := ask("D", at); err != nil {
				t.Errorf("%s, whole at %v: %v", until, at, err)
			}
		}
		p.hide("hidden", coord.Of(1, 2), 12) // of c, which comes first
		for _, c := range []struct {
			at   coord.Binding
			want int
			told bool
		}{
			{coord.Binding{"i": 1}, 2, true}, {coord.Binding{"i": 1, "j": 2}, 0, true}, {coord.Binding{"j": 2}, 3, true}, {nil, 11, true},
			{coord.Binding{"i": 1, "j": 1}, 1, false}, {coord.Binding{"i": 0}, 3, false},
		} {
			n, err := ask("C", c.at)
			if n != c.want {
				t.Errorf("%s: %d values at %v, want %d", until, n, c.at, c.want)
			}
			var told *engine.InconsistentError
			if (err != nil) != c.told || c.told && len(c.at) > 0 && c.at["i"] == 1 && (!errors.As(err, &told) || told.Task != "c" || told.Coord != "i=1,j=2") {
				t.Errorf("%s at %v: %v", until, c.at, err)
			}
		}
	}
}
