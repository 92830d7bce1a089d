package engine_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"operon/engine"
	"operon/storage"
)

// An engine that is killed while the metadata has not heard of the run yet, with
// all of its results in the data, leaves what a check finds consistent.
func TestKilledBeforeTheMetadataHadTheRun(t *testing.T) {
	p := newProject(t, "pipeline: quick\ntasks:\n  one: {out: One, jq: '1'}\n")
	var once sync.Once
	var crash *project
	data := make(chan struct{}, 1000)
	p.mustRun(engine.Options{Hook: func(point string) {
		if strings.HasPrefix(point, "after:data") {
			data <- struct{}{}
		}
		if strings.HasPrefix(point, "before:meta") {
			once.Do(func() { crash = withResult(p, data) })
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

// withResult is a copy of the project once the data has its result, and the data
// writer seems to have no more; nil if the result never comes.
func withResult(p *project, data chan struct{}) *project {
	for {
		select {
		case <-data:
		case <-time.After(time.Minute):
			return nil
		}
		for waiting := true; waiting; {
			select {
			case <-data:
			case <-time.After(200 * time.Millisecond):
				waiting = false
			}
		}
		if crash := p.copied(func(*project) {}); len(crash.recorded("quick")) > 0 {
			return crash
		}
	}
}

// recorded are the tasks of all jobs whose record is in the data.
func (p *project) recorded(name string) (tasks []string) {
	p.t.Helper()
	d, _, done := p.copied(func(*project) {}).open(name)
	defer done()
	err := d.View(func(r *storage.Reader) error {
		headers, err := r.Headers()
		for _, h := range headers {
			if err == nil {
				err = r.Records(h.ID, "", func(storage.Record) error { tasks = append(tasks, h.Task); return nil })
			}
		}
		return err
	})
	if err != nil {
		p.t.Error(err)
	}
	return tasks
}
