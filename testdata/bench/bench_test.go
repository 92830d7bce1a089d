package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestPeakHeapIsTheLargestHeapOfAnyCollection(t *testing.T) {
	trace := `gc 1 @0.012s 2%: 0.026+0.39+0.10 ms clock, 0.21+0.88/0.52/0+0.80 ms cpu, 4->5->1 MB, 5 MB goal, 0 MB stacks, 0 MB globals, 8 P
{"message":"not 900->900->900 MB"}
gc 2 @1.312s 3%: 0.1+2.39+0.10 ms clock, 0.21+0.88/0.52/0+0.80 ms cpu, 81->77->30 MB, 90 MB goal, 0 MB stacks, 0 MB globals, 8 P (forced)
`
	if got := peakHeap([]byte(trace)); got != 81 {
		t.Errorf("peak %v MB, not 81", got)
	}
	if got := string(tail([]byte(trace), 1000)); got != "{\"message\":\"not 900->900->900 MB\"}\n" {
		t.Errorf("without the trace: %q", got)
	}
}

func TestTableComparesMediansAndLeavesWrongRunsOut(t *testing.T) {
	r := &report{out: &bytes.Buffer{}}
	for _, x := range []struct {
		tool  string
		wall  time.Duration
		wrong error
	}{
		{"operon", 3 * time.Second, nil},
		{"floor", 2 * time.Second, nil},
		{"operon", 5 * time.Second, nil},
		{"operon", time.Millisecond, errors.New("exit status 3")},
	} {
		if err := r.add(run{Bench: "fanout", Tool: x.tool, N: 100, J: 2}, cost{wall: x.wall, cpu: time.Second}, x.wrong); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	r.table(&out)
	want := "| fanout | 100 | operon | 2 | 4.000 | 27 | 10.000 | 0 | - | - | 2.00 |"
	if !strings.Contains(out.String(), want) {
		t.Errorf("no line\n%s\nin\n%s", want, out.String())
	}
	if r.wrong != 1 {
		t.Errorf("%d wrong runs, not 1", r.wrong)
	}
}
