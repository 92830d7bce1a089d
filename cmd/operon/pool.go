package main

import (
	"errors"
	"strconv"

	"github.com/urfave/cli/v2"
)

func (a *app) poolCommand() *cli.Command {
	return &cli.Command{
		Name:      "pool",
		Usage:     "change how many jobs of a pool or a task run at once",
		ArgsUsage: "[FILE] NAME SIZE",
		Description: "NAME is a pool of the pipeline's, or a task. Jobs that run go on; the size holds until\n" +
			"the run ends.",
		Flags:  append(serverFlags(), stateFlag(), logFormatFlag()),
		Action: a.poolAction,
	}
}

func (a *app) poolAction(c *cli.Context) error {
	args := c.Args().Slice()
	file := ""
	if len(args) == 3 {
		file, args = args[0], args[1:]
	}
	if len(args) != 2 {
		return usagef("pool wants a FILE, which may be left out, a NAME and a SIZE; there are %d arguments", c.NArg())
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 1 {
		return usagef("pool: the size is a number from 1, not %s; operon pause starts no more jobs of a task", quote(args[1]))
	}
	t, err := find(c, file)
	if err != nil {
		return err
	}
	src, err := t.open(c.Context)
	if err != nil {
		return err
	}
	if src.engine == nil {
		return errors.Join(usagef("no engine runs on %s; a size in the pipeline file holds for the next run", t.state), src.close())
	}
	if err := src.engine.SetPool(c.Context, args[0], n); err != nil {
		return err
	}
	a.say("%s runs %d at once", args[0], n)
	return nil
}
