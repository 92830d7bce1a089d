package value

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"testing"
)

// Whatever its size, what Identities digests is what a SHA-256 does.
func TestIdentities(t *testing.T) {
	var s Identities
	for _, sizes := range [][]int{{}, {0}, {1, 2, 3}, {smallIdentities}, {smallIdentities - 9}, {smallIdentities - 8, 1}, {5, 100_000, 7}, {100_000}, {1000, 1000, 1000, 1000, 1000, 1000}} {
		t.Run(fmt.Sprint(sizes), func(t *testing.T) {
			s.Reset()
			h := sha256.New()
			for i, n := range sizes {
				text := bytes.Repeat([]byte{'0' + byte(i)}, n)
				for _, v := range []Value{FromJSON(text), FromFile(FileInfo{Name: "n", Exec: i%2 == 0}), NewHole("why")} {
					v.WriteIdentity(h)
					s.Value(v)
				}
				FromJSON(text).WriteIdentity(h)
				s.Text(int64(n))
				_, _ = s.Write(text)
			}
			if got := s.Sum(); got != Digest(h.Sum(nil)) {
				t.Errorf("%s", got)
			}
		})
	}
	s.Reset()
	s.Value(FromText("x"))
	if s.Sum() != FromText("x").Digest() {
		t.Error("of one value")
	}
}
