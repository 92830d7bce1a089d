// Command floor starts one program many times, a few at a time, and does nothing else: no graph, no state, no
// output read. It is the least that an engine written in Go can take for the same jobs.
//
//	floor -n 10000 -j 2 true
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
)

func main() {
	n := flag.Int64("n", 10000, "how many times to start the program")
	jobs := flag.Int("j", 2, "how many at once")
	flag.Parse()
	if flag.NArg() == 0 || *n < 0 || *jobs < 1 {
		fmt.Fprintln(os.Stderr, "usage: floor [-n N] [-j JOBS] PROGRAM [ARG...]")
		os.Exit(2)
	}
	if err := startAll(*n, *jobs, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

// startAll runs argv n times on the given number of goroutines and returns the first error.
func startAll(n int64, jobs int, argv []string) error {
	var next atomic.Int64
	var first error
	var once sync.Once
	var running sync.WaitGroup
	for range jobs {
		running.Go(func() {
			for next.Add(1) <= n {
				if err := exec.Command(argv[0], argv[1:]...).Run(); err != nil {
					once.Do(func() { first = fmt.Errorf("run %q: %w", argv, err) })
					next.Store(n)
				}
			}
		})
	}
	running.Wait()
	return first
}
