package main

import (
	"fmt"
	"path/filepath"
	"strconv"
)

// fanoutPipeline has n jobs that do nothing, each with an input of its own (equal jobs would run once).
func fanoutPipeline(n int) string {
	return fmt.Sprintf(`pipeline: fanout
tasks:
  items:
    out: Item<i>
    source: { count: %d }
  work:
    in: Item
    for: i
    out: Done
    exec: ["true"]
`, n)
}

// fanout runs n times `true`, operon and the floor in turn: on a shared machine only neighbours in time compare.
func fanout(s *settings, r *report) error {
	n := s.size(10_000)
	floor := filepath.Join(s.dir, "floor")
	if err := build(floor, "operon/testdata/bench/floor"); err != nil {
		return err
	}
	for range s.runs {
		dir, err := s.place("fanout", "fanout.yaml", fanoutPipeline(n))
		if err != nil {
			return err
		}
		u := run{Bench: "fanout", Tool: "operon", N: n}
		if err := s.measureOperon(r, u, dir, "fanout.yaml", n+1, false, nil); err != nil {
			return err
		}
		c, wrong := measured(s.dir, false, floor, "-n", strconv.Itoa(n), "-j", strconv.Itoa(s.jobs), "true")
		if err := r.add(run{Bench: "fanout", Tool: "floor", N: n, J: s.jobs}, c, wrong); err != nil {
			return err
		}
	}
	return nil
}

// noop makes the fan-out once and then runs it again with nothing to do.
func noop(s *settings, r *report) error {
	n := s.size(10_000)
	dir, err := s.place("noop", "fanout.yaml", fanoutPipeline(n))
	if err != nil {
		return err
	}
	if err := s.measureOperon(r, run{Bench: "noop", Tool: "operon", N: n}, dir, "fanout.yaml", n+1, false, nil); err != nil {
		return err
	}
	for range s.runs {
		if err := s.measureOperon(r, run{Bench: "noop", Tool: again, N: n}, dir, "fanout.yaml", 0, false, nil); err != nil {
			return err
		}
	}
	return nil
}

// size is what -n says, else the workload's own.
func (s *settings) size(own int) int {
	if s.n > 0 {
		return s.n
	}
	return own
}
