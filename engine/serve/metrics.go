package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/VictoriaMetrics/metrics"

	"operon/engine"
)

// jobCounts are what became of a task's jobs, by outcome.
type jobCounts map[string]int64

// outcomes are the ends that jobs have.
const (
	outcomeExecuted = "executed"
	outcomeReused   = "reused"
	outcomeFailed   = "failed"
	outcomeHole     = "hole"
)

// count adds what a run did that has ended. Host.mu is held.
func (l *pipeline) count(s *engine.Summary) {
	if s == nil {
		return
	}
	for task, t := range s.Totals {
		c := l.done[task]
		if c == nil {
			c = jobCounts{}
			l.done[task] = c
		}
		c[outcomeExecuted] += t.Executed
		c[outcomeReused] += t.Reused
		c[outcomeFailed] += t.Failed
		c[outcomeHole] += t.Holes
	}
}

// families are the metrics of a host: name, type, help. Their order is that of
// what is written.
var families = []struct{ name, kind, help string }{
	{"operon_sessions", "gauge", "Clients that are connected with a submission."},
	{"operon_pipelines_running", "gauge", "Pipelines that an engine runs."},
	{"operon_events_lost_total", "counter", "Events that found no room because a client read too slowly."},
	{"operon_jobs_total", "counter", "Jobs that came to an end, of all runs since the server began."},
	{"operon_jobs_queued", "gauge", "Jobs that could start and wait for a free slot."},
	{"operon_jobs_running", "gauge", "Jobs that run."},
	{"operon_reconcile_reused_total", "counter", "Dataflows that a submission kept."},
	{"operon_reconcile_replaced_total", "counter", "Dataflows that a submission replaced, by the rule that failed."},
	{"operon_reconcile_created_total", "counter", "Dataflows that a submission created."},
	{"operon_reconcile_dropped_total", "counter", "Dataflows that a submission dropped."},
	{"operon_dataflows_frozen", "gauge", "Dataflows that wait to be dropped."},
	{"operon_dataflows_oldest_frozen_seconds", "gauge", "How long the oldest frozen dataflow has waited."},
	{"operon_worker_lag", "gauge", "Dataflow ids that a worker has yet to pass."},
	{"operon_commit_seconds", "summary", "From handing a batch to the stores until it was durable."},
	{"operon_history_commands", "gauge", "Commands in the reduced history."},
	{"operon_commands_stashed_total", "counter", "Commands for dataflows that were not installed yet."},
	{"operon_commands_discarded_total", "counter", "Commands for dataflows that were gone."},
	{"process_cpu_seconds_total", "counter", "Processor time of the server itself."},
	{"process_open_fds", "gauge", "Open file descriptors."},
	{"process_max_fds", "gauge", "Most open file descriptors."},
	{"process_resident_memory_bytes", "gauge", "Resident memory of the server itself."},
	{"process_virtual_memory_bytes", "gauge", "Virtual memory of the server itself."},
	{"process_start_time_seconds", "gauge", "When the server began, in seconds since 1970."},
	{"process_num_threads", "gauge", "Threads of the server."},
	{"go_goroutines", "gauge", "Goroutines of the server."},
	{"go_memstats_heap_alloc_bytes", "gauge", "Heap that is in use."},
}

// WriteMetrics writes what the host and its engines count, in the text format
// that Prometheus reads. An engine that does not answer is left out.
func (h *Host) WriteMetrics(ctx context.Context, w io.Writer) error {
	g := &gathered{set: metrics.NewSet()}
	h.gather(ctx, g)
	var text bytes.Buffer
	g.set.WritePrometheus(&text)
	metrics.WriteProcessMetrics(&text)
	metrics.WriteFDMetrics(&text)
	return writeFamilies(w, text.String())
}

