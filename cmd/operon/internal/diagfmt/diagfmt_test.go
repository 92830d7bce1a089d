package diagfmt_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"operon/cmd/operon/internal/diagfmt"
	"operon/cmd/operon/internal/term"
	"operon/spec"
)

var update = flag.Bool("update", false, "write the golden files anew")

const source = "pipeline: splitter\n" + // 1
	"tasks:\r\n" + // 2
	"  get_words:\n" + // 3
	"\tpol: 3\n" + // 4
	"    in: Wörter<日本語>   # " + "x\n" + // 5
	"    run: |\n" + // 6
	"      echo one\n" + // 7
	"    long: " + "" // 8, filled up below

var cases = []struct {
	name string
	sev  diagfmt.Severity
	errs spec.Errors
}{
	{"key", diagfmt.SeverityError, spec.Errors{{
		File: "p.yaml", Range: spec.Range{Line: 4, Column: 2, EndLine: 4, EndColumn: 5},
		Rule: "unknown-key", Message: "unknown key of a task", Found: "pol", Mend: "write pool",
		Notes: []spec.Note{{Range: spec.Range{Line: 3, Column: 3, EndLine: 3, EndColumn: 12}, Message: "of this task"}, {Message: "no place"}},
	}}},
	{"wide", diagfmt.SeverityWarning, spec.Errors{{
		File: "p.yaml", Range: spec.Range{Line: 5, Column: 16, EndLine: 5, EndColumn: 19}, Rule: "odd", Message: "wide",
	}}},
	{"lines", diagfmt.SeverityError, spec.Errors{
		{File: "p.yaml", Range: spec.Range{Line: 6, Column: 5, EndLine: 7, EndColumn: 15}, Message: "goes on below"},
		{File: "p.yaml", Range: spec.Range{Line: 2, Column: 7, EndLine: 2, EndColumn: 7}, Message: "at the end of a line"},
		{File: "p.yaml", Range: spec.Range{Line: 2, Column: 99, EndLine: 2, EndColumn: 120}, Message: "past the end"},
		{File: "p.yaml", Range: spec.Range{Line: 99, Column: 1, EndLine: 99, EndColumn: 2}, Message: "past the file", Found: "x"},
	}},
	{"cut", diagfmt.SeverityError, spec.Errors{
		{File: "p.yaml", Range: spec.Range{Line: 8, Column: 211, EndLine: 8, EndColumn: 214}, Message: "far to the right"},
		{File: "p.yaml", Range: spec.Range{Line: 8, Column: 11, EndLine: 8, EndColumn: 311}, Message: "longer than a line"},
	}},
	{"noplace", diagfmt.SeverityError, spec.Errors{
		{Message: "no file at all", Mend: "do one thing\ndo another"},
		{File: "other.yaml", Range: spec.Range{Line: 1, Column: 1, EndLine: 1, EndColumn: 2}, Message: "a file that can't be had", Found: "\x1b[31m"},
	}},
}

func sources(file string) []byte {
	if file != "p.yaml" {
		return nil
	}
	return []byte("\ufeff" + source + strings.Repeat("0123456789", 30))
}

func TestText(t *testing.T) {
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			var plain, colour bytes.Buffer
			(&diagfmt.Printer{Out: &plain, Source: sources}).Print(tt.sev, tt.errs)
			(&diagfmt.Printer{Out: &colour, Source: sources, Facts: term.Facts{Color: true}}).Print(tt.sev, tt.errs)
			golden(t, tt.name+".golden", plain.Bytes())
			golden(t, tt.name+".color.golden", colour.Bytes())
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := diagfmt.WriteJSON(&b, diagfmt.Findings(cases[0].sev, cases[0].errs)); err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{{
		"severity": "error", "file": "p.yaml", "line": 4., "column": 2., "end_line": 4., "end_column": 5.,
		"rule": "unknown-key", "message": "unknown key of a task", "found": "pol", "mend": "write pool",
		"notes": []any{
			map[string]any{"line": 3., "column": 3., "end_line": 3., "end_column": 12., "message": "of this task"},
			map[string]any{"line": 0., "column": 0., "end_line": 0., "end_column": 0., "message": "no place"},
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	b.Reset()
	if err := diagfmt.WriteJSON(&b, nil); err != nil || b.String() != "[]\n" {
		t.Errorf("nothing wrong: %q, %v", b.String(), err)
	}
}

// Whatever the file and the range, no control character reaches the terminal,
// and no line is longer than a line may be.
func TestAnyTextIsShownSafely(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := rapid.String().Draw(t, "source")
		num := rapid.IntRange(-1, 300)
		e := &spec.Error{
			File:    "p.yaml",
			Range:   spec.Range{Line: num.Draw(t, "line"), Column: num.Draw(t, "column"), EndLine: num.Draw(t, "end line"), EndColumn: num.Draw(t, "end column")},
			Message: rapid.String().Draw(t, "message"),
			Found:   rapid.String().Draw(t, "found"),
		}
		var b bytes.Buffer
		p := diagfmt.Printer{Out: &b, Source: func(string) []byte { return []byte(src) }}
		if err := p.Print(diagfmt.SeverityError, spec.Errors{e}); err != nil {
			t.Fatal(err)
		}
		for _, r := range b.String() {
			if r != '\n' && unicode.IsControl(r) {
				t.Fatalf("control character %q in %q", r, b.String())
			}
		}
	})
}
