package engine_test

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"operon/engine"
)

// bare starts the same processes two at a time, with nothing else.
func bare(n int) time.Duration {
	start := time.Now()
	jobs := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range jobs {
				if err := exec.Command("true").Run(); err != nil {
					panic(err)
				}
			}
		})
	}
	for range n {
		jobs <- struct{}{}
	}
	close(jobs)
	wg.Wait()
	return time.Since(start)
}

// BenchmarkProcesses runs 2,000 processes two at a time, against a bare loop
// that starts the same.
func BenchmarkProcesses(b *testing.B) {
	const n = 6000
	for b.Loop() {
		p := newProject(b, fmt.Sprintf(`pipeline: p
tasks:
  numbers:
    out: Number<i>
    source: {count: %d}
  work:
    in: Number
    for: i
    out: Done
    exec: ["true"]
    stdin: none
`, n))
		start := time.Now()
		p.mustRun(engine.Options{Jobs: 2})
		took := time.Since(start)
		floor := bare(n)
		b.ReportMetric(took.Seconds()/float64(n)*1e6, "µs/job")
		b.ReportMetric(floor.Seconds()/float64(n)*1e6, "bare-µs/job")
		b.ReportMetric(took.Seconds()/floor.Seconds(), "ratio")
	}
}

// BenchmarkChain runs a chain of 1,000 processes, each needing the one before.
func BenchmarkChain(b *testing.B) {
	const n = 1000
	var y strings.Builder
	y.WriteString("pipeline: p\ntasks:\n")
	for i := range n {
		fmt.Fprintf(&y, "  t%d:\n    out: E%d\n    exec: [\"true\"]\n", i, i)
		if i > 0 {
			fmt.Fprintf(&y, "    in: E%d\n", i-1)
		}
	}
	for b.Loop() {
		p := newProject(b, y.String())
		start := time.Now()
		p.mustRun(engine.Options{Jobs: 2})
		b.ReportMetric(time.Since(start).Seconds()/n*1e6, "µs/job")
		start = time.Now()
		for range n {
			if err := exec.Command("true").Run(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(time.Since(start).Seconds()/n*1e6, "bare-µs/job")
	}
}
