package meta_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"operon/meta"
	"operon/spec/coord"
	"operon/storage/boltfile"
)

func TestMain(m *testing.M) {
	// Each check syncs files; -rapid.checks asks for more.
	if err := flag.Set("rapid.checks", "30"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// fataler is what *testing.T and *rapid.T share.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func open(t fataler, dir string, o meta.Options) *meta.Store {
	t.Helper()
	if o.Interval == 0 {
		o.Interval = -1
	}
	s, err := meta.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shut closes a store and verifies the structure of its file.
func shut(t fataler, s *meta.Store, dir string) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := boltfile.Open(filepath.Join(dir, meta.FileName), boltfile.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
}

func flush(t fataler, ctx context.Context, s *meta.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

// model is what a store holds, printed: a line for each thing.
type model struct {
	footprint *meta.Footprint
	applied   uint64
	dataflows map[uint64]meta.Dataflow
	commands  map[uint64]meta.Command
	values    map[uint64]map[string]string
	history   []string
}

func newModel() *model {
	return &model{dataflows: map[uint64]meta.Dataflow{}, commands: map[uint64]meta.Command{}, values: map[uint64]map[string]string{}}
}

func (m *model) put(id uint64, key, value string) {
	if m.values[id] == nil {
		m.values[id] = map[string]string{}
	}
	m.values[id][key] = value
}

// compare returns the first difference, or the error that the reader met.
func (m *model) compare(r *meta.Reader) error {
	if err := r.Verify(); err != nil {
		return err
	}
	p, ok, err := r.Footprint()
	if err != nil {
		return err
	}
	if ok != (m.footprint != nil) || ok && !reflect.DeepEqual(p, *m.footprint) {
		return fmt.Errorf("footprint %+v, want %+v", p, m.footprint)
	}
	if r.Applied() != m.applied {
		return fmt.Errorf("applied %d, want %d", r.Applied(), m.applied)
	}
	list, err := r.Dataflows()
	if err != nil {
		return err
	}
	var want []meta.Dataflow
	for _, id := range slices.Sorted(maps.Keys(m.dataflows)) {
		want = append(want, m.dataflows[id])
	}
	if !reflect.DeepEqual(list, want) {
		return fmt.Errorf("dataflows %+v, want %+v", list, want)
	}
	commands, err := r.Commands()
	if err != nil {
		return err
	}
	var wantCommands []meta.Command
	for _, index := range slices.Sorted(maps.Keys(m.commands)) {
		wantCommands = append(wantCommands, m.commands[index])
	}
	if !reflect.DeepEqual(commands, wantCommands) {
		return fmt.Errorf("commands %+v, want %+v", commands, wantCommands)
	}
	for id := range uint64(5) {
		got, err := values(r, id)
		if err != nil {
			return err
		}
		if !maps.Equal(got, m.values[id]) {
			return fmt.Errorf("dataflow %d has %q, want %q", id, got, m.values[id])
		}
	}
	var history []string
	err = r.History(func(run string, data []byte) error {
		history = append(history, run+":"+string(data))
		return nil
	})
	if err == nil && !slices.Equal(history, m.history) {
		return fmt.Errorf("history %q, want %q", history, m.history)
	}
	return err
}

// values are all values of a dataflow.
func values(r *meta.Reader, id uint64) (map[string]string, error) {
	got := map[string]string{}
	page := func(kind string) func(coord.Coord, uint32, []byte) error {
		return func(prefix coord.Coord, n uint32, data []byte) error {
			if data == nil {
				return errors.New("an empty page is absent")
			}
			got[fmt.Sprint(kind, prefix.Indices(), n)] = string(data)
			return nil
		}
	}
	return got, errors.Join(
		r.Tickets(id, page("t")),
		r.Resolutions(id, page("r")),
		r.Shares(id, func(ref int, pins coord.Coord, done, quota uint64) error {
			got[fmt.Sprint("s", ref, pins.Indices())] = fmt.Sprint(done, quota)
			return nil
		}),
	)
}

func drawCoord(t *rapid.T) coord.Coord {
	return coord.Of(rapid.SliceOfN(rapid.Uint32Range(0, 2), 0, 3).Draw(t, "coord")...)
}

// change makes one change to both.
func change(t *rapid.T, b *meta.Batch, m *model) {
	id := rapid.Uint64Range(0, 4).Draw(t, "id")
	c := drawCoord(t)
	n := rapid.Uint32Range(0, 3).Draw(t, "n")
	text := rapid.SampledFrom([]string{"", "a", "some data"}).Draw(t, "data")
	switch rapid.IntRange(0, 16).Draw(t, "change") {
	case 0:
		p := meta.Footprint{Format: 1, RunID: text, State: "running", Asked: []byte("{}"), Source: []byte("x"), Summary: []byte("[]"), Started: time.Unix(5, 6).UTC()}
		b.PutFootprint(p)
		m.footprint = &p
	case 1, 2:
		d := meta.Dataflow{ID: id, Task: text, Dims: []string{"i", "j"}, State: "running", Topo: int(n)}
		b.PutDataflow(d)
		m.dataflows[id] = d
	case 3:
		b.DropDataflow(id)
		delete(m.dataflows, id)
		delete(m.values, id)
	case 4:
		b.DropTickets(id)
		maps.DeleteFunc(m.values[id], func(k, _ string) bool { return k[0] != 'r' })
	case 5:
		b.PutHistory("run", []byte(text))
		m.history = append(m.history, "run:"+text)
	case 6:
		if n == 0 {
			b.Reset()
			*m = model{dataflows: map[uint64]meta.Dataflow{}, commands: map[uint64]meta.Command{}, values: map[uint64]map[string]string{}, history: m.history}
		}
	case 14, 15:
		cmd := meta.Command{Index: id, Kind: meta.CommandCreate, Dataflow: uint64(n), Outcome: uint8(n), Text: text}
		b.PutCommand(cmd)
		m.commands[id] = cmd
	case 16:
		b.DropCommands()
		clear(m.commands)
	case 7, 8:
		b.PutResolutions(id, c, n, []byte(text))
		m.put(id, fmt.Sprint("r", c.Indices(), n), text)
	case 9, 10:
		b.PutShare(id, int(n), c, uint64(n)<<40, 7)
		m.put(id, fmt.Sprint("s", n, c.Indices()), fmt.Sprint(uint64(n)<<40, 7))
	default:
		b.PutTickets(id, c, n, []byte(text))
		m.put(id, fmt.Sprint("t", c.Indices(), n), text)
	}
}

func TestStoreIsItsModel(t *testing.T) {
	under := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(under, "")
		if err != nil {
			r.Fatal(err)
		}
		m := newModel()
		s := open(r, dir, meta.Options{})
		r.Repeat(map[string]func(*rapid.T){
			"batch": func(r *rapid.T) {
				b := &meta.Batch{}
				for range rapid.IntRange(0, 8).Draw(r, "changes") {
					change(r, b, m)
				}
				if b.Applied = rapid.Uint64Range(0, 9).Draw(r, "applied"); b.Applied > 0 {
					m.applied = b.Applied
				}
				s.Submit(b)
			},
			"reopen": func(r *rapid.T) {
				shut(r, s, dir)
				s = open(r, dir, meta.Options{})
			},
			"compare": func(r *rapid.T) {
				flush(r, t.Context(), s)
				if err := s.View(m.compare); err != nil {
					r.Fatal(err)
				}
			},
		})
		shut(r, s, dir)
		s = open(r, dir, meta.Options{ReadOnly: true})
		defer s.Close()
		if err := s.View(m.compare); err != nil {
			r.Fatal(err)
		}
	})
}

func TestHistoryIsBounded(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, meta.Options{})
	b := &meta.Batch{}
	for i := range meta.HistoryLimit + 7 {
		b.PutHistory(fmt.Sprint(i), nil)
	}
	s.Submit(b)
	flush(t, t.Context(), s)
	n, first := 0, ""
	if err := s.View(func(r *meta.Reader) error {
		return r.History(func(run string, _ []byte) error {
			if n++; n == 1 {
				first = run
			}
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	if n != meta.HistoryLimit || first != "7" {
		t.Errorf("%d entries from %q on", n, first)
	}
	shut(t, s, dir)
}

// filled is a directory with a bit of everything, closed, and its model: that
// of the last commit and that of the one before.
func filled(t *testing.T) (dir string, before, after *model) {
	t.Helper()
	dir = t.TempDir()
	s := open(t, dir, meta.Options{})
	fill := func(m *model, n int) {
		b := &meta.Batch{Applied: uint64(n)}
		m.applied = uint64(n)
		for id := range uint64(3) {
			d := meta.Dataflow{ID: id, Task: "task", Dims: []string{"i"}, State: "running"}
			b.PutDataflow(d)
			m.dataflows[id] = d
			for page := range uint32(30) {
				data := bytes.Repeat([]byte{byte(page)}, 100+n)
				b.PutTickets(id, "", page, data)
				m.put(id, fmt.Sprint("t", []uint32{}, page), string(data))
				b.PutShare(id, 1, coord.Of(page), 1, 2)
				m.put(id, fmt.Sprint("s", 1, []uint32{page}), fmt.Sprint(1, 2))
			}
		}
		b.PutHistory("run", []byte("data"))
		m.history = append(m.history, "run:data")
		cmd := meta.Command{Index: uint64(n), Kind: meta.CommandHello, Text: "session"}
		b.PutCommand(cmd)
		m.commands[cmd.Index] = cmd
		s.Submit(b)
		flush(t, t.Context(), s)
	}
	before, after = newModel(), newModel()
	fill(before, 1)
	after.history = slices.Clone(before.history)
	after.commands = maps.Clone(before.commands)
	fill(after, 2)
	shut(t, s, dir)
	return dir, before, after
}

// Whatever byte is damaged: what Verify lets pass is right. A damaged first page
// may cost the last commit, no more.
func TestEveryByte(t *testing.T) {
	dir, before, after := filled(t)
	path := filepath.Join(dir, meta.FileName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused, right := 0, 0
	for at := 0; at < len(whole); at += 64 {
		at := min(at+at/64%64, len(whole)-1)
		content := bytes.Clone(whole)
		content[at] ^= 1 << (at / 64 % 8)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := meta.Open(dir, meta.Options{ReadOnly: true})
		if err == nil {
			var m *model
			err = s.View(func(r *meta.Reader) error {
				m = after
				if r.Applied() == before.applied {
					m = before
				}
				return m.compare(r)
			})
			s.Close()
		}
		switch {
		case err == nil:
			right++
		case meta.IsDamage(err):
			refused++
		default:
			t.Errorf("byte %d: %v", at, err)
		}
	}
	if refused == 0 || right == 0 {
		t.Errorf("%d refused, %d right: the test tests nothing", refused, right)
	}
}

func TestSomethingElseInItsPlace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, meta.FileName)
	if _, err := meta.Open(dir, meta.Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
	if err := meta.Remove(dir); err != nil {
		t.Errorf("remove nothing: %v", err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := meta.Open(dir, meta.Options{}); !meta.IsDamage(err) {
		t.Errorf("a folder: %v", err)
	}
	if err := meta.Remove(dir); err == nil {
		t.Error("removed a folder")
	}
	for range 2 { // a second one gets another name
		to, err := meta.MoveAside(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(to); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(path, []byte("a foreign file"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := meta.Open(dir, meta.Options{}); !meta.IsDamage(err) {
			t.Errorf("a foreign file: %v", err)
		}
	}
	if err := meta.Remove(dir); err != nil {
		t.Fatal(err)
	}
	shut(t, open(t, dir, meta.Options{}), dir)
}

func TestOtherFormats(t *testing.T) {
	dir := t.TempDir()
	shut(t, open(t, dir, meta.Options{}), dir)
	setFormat := func(n byte) {
		f, err := boltfile.Open(filepath.Join(dir, meta.FileName), boltfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		f.Submit(boltfile.Commit{Apply: func(tx *bolt.Tx) error {
			bucket, key := []byte("state"), []byte("format")
			return tx.Bucket(bucket).Put(key, boltfile.Seal(bucket, key, []byte{0, 0, 0, 0, 0, 0, 0, n}))
		}})
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	setFormat(meta.Format + 1)
	var newer *meta.NewerError
	if _, err := meta.Open(dir, meta.Options{}); !errors.As(err, &newer) || newer.Have != meta.Format+1 || newer.Know != meta.Format {
		t.Errorf("newer: %v", err)
	}
	setFormat(meta.Format - 1)
	var older *meta.OlderError
	if _, err := meta.Open(dir, meta.Options{}); !errors.As(err, &older) || older.Have != meta.Format-1 {
		t.Errorf("older: %v", err)
	}
}
