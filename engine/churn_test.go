package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"operon/engine"
	"operon/meta"
	"operon/storage"
)

// level is what an engine takes at a moment.
type level struct {
	goroutines, files, dataflows, frontier int
	heap, meta                             int64
}

func (l *live) level(dir string) level {
	l.t.Helper()
	await(l.t, "nothing is pinned", func() bool { return len(l.whole().Frozen) == 0 })
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		l.t.Skip(err)
	}
	info, err := os.Stat(filepath.Join(dir, "meta.db"))
	if err != nil {
		l.t.Fatal(err)
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s := l.whole()
	out := level{goroutines: runtime.NumGoroutine(), files: len(files), heap: int64(m.HeapAlloc), meta: info.Size(), frontier: len(s.Frontier)}
	for _, w := range s.Workers {
		out.dataflows += w.Live
	}
	return out
}

// Tasks that come and go on one engine leave nothing behind, and a job that runs
// all the time takes no notice.
func TestComingAndGoing(t *testing.T) {
	cycles := 300
	if os.Getenv("OPERON_LONG") != "" {
		cycles = 10_000
	}
	p := newProject(t, "")
	version := func(n int) string {
		return fmt.Sprintf(livePipeline, "", "", "") + fmt.Sprintf(`  guest%d: {in: Item, for: i, out: Guest%d, exec: ["true", "%d"], pool: 2}
  after%d: {in: Guest%d<i>, out: After%d, exec: ["true"]}
`, n%3, n%3, n, n%3, n%3, n%3)
	}
	p.edit(version(0))
	l := p.start(engine.Options{Jobs: 4, Workers: 2})
	l.r.OK("split", "", `1`, `2`)
	l.r.Await("work", "i=0")
	dir := p.stateDir("live")
	var early level
	for n := 1; n <= cycles; n++ {
		guest := fmt.Sprintf("guest%d", n%3)
		l.reconcile(p, version(n), fmt.Sprintf("split keep, work keep, sum keep, %s create, after%d create, guest%d drop, after%d drop", guest, n%3, (n-1)%3, (n-1)%3))
		if n%4 == 0 {
			l.r.OK(guest, "i=1", `1`) // some have ended, some run, and some have not begun
		}
		if t.Failed() {
			break
		}
		if n == 100 {
			early = l.level(dir)
		}
	}
	var late level
	grown := func() (more []string) {
		late = l.level(dir)
		for what, is := range map[string]bool{
			"goroutines":      late.goroutines > early.goroutines+4,
			"files":           late.files > early.files+2,
			"live dataflows":  late.dataflows > early.dataflows,
			"frontier":        late.frontier > early.frontier,
			"size of meta.db": late.meta > early.meta+256<<10,
			"memory":          late.heap > early.heap+4<<20,
		} {
			if is {
				more = append(more, what)
			}
		}
		return more
	}
	// What was ended may take a moment to be gone.
	for began := time.Now(); len(grown()) > 0 && time.Since(began) < time.Minute; {
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%d cycles: after 100 %+v, at the end %+v", cycles, early, late)
	if more := grown(); len(more) > 0 {
		t.Errorf("%v: %+v, then %+v", more, early, late)
	}
	l.r.OK("work", "i=1", `2`)
	if got := l.r.OK("work", "i=0", `1`); got != 1 {
		t.Errorf("attempt %d: the job was begun anew", got)
	}
	guest := cycles % 3
	for i := range 2 {
		if cycles%4 != 0 || i != 1 {
			l.r.OK(fmt.Sprintf("guest%d", guest), fmt.Sprintf("i=%d", i), `1`)
		}
	}
	l.r.OK(fmt.Sprintf("after%d", guest), "", `1`)
	l.r.OK("sum", "", `3`)
	if s := l.wait(); s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
	if got := p.values("Done"); got != "i=0 1\ni=1 2\n" {
		t.Errorf("%q", got)
	}
	p.deep("after all that came and went")
	data, m, done := p.open("live")
	defer done()
	// Of those that are no more, the ones are there that a result could be taken
	// back from.
	err := data.View(func(r *storage.Reader) error {
		headers, err := r.Headers()
		if most := 5 + cycles/4; len(headers) > most {
			t.Errorf("the data has %d dataflows, more than %d", len(headers), most)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	var flows, commands int
	err = m.View(func(r *meta.Reader) error {
		there, err := r.Dataflows()
		if err != nil {
			return err
		}
		of, err := r.Commands()
		flows, commands = len(there), len(of)
		return err
	})
	if err != nil || flows != 5 || commands > 300 {
		t.Errorf("the metadata has %d dataflows and %d commands: %v", flows, commands, err)
	}
}
