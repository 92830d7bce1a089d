package body

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"operon/spec/value"
)

// A file that was not written to is not read again, by a later program either;
// one whose time stamps are too young to tell the next write is.
func TestDigestsAreKept(t *testing.T) {
	dir := t.TempDir()
	data, known := filepath.Join(dir, "data"), filepath.Join(dir, "known")
	write := func(text string) {
		if err := os.WriteFile(data, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	look := func(cfg *Config) string {
		t.Helper()
		info, err := cfg.files.describe(data)
		if err != nil {
			t.Fatal(err)
		}
		return info.SHA256.String()
	}
	first := &Config{}
	one := look(first)
	if len(first.files.sums) != 0 {
		t.Error("a time stamp younger than the look is trusted")
	}
	// As if it had been looked at later.
	st, err := os.Stat(data)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := identify(st)
	sum, err := value.ParseDigest(one)
	if err != nil {
		t.Fatal(err)
	}
	first.files.keep(id, sum)
	if err := first.SaveDigests(known); err != nil {
		t.Fatal(err)
	}
	second := &Config{}
	if err := second.LoadDigests(known); err != nil {
		t.Fatal(err)
	}
	if _, ok := second.files.find(id); !ok {
		t.Error("the digest was not kept")
	}
	// Same size, time of modification set back: the time of change tells.
	write("two")
	if err := os.Chtimes(data, time.Unix(0, 0), st.ModTime()); err != nil {
		t.Fatal(err)
	}
	if look(second) == one {
		t.Error("a changed file was taken for the old one")
	}
	text, err := os.ReadFile(known)
	if err != nil {
		t.Fatal(err)
	}
	for n := range text {
		bad := append([]byte(nil), text...)
		bad[n] ^= 1
		if _, ok := unsealDigests(bad); ok {
			t.Fatalf("byte %d flipped, and trusted", n)
		}
	}
	if err := os.WriteFile(known, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	torn := &Config{}
	if err := torn.LoadDigests(known); err != nil || len(torn.files.sums) != 0 {
		t.Errorf("half a file: %v, %d digests", err, len(torn.files.sums))
	}
}

func FuzzDigests(f *testing.F) {
	f.Add([]byte(digestsMagic))
	f.Fuzz(func(t *testing.T, text []byte) {
		records, ok := unsealDigests(text)
		if ok && len(records)%digestSize != 0 {
			t.Fatal("half a record")
		}
	})
}
