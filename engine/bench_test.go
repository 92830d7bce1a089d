package engine_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"operon/engine"
	"operon/spec/value"
	"operon/storage"
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
	n := jobsOfBenchmark()
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

// jobsOfBenchmark is how many jobs a benchmark's pipeline has, about.
func jobsOfBenchmark() int {
	n := 10_000
	if text := os.Getenv("OPERON_JOBS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	return n
}

// BenchmarkRebuild makes the metadata of OPERON_JOBS jobs (10,000 by default)
// again, and checks the same exhaustively, next to a plain read of every record
// and value.
func BenchmarkRebuild(b *testing.B) {
	n := jobsOfBenchmark()
	p := newProject(b, fmt.Sprintf(million, n))
	p.mustRun(engine.Options{Jobs: 2})
	for b.Loop() {
		p.removeMeta("million")
		runtime.GC() // of what the run left
		stop := peakHeap()
		start := time.Now()
		rep := p.mustRebuild(engine.RebuildOptions{})
		took := time.Since(start)
		peak := stop()
		if rep.Kept != int64(n)+2 || rep.Dropped != 0 {
			b.Fatalf("%+v", rep)
		}
		plain := p.readAll("million")
		stop = peakHeap()
		start = time.Now()
		p.mustCheck("rebuilt")
		check := time.Since(start)
		b.ReportMetric(took.Seconds(), "rebuild-s")
		b.ReportMetric(float64(peak)/1e6, "rebuild-heapMB")
		b.ReportMetric(check.Seconds(), "check-s")
		b.ReportMetric(float64(stop())/1e6, "check-heapMB")
		b.ReportMetric(plain.Seconds(), "plain-read-s")
		b.ReportMetric(check.Seconds()/plain.Seconds(), "check/plain")
	}
}

// readAll reads every record and every value once, and says how long that took.
func (p *project) readAll(name string) time.Duration {
	p.t.Helper()
	start := time.Now()
	s, err := storage.Open(p.stateDir(name), storage.Options{ReadOnly: true})
	if err != nil {
		p.t.Fatal(err)
	}
	defer s.Close()
	err = s.View(func(r *storage.Reader) error {
		headers, err := r.Headers()
		for _, h := range headers {
			err = errors.Join(err, r.Records(h.ID, "", func(rec storage.Record) error {
				return r.Values(h.ID, rec.Coord, 0, math.MaxUint32, func(uint32, value.Value) error { return nil })
			}))
		}
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return time.Since(start)
}
