package main

import (
	"context"
	"strings"

	"github.com/urfave/cli/v2"

	"operon/engine/control"
)

func (a *app) pauseCommand() *cli.Command {
	return &cli.Command{
		Name:      "pause",
		Usage:     "start no more jobs of tasks, or of all, in a run that is on",
		ArgsUsage: "[FILE] [TASK…]",
		Flags: append(serverFlags(),
			&cli.BoolFlag{Name: "cascade", Usage: "also of everything that the tasks need"},
			stateFlag(),
			logFormatFlag(),
		),
		Action: func(c *cli.Context) error {
			return a.command(c, "paused", func(ctx context.Context, e *control.Client, tasks []string) error {
				return e.Pause(ctx, tasks, c.Bool("cascade"))
			})
		},
	}
}

func (a *app) resumeCommand() *cli.Command {
	return &cli.Command{
		Name:      "resume",
		Usage:     "undo pause for tasks, or for all",
		ArgsUsage: "[FILE] [TASK…]",
		Flags:     append(serverFlags(), stateFlag(), logFormatFlag()),
		Action: func(c *cli.Context) error {
			return a.command(c, "resumed", func(ctx context.Context, e *control.Client, tasks []string) error {
				return e.Resume(ctx, tasks)
			})
		},
	}
}

func (a *app) quitCommand() *cli.Command {
	return &cli.Command{
		Name:        "quit",
		Usage:       "end a run that is on",
		ArgsUsage:   "[FILE]",
		Description: "Running jobs finish; the next run goes on from there.",
		Flags: append(serverFlags(),
			&cli.BoolFlag{Name: "force", Usage: "kill running jobs"},
			stateFlag(),
			logFormatFlag(),
		),
		Action: func(c *cli.Context) error {
			if _, names := fileFirst(c.Args().Slice()); len(names) > 0 {
				return usagef("quit ends the whole run; it takes no %s", strings.Join(names, " "))
			}
			return a.command(c, "quitting", func(ctx context.Context, e *control.Client, _ []string) error {
				return e.Quit(ctx, c.Bool("force"))
			})
		},
	}
}

// command tells the running engine to do something, and says that it heard.
func (a *app) command(c *cli.Context, done string, do func(context.Context, *control.Client, []string) error) error {
	file, tasks := fileFirst(c.Args().Slice())
	t, err := find(c, file)
	if err != nil {
		return err
	}
	e, err := t.openEngine(c.Context)
	if err != nil {
		return err
	}
	if err := do(c.Context, e, tasks); err != nil {
		return err
	}
	what := "the run"
	if len(tasks) > 0 {
		what = strings.Join(tasks, ", ")
	}
	a.say("%s %s", done, what)
	return nil
}
