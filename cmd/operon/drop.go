package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"operon/engine/control"
)

func (a *app) dropCommand() *cli.Command {
	return &cli.Command{
		Name:        "drop",
		Usage:       "end tasks of a run that is on, and all that needs them",
		ArgsUsage:   "[FILE] TASK…",
		Description: "Their running jobs are killed. What is done of them stays, and the rest of the run goes on.",
		Flags:       append(serverFlags(), stateFlag(), logFormatFlag()),
		Action: func(c *cli.Context) error {
			if _, names := fileFirst(c.Args().Slice()); len(names) == 0 {
				return usagef("drop wants at least one TASK; operon quit ends the whole run")
			}
			return a.command(c, "dropped (and what needs it):", func(ctx context.Context, e *control.Client, tasks []string) error {
				return e.Drop(ctx, tasks)
			})
		},
	}
}
