package spec

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// noEnv is an environment without a variable.
func noEnv(string) (string, bool) { return "", false }

// Every broken file of testdata/bad says the same, place by place and word by
// word.
func TestGoldenErrors(t *testing.T) {
	files, err := filepath.Glob("../testdata/bad/*.yaml")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d broken files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Load(src, Options{File: filepath.Base(file), LookupEnv: noEnv})
			if err == nil {
				t.Fatal("nothing is wrong with it")
			}
			checkRanges(t, src, err.(Errors))
			compareGolden(t, strings.TrimSuffix(file, ".yaml")+".golden", err.Error())
		})
	}
}

func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// checkRanges checks that every error points into the document, that they are
// in its order, and that each is whole.
func checkRanges(t *testing.T, src []byte, errs Errors) {
	t.Helper()
	lines := strings.Split(strings.TrimPrefix(string(src), "\ufeff"), "\n")
	inside := func(line, column int) bool {
		return line >= 1 && line <= len(lines) && column >= 1 && column <= len([]rune(lines[line-1]))+1
	}
	last := Range{}
	for _, e := range errs {
		if e.Message == "" || e.Rule == "" || strings.Contains(e.Error(), "\n") {
			t.Errorf("%+v is not whole", e)
		}
		ranges := []Range{e.Range}
		for _, n := range e.Notes {
			ranges = append(ranges, n.Range)
		}
		for _, r := range ranges {
			if r == (Range{}) {
				continue
			}
			if !inside(r.Line, r.Column) || !inside(r.EndLine, r.EndColumn) || before(Range{Line: r.EndLine, Column: r.EndColumn}, r) {
				t.Errorf("%+v points outside the document", e)
			}
		}
		if before(e.Range, last) {
			t.Errorf("%+v is out of order", e)
		}
		last = e.Range
	}
}

func before(a, b Range) bool {
	return a.Line < b.Line || a.Line == b.Line && a.Column < b.Column
}
