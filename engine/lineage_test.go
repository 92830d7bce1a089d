package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"operon/engine"
	"operon/spec/coord"
)

// family is a pipeline of every way to take something: ragged lists, slices
// over some and over all dimensions, broadcasts, and an index that nothing else
// comes with. In canonical order k comes before j, which depends on i.
const family = `pipeline: family
params:
  n: 7
tasks:
  lines: {out: Line<i>, source: {lines: data.txt}}
  words: {in: Line, for: i, out: Word<j>, run: "tr ' ' '\\n'"}
  tags: {out: Tag<k>, source: {count: 2}}
  mark:
    in: Word
    for: [i, j, k]
    out: Mark
    run: echo "$k $n $(cat)"
  column:
    in: Mark<i, j>
    for: k
    out: Column
    jq: length
  rows:
    in: "Mark<k>"
    for: [i, j]
    out: Row
    jq: length
  first:
    in: Line
    for: i
    out: Big
    format: file
    run: cat > "$out"
    deps: [helper.txt]
  all: {in: ["Column<k>", "Big<i>"], out: All, run: echo done}
`

func familyProject(t *testing.T) *project {
	p := newProject(t, family)
	p.write("data.txt", "a b\nc\nd e f\n")
	p.write("helper.txt", "help\n")
	if s := p.mustRun(engine.Options{}); s.State != engine.StateComplete {
		t.Fatalf("%s", asJSON(s))
	}
	return p
}

