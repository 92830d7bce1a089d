package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"operon/engine"
)

func (a *app) compactCommand() *cli.Command {
	return &cli.Command{
		Name:      "compact",
		Usage:     "make the files of a state as small as they can be",
		ArgsUsage: "[FILE]",
		Description: "What a run or clean drops leaves room in data.db and meta.db that is used again, while the\n" +
			"files stay as large as they were. Compact copies each into a new file without room, which\n" +
			"takes its place once it is whole. The disk needs room for the copy.",
		Flags: []cli.Flag{
			jsonFlag("write the sizes as one line of JSON"),
			stateFlag(),
			logFormatFlag(),
		},
		Action: a.compactAction,
	}
}

func (a *app) compactAction(c *cli.Context) error {
	t, err := a.upkeep(c)
	if err != nil {
		return err
	}
	rep, err := engine.Compact(c.Context, t.state, engine.CompactOptions{Hook: a.hook})
	if err != nil {
		return t.nothing(err)
	}
	if c.Bool("json") {
		return writeJSON(a.results(), rep)
	}
	for _, f := range rep.Files {
		if _, err := fmt.Fprintf(a.results(), "%s: %s, was %s\n", f.Name, bytesText(f.After), bytesText(f.Before)); err != nil {
			return err
		}
	}
	return nil
}
