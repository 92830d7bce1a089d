package engine_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"operon/engine"
	"operon/meta"
	"operon/storage"
)

// harmed has every kind of value, and bodies in process but for one: it is run
// again and again.
const harmed = `pipeline: harmed
tasks:
  lines: {out: Line<i>, source: {values: ["b a", "", "d e f"]}}
  words: {in: Line, for: i, out: Word<j>, jq: 'if . == "" then empty else split(" ")[] end'}
  pack: {in: Line, for: i, out: Pack, format: file, run: '{ cat; head -c 5000 /dev/zero; } > $out'}
  big: {in: Word, for: [i, j], out: Big, jq: '. * 20000'}
  many: {in: Word, for: [i, j], out: Many<k>, jq: '. as $w | range(300) | "\($w)\(.)"'}
  all: {in: ["Big<i, j>", "Many<i, j, k>", "Pack<i>"], out: All, jq: '[.big_i_j, .many_i_j_k] | tostring | length'}
`

var harmedEntities = []string{"Line", "Word", "Pack", "Big", "Many", "All"}

// tree is the files of a folder, by path.
type tree map[string][]byte

func readTree(t testing.TB, dir string) tree {
	t.Helper()
	out := tree{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		out[rel], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (tr tree) write(t testing.TB, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for rel, content := range tr {
		path := filepath.Join(dir, rel)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// hurt is one damaged state.
type hurt struct {
	kind string // of damage
	what string // exactly
	do   func(tr tree)
}

// outcomes counts what became of the cases of one kind of damage.
type outcomes struct{ cases, detected, harmless, mended, refused, silent int }

func (o *outcomes) add(p *outcomes) {
	o.cases += p.cases
	o.detected += p.detected
	o.harmless += p.harmless
	o.mended += p.mended
	o.refused += p.refused
	o.silent += p.silent
}

// bench is a project whose state is damaged over and over.
type bench struct {
	*project
	want  string // all entities of a complete run
	whole tree
	wrong []string // of the case under way
}

func (b *bench) errorf(format string, args ...any) {
	b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
}

// Whatever is damaged: an exhaustive check says so unless the results are in
// fact unharmed; get serves nothing wrong as right; rebuild and a run end with
// the right entities, or refuse where the data itself is lost.
func TestDamage(t *testing.T) {
	t.Parallel()
	tables := map[string]damageTable{"": {}, "many": {}}
	t.Run("until", func(t *testing.T) { // ends when both have
		for until, table := range tables {
			t.Run(until, func(t *testing.T) {
				t.Parallel()
				table.fill(t, until)
			})
		}
	})
	all := damageTable{}
	for _, table := range tables {
		all.add(table)
	}
	sum := all.sum()
	t.Logf("\n%v", all)
	if sum.detected == 0 || sum.mended == 0 || sum.detected == sum.cases {
		t.Errorf("%+v: the test tests nothing", *sum)
	}
}

// damageTable has what became of the cases, by the kind of damage.
type damageTable map[string]*outcomes

// fill damages the state of a run that went until a task, "" for all of them,
// in every way there is.
func (table damageTable) fill(t *testing.T, until string) {
	b := newBench(t, until)
	hurts := b.hurts()
	begun, told := time.Now(), 0
	for n, h := range hurts {
		if n%200 == 0 {
			t.Logf("%d of %d cases after %v", n, len(hurts), time.Since(begun).Round(time.Second))
		}
		b.wrong = nil
		b.suffer(h, table.of(h.kind))
		if len(b.wrong) == 0 {
			continue
		}
		t.Errorf("%s: %s:\n%s", h.kind, h.what, strings.Join(b.wrong, "\n"))
		if told++; told > 10 {
			t.FailNow()
		}
	}
}

func (table damageTable) of(kind string) *outcomes {
	if table[kind] == nil {
		table[kind] = &outcomes{}
	}
	return table[kind]
}

func (table damageTable) add(other damageTable) {
	for kind, o := range other {
		table.of(kind).add(o)
	}
}

func (table damageTable) sum() *outcomes {
	sum := &outcomes{}
	for _, o := range table {
		sum.add(o)
	}
	return sum
}

// String has a line a kind, in order, and one for all of them.
func (table damageTable) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%-32s %6s %9s %9s %7s %8s %7s\n", "damage", "cases", "detected", "harmless", "mended", "refused", "silent")
	line := func(kind string, o *outcomes) {
		fmt.Fprintf(&text, "%-32s %6d %9d %9d %7d %8d %7d\n", kind, o.cases, o.detected, o.harmless, o.mended, o.refused, o.silent)
	}
	for _, kind := range slices.Sorted(maps.Keys(table)) {
		line(kind, table[kind])
	}
	line("all", table.sum())
	return text.String()
}

func newBench(t *testing.T, until string) *bench {
	b := &bench{project: newProject(t, harmed)}
	b.mustRun(engine.Options{Jobs: 2})
	var err error
	if b.want, err = b.entities(); err != nil {
		t.Fatal(err)
	}
	if strings.Count(b.want, "\n") < 1500 {
		t.Fatalf("only\n%.500s", b.want)
	}
	if until != "" {
		b.mustRun(engine.Options{Jobs: 2, Fresh: true, Until: []string{until}})
	}
	b.whole = readTree(t, b.stateDir("harmed"))
	return b
}

// hurts are the cases: all of them, or a sample that takes a few seconds. With
// OPERON_DAMAGE_STEP=64 each 64th byte of every file, which takes half an hour.
func (b *bench) hurts() []hurt {
	every, _ := strconv.Atoi(os.Getenv("OPERON_DAMAGE_STEP"))
	long := os.Getenv("OPERON_LONG") != "" || every > 0
	old := b.older() // first: it makes the state anew
	rng := rand.New(rand.NewPCG(1, 2))
	var out []hurt
	add := func(kind, what string, do func(tr tree)) { out = append(out, hurt{kind, what, do}) }
	byteAt := func(kind, file string, at int) {
		mask := byte(1) << rng.IntN(8)
		if rng.IntN(3) == 0 {
			mask = 0xFF
		}
		add("byte of "+kind, fmt.Sprintf("%s at %d with %#x", file, at, mask), func(tr tree) { tr[file][at] ^= mask })
	}
	bytesOf := func(kind, file string, step int) {
		size := len(b.whole[file])
		if !long {
			step = max(step, size/3)
		}
		for at := rng.IntN(step); at < size; at += step {
			byteAt(kind, file, at)
		}
	}
	page := os.Getpagesize()
	// A page begins with what it is, and where its keys lie: each byte there
	// counts. Of keys and values, a few a page tell as much as all.
	pagesOf := func(file string) {
		if !long || every > 0 {
			bytesOf(file, file, cmp.Or(every, page))
			return
		}
		for from := 0; from < len(b.whole[file]); from += page {
			for at := from + rng.IntN(24); at < from+144; at += 24 {
				byteAt(file, file, at)
			}
			for at := from + 144 + rng.IntN(400); at < from+page; at += 400 {
				byteAt(file, file, at)
			}
		}
	}
	for _, file := range []string{meta.FileName, storage.DataFile} {
		pagesOf(file)
		pages := len(b.whole[file]) / page
		for n := range pages {
			if !long && n%max(1, pages/2) != 0 {
				continue
			}
			add("zeroed page of "+file, fmt.Sprintf("page %d", n), func(tr tree) { clear(tr[file][n*page : (n+1)*page]) })
		}
		buckets := bucketTables(b.whole[file])
		for n, at := range buckets {
			if long || n%max(1, len(buckets)/3) == 0 {
				byteAt("the buckets of "+file, file, at)
			}
		}
		list := freeListAt(b.whole[file])
		for off := 8; off < 40; off += 4 {
			if !long && off%16 != 8 {
				continue
			}
			add("free list of "+file, fmt.Sprintf("byte %d", off), func(tr tree) { tr[file][list+off] ^= 4 })
		}
		sizes := []int{0, len(b.whole[file]) / 2, len(b.whole[file]) - page}
		if long {
			sizes = append(sizes, 1, page, len(b.whole[file])-1)
		}
		for _, size := range sizes {
			add("truncated "+file, fmt.Sprintf("to %d", size), func(tr tree) { tr[file] = tr[file][:size] })
		}
		add("deleted "+file, "", func(tr tree) { delete(tr, file) })
		add("foreign "+file, "", func(tr tree) { tr[file] = []byte("this is no database") })
	}
	blobs := 0
	for file := range b.whole {
		if !strings.HasPrefix(file, storage.BlobsDir) {
			continue
		}
		if blobs++; !long && blobs > 1 {
			continue
		}
		bytesOf("a blob", file, cmp.Or(every, 4096))
		add("truncated blob", file, func(tr tree) { tr[file] = tr[file][:len(tr[file])/2] })
		add("deleted blob", file, func(tr tree) { delete(tr, file) })
	}
	for _, file := range []string{meta.FileName, storage.DataFile} {
		for name, tr := range old {
			content := tr[file]
			add("old copy of "+file, name, func(tr tree) { tr[file] = bytes.Clone(content) })
		}
	}
	return out
}

// firstPage is the newer of the first two pages of a database file.
func firstPage(content []byte) []byte {
	page := os.Getpagesize()
	a, b := content[16:], content[page+16:]
	if binary.LittleEndian.Uint64(a[48:]) >= binary.LittleEndian.Uint64(b[48:]) {
		return a
	}
	return b
}

// freeListAt is where the list of free pages of a database file begins.
func freeListAt(content []byte) int {
	return int(binary.LittleEndian.Uint64(firstPage(content)[32:])) * os.Getpagesize()
}

// bucketTables are the bytes that say where the names and places of the buckets
// lie, in the pages that list them.
func bucketTables(content []byte) (bytes []int) {
	const header, element, branch = 16, 16, 1
	le, size := binary.LittleEndian, os.Getpagesize()
	add := func(page int) (n int) {
		n = int(le.Uint16(content[page+10:]))
		for at := page + header; at < page+header+n*element; at++ {
			bytes = append(bytes, at)
		}
		return n
	}
	root := int(le.Uint64(firstPage(content)[16:])) * size
	n := add(root)
	if le.Uint16(content[root+8:]) != branch {
		return bytes
	}
	for i := range n {
		add(int(le.Uint64(content[root+header+i*element+8:])) * size)
	}
	return bytes
}

// older are states that the directory has been in before.
func (b *bench) older() map[string]tree {
	out := map[string]tree{}
	q := b.copied(func(*project) {})
	defer b.whole.write(b.t, b.stateDir("harmed"))
	// The state is grown anew here, since it must be the same run's.
	q.mustRun(engine.Options{Fresh: true, Until: []string{"lines"}})
	out["of another run"] = readTree(b.t, q.stateDir("harmed"))
	b.mustRun(engine.Options{Fresh: true, Until: []string{"words"}})
	out["of the same run, earlier"] = readTree(b.t, b.stateDir("harmed"))
	if len(b.whole[storage.DataFile]) > 0 {
		b.mustRun(engine.Options{Until: b.untilOf()})
		b.whole = readTree(b.t, b.stateDir("harmed"))
	}
	return out
}

// untilOf is how far the whole state had come.
func (b *bench) untilOf() []string {
	b.t.Helper()
	q := b.copied(func(q *project) { b.whole.write(b.t, q.stateDir("harmed")) })
	text, err := (&bench{project: q}).entities()
	if err != nil {
		b.t.Fatal(err)
	}
	if text == b.want {
		return nil
	}
	return []string{"many"}
}

// entities are all values that get serves, or the first error.
func (b *bench) entities() (string, error) {
	var out strings.Builder
	s, err := engine.OpenState(b.stateDir("harmed"))
	if err != nil {
		return "", err
	}
	defer s.Close()
	for _, entity := range harmedEntities {
		_, err := s.Values(context.Background(), engine.Query{Entity: entity}, func(it engine.Item) error {
			fmt.Fprintf(&out, "%s %v %s\n", entity, it.Coord.Indices(), it.Value.AppendJSON(nil))
			return nil
		})
		if err != nil {
			return out.String(), err
		}
	}
	return out.String(), nil
}

// served sees whether what get serves is right: a part of what is wanted, and
// all that the undamaged state has if it meets no error.
func (b *bench) served(have string) (right bool, err error) {
	got, err := b.entities()
	wanted := map[string]bool{}
	for line := range strings.Lines(b.want) {
		wanted[line] = true
	}
	for line := range strings.Lines(got) {
		if !wanted[line] {
			return false, err
		}
	}
	return err != nil || got == have, err
}

// suffer lets the state be damaged, and looks at what becomes of it.
func (b *bench) suffer(h hurt, o *outcomes) {
	dir := b.stateDir("harmed")
	b.whole.write(b.t, dir)
	have, err := b.entities()
	if err != nil {
		b.t.Fatal(err)
	}
	damaged := tree{}
	for file, content := range b.whole {
		damaged[file] = bytes.Clone(content)
	}
	h.do(damaged)
	o.cases++

	// What is there is looked at.
	damaged.write(b.t, dir)
	rep, checkErr := b.checkIn(5 * time.Minute)
	right, getErr := b.served(have)
	consistent := checkErr == nil && rep.Consistent
	switch {
	case consistent && (!right || getErr != nil):
		o.silent++
		b.errorf("the check finds nothing, and get: right %v, %v", right, getErr)
	case !right && !consistent && strings.HasPrefix(h.kind, "old copy"):
		// What was put back is right, but not all of it.
	case !right:
		o.silent++
		b.errorf("get serves what is not right; check: %+v, %v", rep, checkErr)
	}
	if consistent {
		o.harmless++
	} else {
		o.detected++
	}

	// A run that was told nothing ends right, or says why it does not.
	if s, err := b.attempt(); err == nil {
		if got, getErr := b.entities(); s.State != engine.StateComplete || getErr == nil && got != b.want {
			o.silent++
			b.errorf("a run ends %s, with the wrong entities: %v", s.State, got != b.want)
		}
	} else if !b.clear(err) {
		b.errorf("a run ends with %v", err)
	}

	// Rebuild mends it, or refuses.
	damaged.write(b.t, dir)
	if _, err := b.rebuild(engine.RebuildOptions{}); err != nil {
		if !b.clear(err) {
			b.errorf("rebuild ends with %v", err)
		}
		o.refused++
		return
	}
	b.mended()
	if !consistent {
		o.mended++
	}
}

// attempt is a run whose end may be an error, that of closing included.
func (b *bench) attempt() (*engine.Summary, error) {
	pl, err := engine.LoadFile(b.file, engine.LoadOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	e, err := engine.New(pl, engine.Options{Dir: b.dir, Jobs: 2})
	if err != nil {
		return nil, err
	}
	s, err := e.Run(context.Background())
	if closed := e.Close(); err == nil {
		err = closed
	}
	return s, err
}

// mended wants a rebuilt state to be consistent, and a run to end right.
func (b *bench) mended() {
	for _, when := range []string{"rebuilt", "run"} {
		rep, err := b.checkIn(5 * time.Minute)
		if err != nil || !rep.Consistent {
			b.errorf("%s: %+v, %v", when, rep, err)
		}
		if when == "run" {
			return
		}
		if s, err := b.attempt(); err != nil || s.State != engine.StateComplete {
			b.errorf("after a rebuild: %+v, %v", s, err)
			return
		}
		if got, err := b.entities(); err != nil || got != b.want {
			b.errorf("after rebuild and run: %v, the right entities: %v", err, got == b.want)
		}
	}
}

func (b *bench) checkIn(limit time.Duration) (*engine.CheckReport, error) {
	pl, err := engine.LoadFile(b.file, engine.LoadOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return engine.Check(ctx, pl, engine.CheckOptions{Dir: b.dir, Mode: engine.Exhaustive})
}

// clear reports whether an error says what is the matter, and what to do.
func (b *bench) clear(err error) bool {
	var damaged *engine.DamagedError
	var inconsistent *engine.InconsistentError
	var newer *engine.NewerError
	return errors.As(err, &damaged) || errors.As(err, &inconsistent) || errors.As(err, &newer) || errors.Is(err, engine.ErrNoState)
}
