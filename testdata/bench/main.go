// Command bench measures operon on synthetic workloads, beside what else could do the same jobs on the same machine.
//
//	go run ./testdata/bench [-n N] [-j JOBS] [-runs R] fanout|chain|million|noop|all
//
// One JSON line a run on stdout, a markdown table of medians on stderr at the end. See README.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// settings are what the command line says, and the folder that all of this invocation lies in.
type settings struct {
	n, jobs, runs int
	dir           string // fresh, below TMPDIR
	operon        string // the binary under test
}

// workloads in the order in which `all` runs them.
var workloads = []struct {
	name string
	run  func(*settings, *report) error
}{
	{"fanout", fanout},
	{"chain", chain},
	{"noop", noop},
	{"million", million},
}

func main() {
	s := &settings{}
	flag.IntVar(&s.n, "n", 0, "size of the workload (0: the workload's own)")
	flag.IntVar(&s.jobs, "j", 2, "jobs at once")
	flag.IntVar(&s.runs, "runs", 3, "runs of each (million: one of each size)")
	flag.Parse()
	if flag.NArg() != 1 || s.n < 0 || s.jobs < 1 || s.runs < 1 {
		fmt.Fprintln(os.Stderr, "usage: bench [-n N] [-j JOBS] [-runs R] fanout|chain|noop|million|all")
		os.Exit(2)
	}
	if err := bench(s, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench runs the named workload, or all, prints the table, and fails if a run was wrong: a fast wrong answer is no
// measurement.
func bench(s *settings, name string) (err error) {
	if s.dir, err = os.MkdirTemp("", "operon-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(s.dir)
	if s.operon = os.Getenv("OPERON_BIN"); s.operon == "" {
		s.operon = filepath.Join(s.dir, "operon")
		if err := build(s.operon, "operon/cmd/operon"); err != nil {
			return err
		}
	} else if s.operon, err = filepath.Abs(s.operon); err != nil {
		return err
	}
	r := &report{out: os.Stdout}
	known := false
	for _, w := range workloads {
		if name != w.name && name != "all" {
			continue
		}
		known = true
		if err := w.run(s, r); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	if !known {
		return fmt.Errorf("no workload %q", name)
	}
	r.table(os.Stderr)
	if r.wrong > 0 {
		return fmt.Errorf("%d of %d runs were wrong", r.wrong, len(r.runs))
	}
	return nil
}