func (h *Host) gather(ctx context.Context, g *gathered) {
	h.mu.Lock()
	runs := h.running()
	g.gauge("operon_sessions", float64(h.sessions))
	g.gauge("operon_pipelines_running", float64(len(runs)))
	g.count("operon_events_lost_total", h.lost)
	for name, l := range h.lines {
		for task, counts := range l.done {
			g.jobs(name, task, counts)
		}
	}
	h.mu.Unlock()
	for _, r := range runs {
		if m, err := r.e.Metrics(ctx); err == nil {
			g.engine(r.line.name, m)
		}
	}
}

// gathered is what is to be written.
type gathered struct{ set *metrics.Set }

func (g *gathered) gauge(name string, v float64, labels ...string) {
	g.set.GetOrCreateFloatCounter(labelled(name, labels)).Set(v)
}

func (g *gathered) count(name string, n int64, labels ...string) {
	g.set.GetOrCreateCounter(labelled(name, labels)).AddInt64(n)
}

func (g *gathered) jobs(pipeline, task string, counts jobCounts) {
	for outcome, n := range counts {
		g.count("operon_jobs_total", n, "pipeline", pipeline, "task", task, "outcome", outcome)
	}
}

func (g *gathered) engine(name string, m *engine.Metrics) {
	of := []string{"pipeline", name}
	g.count("operon_reconcile_reused_total", m.Kept, of...)
	g.count("operon_reconcile_created_total", m.Created, of...)
	g.count("operon_reconcile_dropped_total", m.Dropped, of...)
	for reason, n := range m.Replaced {
		g.count("operon_reconcile_replaced_total", n, "pipeline", name, "reason", reason)
	}
	g.gauge("operon_dataflows_frozen", float64(m.Frozen), of...)
	g.gauge("operon_dataflows_oldest_frozen_seconds", m.OldestFrozen.Seconds(), of...)
	for worker, lag := range m.Lag {
		g.gauge("operon_worker_lag", float64(lag), "pipeline", name, "worker", fmt.Sprint(worker))
	}
	for task, n := range m.Ready {
		g.gauge("operon_jobs_queued", float64(n), "pipeline", name, "task", task)
	}
	for task, n := range m.Running {
		g.gauge("operon_jobs_running", float64(n), "pipeline", name, "task", task)
	}
	for outcome, tasks := range map[string]map[string]int64{outcomeExecuted: m.Executed, outcomeReused: m.Reused, outcomeFailed: m.Failed, outcomeHole: m.Holes} {
		for task, n := range tasks {
			g.jobs(name, task, jobCounts{outcome: n})
		}
	}
	g.gauge("operon_commit_seconds_sum", m.CommitTime.Seconds(), of...)
	g.count("operon_commit_seconds_count", m.Commits, of...)
	g.gauge("operon_history_commands", float64(m.History), of...)
	g.count("operon_commands_stashed_total", m.Stashed, of...)
	g.count("operon_commands_discarded_total", m.Discarded, of...)
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// labelled is a metric's name with labels, names and values in turn.
func labelled(name string, labels []string) string {
	var pairs []string
	for pair := range slices.Chunk(labels, 2) {
		pairs = append(pairs, pair[0]+`="`+escape.Replace(pair[1])+`"`)
	}
	if len(pairs) == 0 {
		return name
	}
	return name + "{" + strings.Join(pairs, ",") + "}"
}

// writeFamilies writes the samples that belong to families, each family behind
// its help and type. All others are left out.
func writeFamilies(w io.Writer, text string) error {
	samples := map[string][]string{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name := line[:strings.IndexAny(line+" ", "{ ")]
		samples[name] = append(samples[name], line)
	}
	var out bytes.Buffer
	for _, f := range families {
		lines := samples[f.name]
		if f.kind == "summary" {
			lines = slices.Concat(samples[f.name+"_sum"], samples[f.name+"_count"])
		}
		if len(lines) == 0 {
			continue
		}
		fmt.Fprintf(&out, "# HELP %s %s\n# TYPE %s %s\n%s", f.name, f.help, f.name, f.kind, strings.Join(lines, ""))
	}
	_, err := w.Write(out.Bytes())
	return err
}
