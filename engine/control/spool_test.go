package control

import (
	"bytes"
	"os"
	"testing"
)

// Whatever is written comes out again, in memory or through a file, and no file
// stays.
func TestSpoolGivesBackWhatItTook(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	const most = spoolMemory
	for _, sizes := range [][]int{{}, {0}, {1, 2}, {most}, {most, 0, 1}, {most - 1, 2, 3}, {most + 1}, {1, most, most, 5}} {
		var s spool
		var want, got bytes.Buffer
		for i, size := range sizes {
			p := bytes.Repeat([]byte{byte('a' + i)}, size)
			want.Write(p)
			if n, err := s.Write(p); n != len(p) || err != nil {
				t.Fatalf("%v: wrote %d, %v", sizes, n, err)
			}
		}
		if err := s.send(&got); err != nil {
			t.Fatal(err)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want.Bytes(), got.Bytes()) {
			t.Errorf("%v: took %d bytes, gave %d", sizes, want.Len(), got.Len())
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
