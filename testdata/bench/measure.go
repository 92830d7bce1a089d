package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// cost is what one command took.
type cost struct {
	wall, cpu time.Duration // cpu: user and system, of the command and of every child it waited for
	rssMB     float64       // peak of the largest single process
	heapMB    float64       // peak heap of a Go program that was told to trace its collections, else 0
	stdout    []byte
}

// measured runs a command in dir and waits for it. With trace, a Go program reports each collection on stderr, and
// the largest heap seen there is the peak.
func measured(dir string, trace bool, argv ...string) (cost, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	stderr, err := os.CreateTemp(dir, "stderr-")
	if err != nil {
		return cost{}, err
	}
	defer os.Remove(stderr.Name())
	defer stderr.Close()
	var stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, stderr
	if trace {
		cmd.Env = append(os.Environ(), "GODEBUG=gctrace=1")
	}
	start := time.Now()
	err = cmd.Run()
	c := cost{wall: time.Since(start), stdout: stdout.Bytes()}
	if cmd.ProcessState != nil {
		c.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		c.rssMB = peakMB(cmd.ProcessState)
	}
	text, readErr := os.ReadFile(stderr.Name())
	if readErr != nil {
		return c, errors.Join(err, readErr)
	}
	if trace {
		c.heapMB = peakHeap(text)
	}
	if err != nil {
		return c, fmt.Errorf("run %q: %w\n%s", argv, err, tail(text, 2000))
	}
	return c, nil
}

// peakMB reads the peak resident size, which Linux counts in KiB and macOS in bytes.
func peakMB(p *os.ProcessState) float64 {
	u, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	unit := 1024.0
	if runtime.GOOS == "darwin" {
		unit = 1
	}
	return float64(u.Maxrss) * unit / (1 << 20)
}

// collection is the part of a gctrace line that tells the heap before, at the end of, and after marking.
var collection = regexp.MustCompile(`(?m)^gc \d+ @.* (\d+)->(\d+)->\d+ MB`)

func peakHeap(trace []byte) float64 {
	peak := 0.0
	for _, m := range collection.FindAllSubmatch(trace, -1) {
		for _, digits := range m[1:] {
			if mb, err := strconv.ParseFloat(string(digits), 64); err == nil {
				peak = max(peak, mb)
			}
		}
	}
	return peak
}

// tail returns the end of a text, without the lines that tracing adds.
func tail(text []byte, n int) []byte {
	text = regexp.MustCompile(`(?m)^gc \d+ @.*\n`).ReplaceAll(text, nil)
	return text[max(0, len(text)-n):]
}

// build compiles a package of this module.
func build(to, pkg string) error {
	cmd := exec.Command("go", "build", "-o", to, pkg)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w", pkg, err)
	}
	return nil
}

// place makes a fresh folder with one file in it.
func (s *settings) place(kind, file, text string) (string, error) {
	dir, err := os.MkdirTemp(s.dir, kind+"-")
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644)
}

// diskMB is what lies under a folder.
func diskMB(dir string) float64 {
	var total int64
	// a file that goes away while we look is no matter here
	_ = filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return nil
	})
	return float64(total) / (1 << 20)
}

// line writes formatted text; the tables and pipelines here are built in memory.
func line(w io.Writer, format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
