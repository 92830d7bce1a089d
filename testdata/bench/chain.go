package main

import (
	"os/exec"
	"strconv"
	"strings"
)

// chain runs n tasks, each of which needs the one before, with operon and with make in turn. A link starts one
// process in both: make's shell has `true` built in, and leaves the file that the next link needs.
func chain(s *settings, r *report) error {
	n := s.size(1000)
	_, noMake := exec.LookPath("make")
	for range s.runs {
		dir, err := s.place("chain", "chain.yaml", chainPipeline(n))
		if err != nil {
			return err
		}
		if err := s.measureOperon(r, run{Bench: "chain", Tool: "operon", N: n}, dir, "chain.yaml", n, false, nil); err != nil {
			return err
		}
		if noMake != nil {
			continue
		}
		if dir, err = s.place("chain-make", "Makefile", chainMakefile(n)); err != nil {
			return err
		}
		c, wrong := measured(dir, false, "make", "-s", "-j"+strconv.Itoa(s.jobs))
		if err := r.add(run{Bench: "chain", Tool: "make", N: n, J: s.jobs}, c, wrong); err != nil {
			return err
		}
	}
	return nil
}

func chainPipeline(n int) string {
	var b strings.Builder
	line(&b, "pipeline: chain\ntasks:")
	for i := 1; i <= n; i++ {
		line(&b, "  link%d:", i)
		if i > 1 {
			line(&b, "    in: Link%d", i-1)
		}
		line(&b, "    out: Link%d", i)
		line(&b, "    exec: [\"true\", \"%d\"]", i) // no two links alike, so none is taken for another
	}
	return b.String()
}

func chainMakefile(n int) string {
	var b strings.Builder
	line(&b, "all: link%d", n)
	for i := 1; i <= n; i++ {
		if i == 1 {
			line(&b, "link1:")
		} else {
			line(&b, "link%d: link%d", i, i-1)
		}
		line(&b, "\t@true %d > $@", i)
	}
	return b.String()
}
