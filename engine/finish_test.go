package engine_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"operon/engine"
)

// An engine that is killed while the metadata has not heard of the run yet, with
// all of its results in the data, leaves what a check finds consistent.
func TestKilledBeforeTheMetadataHadTheRun(t *testing.T) {
	p := newProject(t, "pipeline: quick\ntasks:\n  one: {out: One, jq: '1'}\n")
	var once sync.Once
	var crash *project
	data := make(chan struct{}, 100)
	p.mustRun(engine.Options{Hook: func(point string) {
		if strings.HasPrefix(point, "after:data") {
			data <- struct{}{}
		}
		if strings.HasPrefix(point, "before:meta") {
			once.Do(func() {
				for waiting := true; waiting; {
					select {
					case <-data:
					case <-time.After(200 * time.Millisecond): // the data writer has no more
						waiting = false
					}
				}
				crash = p.copied(func(*project) {})
			})
		}
	}})
	if crash == nil {
		t.Fatal("the metadata was never written")
	}
	crash.deep("killed")
	if s := crash.mustRun(engine.Options{}); s.State != engine.StateComplete || s.Executed != 0 {
		t.Errorf("%+v", s)
	}
}
