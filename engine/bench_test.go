package engine_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"operon/engine"
)

const million = `pipeline: million
tasks:
  numbers:
    out: Number<i>
    source: {count: %d}
  double:
    in: Number
    for: i
    out: Double
    jq: ". * 2"
  total:
    in: Double<i>
    out: Total
    jq: '{count: length, sum: add}'
`

// peakHeap samples the heap until stop is called, which returns the peak in
// bytes.
func peakHeap() (stop func() uint64) {
	var peak atomic.Uint64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if m.HeapAlloc > peak.Load() {
				peak.Store(m.HeapAlloc)
			}
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	return func() uint64 { close(done); <-ended; return peak.Load() }
}

// BenchmarkInProcess runs a pipeline of OPERON_JOBS in-process jobs (10,000 by
// default) and reports jobs a second, the peak of the heap, and how long a run
// takes that finds everything done.
func BenchmarkInProcess(b *testing.B) {
	n := 10_000
	if text := os.Getenv("OPERON_JOBS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	for b.Loop() {
		p := newProject(b, fmt.Sprintf(million, n))
		stop := peakHeap()
		start := time.Now()
		s := p.mustRun(engine.Options{Jobs: 2})
		took := time.Since(start)
		peak := stop()
		if s.Executed != int64(n)+2 {
			b.Fatalf("%+v", s)
		}
		want := fmt.Sprintf(`{"count":%d,"sum":%d}`, n, n*(n-1))
		if got := strings.TrimSpace(p.values("Total")); got != want {
			b.Fatalf("%s, want %s", got, want)
		}
		start = time.Now()
		if s := p.mustRun(engine.Options{Jobs: 2}); s.Executed != 0 {
			b.Fatalf("%+v", s)
		}
		b.ReportMetric(float64(n)/took.Seconds(), "jobs/s")
		b.ReportMetric(float64(peak)/1e6, "heapMB")
		b.ReportMetric(time.Since(start).Seconds(), "noop-s")
	}
}
