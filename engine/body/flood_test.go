package body

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"operon/spec"
)

// Jobs that flood both of their outputs at once do not take this program's
// memory: fifty of 100 MB each with OPERON_LONG, smaller ones without.
func TestFlood(t *testing.T) {
	jobs, size := 12, 4<<20
	if os.Getenv("OPERON_LONG") != "" {
		jobs, size = 50, 100<<20
	}
	const bound = 200 << 20
	for _, format := range []spec.Format{spec.FormatFile, spec.FormatLines} {
		t.Run(string(format), func(t *testing.T) {
			size := size
			if format == spec.FormatLines {
				size = min(size, 8<<20) // a value that is a text is held in memory
			}
			script := fmt.Sprintf(`head -c %d /dev/zero >&2 & head -c %d /dev/zero | tr '\0' x; wait`, size, size)
			task := &spec.TaskSpec{Body: spec.Body{Kind: spec.BodyRun, Script: script}, Format: format}
			if format == spec.FormatLines {
				spawns(task, format)
			}
			complete(task)
			dir := t.TempDir()
			cfg := &Config{Pipeline: &spec.Pipeline{}, Dir: dir, Environ: []string{"PATH=" + os.Getenv("PATH")}, LogLimit: 1 << 20}
			r, err := New(cfg, task)
			if err != nil {
				t.Fatal(err)
			}
			peak := peakMemory()
			var all sync.WaitGroup
			for i := range jobs {
				all.Go(func() { floodOne(t, r, dir, i, int64(size)) })
			}
			all.Wait()
			if most := peak(); most > bound {
				t.Errorf("%d jobs of %d bytes took %d MiB", jobs, size, most>>20)
			}
		})
	}
}

func floodOne(t *testing.T, r Runner, dir string, i int, size int64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.Gettid() == unix.Getpid() { // a slot keeps off the main thread
		done := make(chan struct{})
		go func() { defer close(done); floodOne(t, r, dir, i, size) }()
		<-done
		return
	}
	slot, err := NewSlot(SlotOptions{Index: i, Dir: filepath.Join(dir, "slots")})
	if err != nil {
		t.Error(err)
		return
	}
	defer slot.Close()
	res, err := r.Run(t.Context(), slot, &Job{
		Attempt: 1, Token: fmt.Sprintf("flood-%s-%d", filepath.Base(filepath.Dir(dir)), i), RunID: "run",
		Dir: filepath.Join(dir, "jobs", fmt.Sprint(i)), Log: filepath.Join(dir, "logs", fmt.Sprint(i)),
	})
	if err != nil {
		t.Error(err)
		return
	}
	if v := res.Items[0]; v.File != nil && v.File.Size != size || v.File == nil && int64(len(v.JSON)) != size+2 {
		t.Errorf("job %d returned something else", i)
	}
	if res.Logged < 1<<20 || res.Logged > 2<<20 {
		t.Errorf("the log has %d bytes", res.Logged)
	}
	if err := res.Close(); err != nil {
		t.Error(err)
	}
}

// peakMemory samples how much memory the program has of the system until it is
// asked for the most.
func peakMemory() (most func() uint64) {
	debug.FreeOSMemory()
	var peak atomic.Uint64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
			metrics.Read(sample)
			peak.Store(max(peak.Load(), sample[0].Value.Uint64()-sample[1].Value.Uint64()))
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	return func() uint64 { close(done); <-ended; return peak.Load() }
}
