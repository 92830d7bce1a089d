package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// run is one measured run, and one line of JSON.
type run struct {
	Bench    string  `json:"bench"`
	Tool     string  `json:"tool"`
	N        int     `json:"n"`
	J        int     `json:"j"`
	WallS    float64 `json:"wall_s"`
	CPUS     float64 `json:"cpu_s"`
	JobsPerS float64 `json:"jobs_per_s"`         // n / wall; of a run that had nothing to do, 0
	RSSMB    float64 `json:"rss_mb"`             // peak of the largest process
	HeapMB   float64 `json:"heap_mb,omitempty"`  // peak heap, where it was traced
	StateMB  float64 `json:"state_mb,omitempty"` // what lies in the state directory afterwards
	OK       bool    `json:"ok"`
	Why      string  `json:"why,omitempty"`
}

// report prints each run as it comes and keeps it for the table.
type report struct {
	out   io.Writer
	runs  []run
	wrong int
}

// add completes a run from what was measured; wrong is nil where the result is right.
func (r *report) add(u run, c cost, wrong error) error {
	u.WallS, u.CPUS, u.RSSMB, u.HeapMB = round(c.wall.Seconds()), round(c.cpu.Seconds()), round(c.rssMB), c.heapMB
	if !idle(u) && c.wall > 0 {
		u.JobsPerS = round(float64(u.N) / c.wall.Seconds())
	}
	u.StateMB = round(u.StateMB)
	u.OK = wrong == nil
	if wrong != nil {
		u.Why = wrong.Error()
		r.wrong++
	}
	r.runs = append(r.runs, u)
	b, err := json.Marshal(u)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.out, "%s\n", b)
	return err
}

// again is the tool of a run after which nothing had changed.
const again = "operon again"

func idle(u run) bool { return u.Tool == again }

func round(x float64) float64 { return float64(int64(x*1000+0.5)) / 1000 }

// table prints the medians of each (bench, n, tool) over the runs that were right, and how its time relates to that of the first other tool that
// ran the same jobs: the floor, or make.
func (r *report) table(w io.Writer) {
	type key struct {
		bench string
		n     int
		tool  string
	}
	groups := map[key][]run{}
	var order []key
	for _, u := range r.runs {
		if !u.OK {
			continue // the time of a wrong run tells nothing
		}
		k := key{u.Bench, u.N, u.Tool}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], u)
	}
	wall := func(u run) float64 { return u.WallS }
	other := func(k key) float64 {
		for _, o := range order {
			if k.tool == "operon" && o.bench == k.bench && o.n == k.n && o.tool != "operon" && o.tool != again {
				return median(groups[o], wall)
			}
		}
		return 0
	}
	line(w, "| bench | n | tool | runs | wall s | jobs/s | cpu ms/job | rss MB | heap MB | state MB | ratio |")
	line(w, "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, k := range order {
		g := groups[k]
		ratio := "-"
		if base := other(k); base > 0 {
			ratio = fmt.Sprintf("%.2f", median(g, wall)/base)
		}
		line(w, "| %s | %d | %s | %d | %.3f | %s | %.3f | %.0f | %s | %s | %s |", k.bench, k.n, k.tool, len(g),
			median(g, wall), dash(median(g, func(u run) float64 { return u.JobsPerS })),
			median(g, func(u run) float64 { return u.CPUS })*1000/float64(max(1, k.n)),
			median(g, func(u run) float64 { return u.RSSMB }),
			dash(median(g, func(u run) float64 { return u.HeapMB })),
			dash(median(g, func(u run) float64 { return u.StateMB })), ratio)
	}
}

func dash(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", x)
}

func median(runs []run, of func(run) float64) float64 {
	x := make([]float64, len(runs))
	for i, u := range runs {
		x[i] = of(u)
	}
	slices.SortFunc(x, cmp.Compare)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
