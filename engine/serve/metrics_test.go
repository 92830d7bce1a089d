package serve_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"operon/engine"
	"operon/engine/serve"
)

func TestMetrics(t *testing.T) {
	h, fs := host(t, nil)
	s, _ := submit(t, h, submission(t, two))
	f := fs.list()[0]
	f.Quit(t.Context(), false)
	for s.Take().End == nil {
		<-s.Ready()
	}
	s.Close()
	submit(t, h, submission(t, two))
	*fs.list()[1].metrics = engine.Metrics{
		Reconciles: engine.Reconciles{Kept: 5, Created: 6, Dropped: 7, Replaced: map[string]int64{`a "b"`: 8}}, Frozen: 9, OldestFrozen: 1500 * time.Millisecond,
		Lag: []uint64{0, 10}, Ready: map[string]int64{"then": 11}, Running: map[string]int64{"then": 12},
		Executed: map[string]int64{"then": 13}, Reused: map[string]int64{"then": 14}, Failed: map[string]int64{"then": 15}, Holes: map[string]int64{"then": 16},
		Commits: 17, CommitTime: 18 * time.Second, History: 19, Stashed: 20, Discarded: 21,
	}
	var out bytes.Buffer
	if err := h.WriteMetrics(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, line := range []string{
		`operon_sessions 1`,
		`operon_pipelines_running 1`,
		`operon_events_lost_total 0`,
		`operon_jobs_total{pipeline="p",task="first",outcome="executed"} 2`,
		`operon_jobs_total{pipeline="p",task="then",outcome="executed"} 15`, // 2 of the run that ended
		`operon_jobs_total{pipeline="p",task="then",outcome="reused"} 17`,
		`operon_jobs_total{pipeline="p",task="then",outcome="failed"} 15`,
		`operon_jobs_total{pipeline="p",task="then",outcome="hole"} 16`,
		`operon_jobs_queued{pipeline="p",task="then"} 11`,
		`operon_jobs_running{pipeline="p",task="then"} 12`,
		`operon_reconcile_reused_total{pipeline="p"} 5`,
		`operon_reconcile_replaced_total{pipeline="p",reason="a \"b\""} 8`,
		`operon_reconcile_created_total{pipeline="p"} 6`,
		`operon_reconcile_dropped_total{pipeline="p"} 7`,
		`operon_dataflows_frozen{pipeline="p"} 9`,
		`operon_dataflows_oldest_frozen_seconds{pipeline="p"} 1.5`,
		`operon_worker_lag{pipeline="p",worker="1"} 10`,
		`operon_commit_seconds_sum{pipeline="p"} 18`,
		`operon_commit_seconds_count{pipeline="p"} 17`,
		`operon_history_commands{pipeline="p"} 19`,
		`operon_commands_stashed_total{pipeline="p"} 20`,
		`operon_commands_discarded_total{pipeline="p"} 21`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	types := map[string]string{}
	sample := regexp.MustCompile(`^[a-z_]+(\{([a-z]+="([^"\\]|\\.)*",?)+\})? -?[0-9.e+]+$`)
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			if types[name] != "" {
				t.Errorf("%s comes twice", name)
			}
			types[name] = kind
		} else if !strings.HasPrefix(line, "# HELP ") && !sample.MatchString(line) {
			t.Errorf("no sample: %s", line)
		}
	}
	for name, kind := range serve.MetricNames() {
		if strings.HasPrefix(name, "operon_") && types[name] != kind {
			t.Errorf("%s is %q, want %q", name, types[name], kind)
		}
	}
	if types["process_start_time_seconds"] != "gauge" {
		t.Error("no process metrics")
	}
}
