package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"operon/cmd/operon/internal/live"
	"operon/cmd/operon/internal/term"
	"operon/engine"
)

func (a *app) execCommand() *cli.Command {
	return &cli.Command{
		Name:      "exec",
		Usage:     "run one job by hand, and store nothing",
		ArgsUsage: "[FILE] TASK",
		Description: "Runs the job with the pipeline as it is now and the inputs that the last run left: same\n" +
			"arguments, same environment. What it returns goes to standard output as operon get would\n" +
			"print it, what it wrote to standard error there.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "at", Usage: "the job `AT` these indices, such as i=0,j=2: all of the task's dimensions; @x is the one with the label x"},
			stateFlag(),
			logFormatFlag(),
		},
		Action: a.execAction,
	}
}

func (a *app) execAction(c *cli.Context) error {
	file, names := fileFirst(c.Args().Slice())
	if len(names) != 1 {
		return usagef("exec wants a FILE, which may be left out, and one TASK: operon exec FILE TASK --at i=0")
	}
	at, labels, err := parsePlace(c.String("at"))
	if err != nil {
		return err
	}
	t, err := find(c, file)
	if err != nil {
		return err
	}
	p, err := engine.LoadLast(t.file, t.dir(), t.state, a.lookupEnv)
	if err != nil {
		return err
	}
	q := engine.ExecQuery{Task: names[0], At: at, Labels: labels}
	failed := false
	err = engine.Exec(c.Context, p, engine.Options{Dir: t.dir(), State: t.state}, q, func(x *engine.Execution) error {
		failed = x.Failed != nil
		return a.showExecution(c.Context, t, p.Task(names[0]).Out.Name, x)
	})
	if err == nil && failed {
		err = told{errUnfinished}
	}
	return err
}

// showExecution writes what came of a job.
func (a *app) showExecution(ctx context.Context, t target, entity string, x *engine.Execution) error {
	if x.Log != "" {
		if err := copyTo(a.stderr, x.Log); err != nil {
			return err
		}
	}
	if f := x.Failed; f != nil {
		facts := term.Of(a.stderr, a.getenv)
		fmt.Fprintf(a.stderr, "%s %s: %s\n", facts.Paint(term.Red, "failed"), live.Job(x.Task, x.Coord.Format(x.Dims)), strings.TrimSpace(f.Message))
		return nil
	}
	buf := bufio.NewWriterSize(a.results(), 64<<10)
	w := &textWriter{out: buf, entity: entity, base: t.dir(), alone: len(x.Items) == 1}
	for _, v := range x.Items {
		if err := w.write(engine.Item{Value: v}); err != nil {
			return err
		}
	}
	if err := buf.Flush(); err != nil {
		return err
	}
	a.say("%s returned %s in %s; nothing was stored", live.Job(x.Task, x.Coord.Format(x.Dims)), count(len(x.Items), "value"), x.Elapsed.Round(time.Millisecond))
	return context.Cause(ctx)
}

// copyTo writes a file's bytes to another.
func copyTo(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read what the job wrote to standard error: %w", err)
	}
	_, err = io.Copy(w, f)
	return errors.Join(err, f.Close())
}

// execCommand is what a person types to run a failed job by hand.
func (t target) execCommand(f *engine.Failed) string {
	line := t.command("exec", f.Task)
	if at := f.Coord.Format(f.Dims); at != "" {
		line += " --at " + at
	}
	return line
}
