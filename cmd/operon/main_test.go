package main

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain makes the program a command of the scripts: the test binary runs as
// operon where it is called by that name.
func TestMain(m *testing.M) {
	testscript.Main(checked{m}, map[string]func(){
		"operon": func() {
			a := newApp()
			a.hook = killAt(os.Getenv("OPERON_TEST_KILL_AT"))
			os.Exit(start(a))
		},
	})
}

// checked fails a run that leaves goroutines behind.
type checked struct{ m *testing.M }

func (c checked) Run() int {
	code := c.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// killAt kills the process, as by kill -9, at the commit point of that number,
// counted from 1.
func killAt(text string) func(string) {
	if text == "" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic("OPERON_TEST_KILL_AT: " + err.Error())
	}
	var passed atomic.Int64
	return func(string) {
		if passed.Add(1) == n {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
}