// lineage is a line a step: values, task, then what it takes.
func (p *project) lineage(entity, at string, down bool, dims ...string) (string, error) {
	p.t.Helper()
	s, err := engine.OpenState(p.stateDir("family"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer s.Close()
	binding, err := coord.Parse(at, dims)
	if err != nil {
		p.t.Fatal(err)
	}
	var b strings.Builder
	err = s.Lineage(context.Background(), engine.LineageQuery{Entity: entity, At: binding, Down: down, Dir: p.dir}, func(st *engine.LineageStep) error {
		fmt.Fprintf(&b, "%s%s %s x%d", st.Entity, spansText(st.Dims, st.Spans), st.Task, st.Jobs)
		for _, take := range st.Takes {
			fmt.Fprintf(&b, " | %s", take.Ref)
			if take.Over {
				b.WriteString(" over")
			}
			if take.Spans != nil {
				b.WriteString(" " + take.Entity + spansText(take.Dims, take.Spans))
			}
		}
		for _, f := range st.Fields {
			if strings.HasPrefix(f.Name, "param ") || strings.HasPrefix(f.Name, "dep ") {
				fmt.Fprintf(&b, " | %s=%.6s", f.Name, f.Value)
			}
		}
		if st.Source != "" {
			fmt.Fprintf(&b, " | source %s", st.Source)
		}
		b.WriteString("\n")
		return st.Files(func(it engine.Item) error {
			fmt.Fprintf(&b, "  %s %s %.6s\n", it.Coord.Format(st.Dims), it.Value.File.Name, it.Value.File.SHA256)
			return nil
		})
	})
	return b.String(), err
}

func spansText(dims []string, spans []engine.Span) string {
	var parts []string
	for _, sp := range spans {
		if len(dims) == 0 {
			return ""
		}
		text := ""
		for _, i := range sp.Prefix.Indices() {
			text += fmt.Sprintf("%d,", i)
		}
		text += fmt.Sprint(sp.Lo)
		if sp.Hi > sp.Lo {
			text += fmt.Sprintf("-%d", sp.Hi)
		}
		parts = append(parts, text)
	}
	return "(" + strings.Join(parts, " ") + ")"
}

func (p *project) wantLineage(entity, at string, down bool, want string, dims ...string) {
	p.t.Helper()
	got, err := p.lineage(entity, at, down, dims...)
	if err != nil {
		p.t.Fatal(err)
	}
	if got != want {
		p.t.Errorf("%s at %q, down %v:\n%s\nwant\n%s", entity, at, down, got, want)
	}
}

func TestLineageUp(t *testing.T) {
	p := familyProject(t)
	p.wantLineage("Row", "i=2,j=1", false, `Row(2,1) rows x1 | Mark<k> Mark(2,0,1 2,1,1)
Mark(2,0,1 2,1,1) mark x2 | Word Word(2,1) | k over Tag(0-1) | param n="7"
Tag(0-1) tags x1
Word(2,1) words x1 | Line Line(2)
Line(2) lines x1 | source same
`, "i", "j")
	p.wantLineage("Column", "k=1", false, `Column(1) column x1 | Mark<i, j> Mark(0,1,0-1 1,1,0 2,1,0-2)
Mark(0,1,0-1 1,1,0 2,1,0-2) mark x6 | Word Word(0,0-1 1,0 2,0-2) | k over Tag(1) | param n="7"
Tag(1) tags x1
Word(0,0-1 1,0 2,0-2) words x3 | Line Line(0-2)
Line(0-2) lines x1 | source same
`, "k")
	p.wantLineage("Mark", "j=1", false, `Mark(0,0,1 0,1,1 2,0,1 2,1,1) mark x4 | Word Word(0,1 2,1) | k over Tag(0-1) | param n="7"
Tag(0-1) tags x1
Word(0,1 2,1) words x2 | Line Line(0 2)
Line(0 2) lines x1 | source same
`, "i", "j", "k")
	p.write("data.txt", "other\n")
	got, err := p.lineage("Big", "i=1", false, "i")
	want := `Big(1) first x1 | Line Line(1) | dep helper.txt=`
	if err != nil || !strings.HasPrefix(got, want) || !strings.Contains(got, "\n  i=1 big ") || !strings.Contains(got, "source changed") {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestLineageOfEverything(t *testing.T) {
	p := familyProject(t)
	got, err := p.lineage("All", "", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"All all x1 | Column<k> Column(0-1) | Big<i> Big(0-2)\n",
		"Column(0-1) column x2 | Mark<i, j> Mark(0,0,0-1 0,1,0-1 1,0,0 1,1,0 2,0,0-2 2,1,0-2)\n",
		"Line(0-2) lines x1 | source same\n",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("no %s in\n%s", line, got)
		}
	}
}

func TestLineageDown(t *testing.T) {
	p := familyProject(t)
	p.wantLineage("Word", "i=2,j=1", true, `Word(2,1) words x1
Mark(2,0,1 2,1,1) mark x2 | Word | param n="7"
Column(0-1) column x2 | Mark<i, j>
Row(2,1) rows x1 | Mark<k>
All all x1 | Column<k>
`, "i", "j")
	p.wantLineage("Tag", "k=1", true, `Tag(1) tags x1
Mark(0,1,0-1 1,1,0 2,1,0-2) mark x6 | k over | param n="7"
Column(1) column x1 | Mark<i, j>
Row(0,0-1 1,0 2,0-2) rows x6 | Mark<k>
All all x1 | Column<k>
`, "k")
}

// What is below a value is what the value is above of.
func TestLineageBothWays(t *testing.T) {
	p := familyProject(t)
	below, err := p.lineage("Line", "i=1", true, "i")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"0", "1", "2"} {
		above, err := p.lineage("Big", "i="+at, false, "i")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Contains(above, "Line(1)"), strings.Contains(below, "Big("+at+")"); got != want {
			t.Errorf("i=%s: above %v, below %v", at, got, want)
		}
	}
}

func TestLineageOfWhatIsNotThere(t *testing.T) {
	p := familyProject(t)
	var unknown *engine.UnknownError
	for _, q := range [][2]string{{"Wrod", ""}, {"Word", "i=9"}, {"Word", "i=0,j=2"}, {"Word", "k=0"}} {
		if _, err := p.lineage(q[0], q[1], false, "i", "j", "k"); !errors.As(err, &unknown) {
			t.Errorf("%v: %v", q, err)
		}
	}
}

func TestLineageOnAReadOnlyState(t *testing.T) {
	p := familyProject(t)
	dir := p.stateDir("family")
	before, _ := os.ReadDir(dir)
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700)
	if _, err := p.lineage("All", "", false); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.ReadDir(dir); len(after) != len(before) {
		t.Errorf("%d files became %d", len(before), len(after))
	}
}
