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
