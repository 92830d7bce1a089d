package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"operon/engine"
)

func (a *app) whyCommand() *cli.Command {
	return &cli.Command{
		Name:      "why",
		Usage:     "say why a job ran in the last run, or did not",
		ArgsUsage: "[FILE] TASK",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "at", Usage: "the job `AT` these indices, such as i=0,j=2: all of the task's dimensions"},
			stateFlag(),
			jsonFlag("write one line of JSON"),
			logFormatFlag(),
		},
		Action: a.whyAction,
	}
}

func (a *app) whyAction(c *cli.Context) error {
	var file, task string
	switch args := c.Args().Slice(); len(args) {
	case 1:
		task = args[0]
	case 2:
		file, task = args[0], args[1]
	default:
		return usagef("why wants a FILE, which may be left out, and one TASK; there are %d arguments", len(args))
	}
	at, err := parseAt(c.String("at"))
	if err != nil {
		return err
	}
	t, err := find(c, file)
	if err != nil {
		return err
	}
	s, err := engine.OpenState(t.state)
	if err != nil {
		return err
	}
	b, err := s.Why(c.Context, task, at)
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	if c.Bool("json") {
		return writeJSON(a.results(), b)
	}
	return a.writeBecause(b)
}

func (a *app) writeBecause(b *engine.Because) error {
	w := a.results()
	head := b.Task
	if b.At != "" {
		head += " at " + b.At
	}
	head += ": " + b.Outcome
	if !b.Started.IsZero() {
		head += fmt.Sprintf(" (started %s, attempt %d)", b.Started.Local().Format(time.DateTime), b.Attempts)
	}
	if _, err := fmt.Fprintf(w, "%s\n  because %s\n", head, b.Why); err != nil {
		return err
	}
	for _, in := range b.Inputs {
		if _, err := fmt.Fprintf(w, "  takes %s as %s, sha256 %.16s…\n", in.Ref, in.Arg, in.SHA256); err != nil {
			return err
		}
	}
	return nil
}
