package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"operon/cmd/operon/internal/live"
	"operon/cmd/operon/internal/term"
	"operon/engine"
)

func (a *app) logsCommand() *cli.Command {
	return &cli.Command{
		Name:        "logs",
		Usage:       "print what jobs wrote to standard error",
		ArgsUsage:   "[FILE] [TASK]",
		Description: "Logs come byte for byte, each below a line that names its job, unless a single job is\nasked for by TASK and --at.",
		Flags: append(serverFlags(),
			&cli.StringFlag{Name: "at", Usage: "only of jobs `AT` these indices, such as i=0,j=2; @x is the one with the label x"},
			&cli.BoolFlag{Name: "failed", Usage: "only of jobs that failed"},
			stateFlag(),
			logFormatFlag(),
		),
		Action: a.logsAction,
	}
}

func (a *app) logsAction(c *cli.Context) error {
	file, names := fileFirst(c.Args().Slice())
	if len(names) > 1 {
		return usagef("logs wants a FILE and one TASK, both of which may be left out; there are %d arguments", c.NArg())
	}
	at, labels, err := parsePlace(c.String("at"))
	if err != nil {
		return err
	}
	q := engine.LogQuery{At: at, Labels: labels, Failed: c.Bool("failed")}
	if len(names) == 1 {
		q.Task = names[0]
	}
	if q.Task == "" && len(at)+len(labels) > 0 {
		return usagef("logs: --at needs a TASK, whose dimensions it names")
	}
	t, err := find(c, file)
	if err != nil {
		return err
	}
	src, err := t.open(c.Context)
	if err != nil {
		return err
	}
	return errors.Join(a.logs(c.Context, src, q), src.close())
}

// logs writes the logs that a query names, one after another.
func (a *app) logs(ctx context.Context, src *source, q engine.LogQuery) error {
	facts := term.Of(a.stdout, a.getenv)
	out := bufio.NewWriterSize(a.results(), 64<<10)
	first := true
	err := src.Logs(ctx, q, func(l engine.Log) error {
		alone := q.Task != "" && len(q.At)+len(q.Labels) == len(l.Dims)
		if !alone {
			if !first {
				out.WriteByte('\n')
			}
			fmt.Fprintln(out, facts.Paint(term.Bold, fmt.Sprintf("==> %s: %s <==", live.Job(l.Task, l.At()), l.Path)))
		}
		first = false
		return copyLog(out, l.Path, !alone)
	})
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	return err
}

// copyLog writes a log byte for byte, with a line end if what follows must not
// stand on its last line. One that was pruned meanwhile is left out.
func copyLog(w *bufio.Writer, path string, line bool) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read a log: %w", err)
	}
	defer f.Close()
	end := &lastByte{w: w}
	if _, err := io.Copy(end, f); err != nil {
		return fmt.Errorf("copy the log %s: %w", path, err)
	}
	if line && end.last != '\n' && end.any {
		return w.WriteByte('\n')
	}
	return nil
}

// lastByte remembers the last byte that went through.
type lastByte struct {
	w    io.Writer
	last byte
	any  bool
}

func (l *lastByte) Write(p []byte) (int, error) {
	if len(p) > 0 {
		l.last, l.any = p[len(p)-1], true
	}
	return l.w.Write(p)
}
