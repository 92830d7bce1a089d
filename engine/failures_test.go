package engine

import (
	"strings"
	"testing"
)

func TestCausesAreBounded(t *testing.T) {
	var f failures
	name := func(n int) string { // no digits: those are made alike
		return strings.Map(func(c rune) rune { return c - '0' + 'a' }, string(rune('0'+n/1000%10))+string(rune('0'+n/100%10))+string(rune('0'+n/10%10))+string(rune('0'+n%10)))
	}
	for n := range maxCauses + 50 {
		f.add(&Failed{Task: "t", Kind: "error", Message: name(n)})
	}
	f.add(&Failed{Task: "t", Kind: "error", Message: name(0)})
	f.add(&Failed{Task: "t", Kind: "exit", Message: "exit status 1"})
	f.add(&Failed{Task: "u", Kind: "error", Message: "x"})
	list := f.list()
	if len(list) != maxCauses+3 || f.jobs != maxCauses+53 {
		t.Fatalf("%d groups, %d jobs", len(list), f.jobs)
	}
	if g := list[0]; g.Cause != otherCauses || g.Jobs != 50 || g.Sample.Message != name(maxCauses) {
		t.Errorf("%+v", g)
	}
	if g := list[1]; g.Cause != name(0) || g.Jobs != 2 {
		t.Errorf("%+v", g)
	}
}

// Messages of one cause are one group, whatever tells the jobs apart; those of two
// causes are two.
func TestCausesAreToldApart(t *testing.T) {
	label := "invoice-17"
	same := [][]Failed{
		{{Message: "exit status 3", Stderr: []byte("can't open /data/in-1/page.tif: it isn't there\n")},
			{Message: "exit status 3", Stderr: []byte("can't open /mnt/other/x/y.tif: it isn't there")},
			{Message: "exit status 3", Stderr: []byte("\x1b[31mcan't open data/z.tif: it isn't there\x1b[0m\n")}},
		{{Message: "exit status 3", Stderr: []byte("can't open /data/in-1/page.tif: it is locked\n")}},
		{{Message: "exit status 1", Stderr: []byte("ValueError: bad value 'x' in n=1,p=2 (0x7f3a1c) at 3.5e-10")},
			{Message: "exit status 1", Stderr: []byte("ValueError: bad value 'it's' in n=317,p=14 (0xbeef) at -12")}},
		{{Message: "exit status 2", Stderr: []byte("ValueError: bad value 'x' in n=1,p=2 (0x7f3a1c) at 3.5e-10")}},
		{{Message: "exit status 1 (out of memory: `mem` gives it 64 MiB, and it had 59.8 MiB at most)"},
			{Message: "exit status 1 (out of memory: `mem` gives it 64 MiB, and it had 9 KiB at most)"}},
		{{Message: "exit status 1"}},
		{{Message: "the worker died: exit status 4", Stderr: []byte("x")}, {Message: "the worker died: exit status 4", Stderr: []byte("10 %\r20 %\rx\n\n")}},
		{{Message: "the worker died: exit status 5", Stderr: []byte("x")}},
		{{Message: "no total in invoice-17, pages 1, 2, 3", Labels: []string{"", label}}, {Message: "no total in a_b, pages 1", Labels: []string{"", "a_b"}}},
		{{Message: "no total in the invoice-17b, pages 1, 2, 3", Labels: []string{"", label}}},
		{{Message: "HTTP 503 from https://host/a/b?c=1"}, {Message: "HTTP 503 from https://host/z"}},
		{{Message: "HTTP 404 from https://host/a"}},
		{{Message: "job 5e1f9c0a-0b1c-4f6d-9d3e-0a1b2c3d4e5f at 2026-11-30T05:13:14.123Z: blob 9f86d081884c7d65 is gone"},
			{Message: "job 00000000-ffff-4f6d-9d3e-0a1b2c3d4e5f at 2025-01-01T15:00:00Z: blob 1234567 is gone"}},
	}
	of := map[string]int{}
	for n, messages := range same {
		for _, m := range messages {
			cause := normalise(&m)
			if before, known := of[cause]; known && before != n {
				t.Errorf("%q %q is the cause %q, as of group %d", m.Message, m.Stderr, cause, before)
			}
			of[cause] = n
		}
	}
	if len(of) != len(same) {
		t.Errorf("%d causes, want %d:", len(of), len(same))
		for cause, n := range of {
			t.Errorf("%d %s", n, cause)
		}
	}
}
