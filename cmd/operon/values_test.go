package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"operon/cmd/operon/internal/term"
	"operon/engine"
	"operon/spec/coord"
	"operon/spec/value"
)

func items() []engine.Item {
	sum := value.Digest(sha256.Sum256([]byte("bytes")))
	return []engine.Item{
		{Coord: coord.Of(0, 0), Value: value.FromText("a\nb")},
		{Coord: coord.Of(0, 1), Value: value.FromJSON([]byte(`{"n":1.0}`))},
		{Coord: coord.Of(1, 0), Value: value.NewHole("no \"luck\"")},
		{Coord: coord.Of(1, 1), Value: value.FromFile(value.FileInfo{Name: "f.txt", Size: 5, SHA256: sum, Path: "in/f.txt", Ref: true})},
	}
}

func TestTextWriter(t *testing.T) {
	tests := []struct {
		name  string
		alone bool
		facts term.Facts
		want  string
	}{
		{"a pipe", false, term.Facts{}, "a\nb\n" + `{"n":1.0}` + "\nf.txt\t5\t277089d91c0bdf4f2e6862ba7e4a07605119431f5d13f726dd352b06f1b206a9\n"},
		{"a terminal", false, term.Facts{Terminal: true}, "i=0,j=0 a\nb\ni=0,j=1 " + `{"n":1.0}` + "\ni=1,j=1 f.txt\t5\t277089d91c0bdf4f2e6862ba7e4a07605119431f5d13f726dd352b06f1b206a9\n"},
		{"alone on a terminal", true, term.Facts{Terminal: true}, "a\nb\n" + `{"n":1.0}` + "\nbytes"},
	}
	base := t.TempDir()
	write(t, filepath.Join(base, "in/f.txt"), "bytes")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			w := &textWriter{out: bufio.NewWriter(&b), entity: "Ent", dims: []string{"i", "j"}, base: base, alone: tt.alone, facts: tt.facts}
			for _, it := range items() {
				if err := w.write(it); err != nil {
					t.Fatal(err)
				}
			}
			w.out.Flush()
			if diff := cmp.Diff(tt.want, b.String()); diff != "" {
				t.Error(diff)
			}
			if w.holes() != 1 {
				t.Errorf("%d holes left out", w.holes())
			}
		})
	}
}

func TestJSONWriter(t *testing.T) {
	var b bytes.Buffer
	w := &jsonWriter{out: bufio.NewWriter(&b), entity: "Ent", dims: []string{"i", "j"}}
	for _, it := range items() {
		if err := w.write(it); err != nil {
			t.Fatal(err)
		}
	}
	w.out.Flush()
	want := `{"entity":"Ent","coord":{"i":0,"j":0},"value":"a\nb"}
{"entity":"Ent","coord":{"i":0,"j":1},"value":{"n":1.0}}
{"entity":"Ent","coord":{"i":1,"j":0},"value":null,"hole":"no \"luck\""}
{"entity":"Ent","coord":{"i":1,"j":1},"value":{"file":"f.txt","size":5,"sha256":"277089d91c0bdf4f2e6862ba7e4a07605119431f5d13f726dd352b06f1b206a9"}}
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestFolderWriter(t *testing.T) {
	base, dir := t.TempDir(), t.TempDir()
	write(t, filepath.Join(base, "in/f.txt"), "bytes")
	w := &folderWriter{dir: dir, entity: "HttpLog", dims: []string{"i", "j"}, base: base}
	for range 2 { // the second time over what is there
		for _, it := range items() {
			if err := w.write(it); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, want := range map[string]string{"i=0/j=0/http_log.txt": "a\nb\n", "i=0/j=1/http_log.json": `{"n":1.0}` + "\n", "i=1/j=1/f.txt": "bytes"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "i=1/j=0")); err == nil {
		t.Error("a hole has a folder")
	}
	for _, name := range []string{"../f", "a/b", "..", "", "/f"} {
		it := engine.Item{Coord: coord.Of(0, 0), Value: value.FromFile(value.FileInfo{Name: name, Path: "in/f.txt"})}
		if err := w.write(it); ExitCode(err) != 3 {
			t.Errorf("a file named %q: %v", name, err)
		}
	}
}
