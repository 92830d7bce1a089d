package draw_test

import (
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"operon/cmd/operon/internal/draw"
	"operon/spec"
)

var update = flag.Bool("update", false, "write the golden files anew")

const pipeline = `pipeline: letters
tasks:
  get_inputs:
    out: Input<input_no>
    run: printf '%s\n' a b
  end:
    in: Input
    for: input_no
    out: Word<word_no>
    run: tr ' ' '\n'
  count:
    for: [input_no, word_no]
    out: Number
    run: echo "$input_no$word_no"
  tally:
    in: {words: "Word<input_no, word_no>", numbers: "Number<input_no, word_no>"}
    out: Tally
    run: sort
`

func load(t *testing.T, text string) *draw.Graph {
	t.Helper()
	p, err := spec.Load([]byte(text), spec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return draw.Of(p)
}

func TestGolden(t *testing.T) {
	g := load(t, pipeline)
	for name, got := range map[string]string{"letters.txt": g.Text(), "letters.dot": g.DOT(), "letters.mmd": g.Mermaid(), "letters.svg": g.SVG()} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Any graph gives well-formed SVG with every task once, and is drawn the same
// way twice.
func TestAnyGraphIsDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &draw.Graph{Name: "g"}
		for n := range rapid.IntRange(1, 20).Draw(t, "nodes") {
			g.Nodes = append(g.Nodes, draw.Node{Name: fmt.Sprintf("task_%d", n), Out: fmt.Sprintf("E%d<d&\">", n)})
			for m := range n {
				if rapid.IntRange(0, 3).Draw(t, "edge") == 0 {
					g.Edges = append(g.Edges, draw.Edge{From: m, To: n, Label: rapid.SampledFrom([]string{"", "E<d>"}).Draw(t, "label")})
				}
			}
		}
		svg := g.SVG()
		if svg != g.SVG() {
			t.Fatal("drawn differently twice")
		}
		d := xml.NewDecoder(strings.NewReader(svg))
		names := map[string]int{}
		for {
			tok, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if text, ok := tok.(xml.CharData); ok {
				names[string(text)]++
			}
		}
		for _, n := range g.Nodes {
			if names[n.Name] != 1 {
				t.Errorf("%s is drawn %d times", n.Name, names[n.Name])
			}
		}
		if strings.Contains(svg, "NaN") {
			t.Error("a place is no number")
		}
	})
}
