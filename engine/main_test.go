package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"operon/engine"
)

// TestMain runs the tests, or, as a child of one, an engine that is to be
// killed.
func TestMain(m *testing.M) {
	if do := os.Getenv("OPERON_TEST_DO"); do != "" {
		os.Exit(childDo(do))
	}
	if file := os.Getenv("OPERON_TEST_PIPELINE"); file != "" {
		os.Exit(child(file))
	}
	goleak.VerifyTestMain(m)
}

// child runs a pipeline, and kills itself at a commit point if it is told to.
// It prints how many points it passed, and the summary.
func child(file string) int {
	at, _ := strconv.ParseInt(os.Getenv("OPERON_TEST_KILL_AT"), 10, 64)
	var points atomic.Int64
	pl, err := engine.LoadFile(file, engine.LoadOptions{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	e, err := engine.New(pl, engine.Options{
		Dir: os.Getenv("OPERON_TEST_DIR"), Jobs: 3, KeepGoing: true,
		Redo: strings.Fields(os.Getenv("OPERON_TEST_REDO")), Rebuild: os.Getenv("OPERON_TEST_REBUILD") != "",
		Hook: func(string) {
			if points.Add(1) == at {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // until it has arrived
			}
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	s, err := e.Run(context.Background())
	if closed := e.Close(); err == nil {
		err = closed
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{"points": points.Load(), "summary": s})
	return 0
}
