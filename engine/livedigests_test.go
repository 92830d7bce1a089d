package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"operon/engine"
)

// Files that a source looks at are known to who edits the pipeline next: each is
// read once.
func TestReconcileKeepsDigestsOfSources(t *testing.T) {
	const head, tail = `pipeline: sources
tasks:
  hold: {out: Hold, exec: ["true"]}
  first: {out: First<i>, source: {glob: "texts/a*.txt"}}
`, `  second: {out: Second<j>, source: {glob: "texts/b*.txt"}}
`
	p := newProject(t, head)
	texts, err := filepath.Abs("../testdata/pipelines/wordcount/data") // what was written just now is not trusted
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(texts, filepath.Join(p.dir, "texts")); err != nil {
		t.Fatal(err)
	}
	l := p.start(engine.Options{Jobs: 2})
	l.r.Await("hold", "")
	known := func() int64 {
		info, err := os.Stat(filepath.Join(p.stateDir("sources"), "digests"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	one := known()
	l.reconcile(p, head+tail, "hold keep, first keep, second create")
	three := known()
	l.reconcile(p, head, "hold keep, first keep, second drop")
	l.reconcile(p, head+tail, "hold keep, first keep, second create")
	if again := known(); three <= one || again != three {
		t.Errorf("%d, %d, then %d bytes of digests", one, three, again)
	}
	l.r.OK("first", "", `"a1.txt"`)
	l.r.OK("second", "", `"b1.txt"`, `"b2.txt"`)
	l.r.OK("hold", "", `1`)
	if s := l.wait(); s.State != engine.StateComplete {
		t.Errorf("%+v", s)
	}
}
