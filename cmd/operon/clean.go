package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"operon/engine"
)

func (a *app) cleanCommand() *cli.Command {
	return &cli.Command{
		Name:      "clean",
		Usage:     "drop what no task of the last run needs, and say what that freed",
		ArgsUsage: "[FILE]",
		Description: "Results of tasks that were replaced or removed are kept, so that an edit that is undone\n" +
			"costs nothing. Clean drops them, with blobs that nothing names, temporary files and old\n" +
			"logs. What an unfinished run may still reuse stays, and values that get prints always do.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Aliases: []string{"n"}, Usage: "change nothing, say what would go"},
			&cli.BoolFlag{Name: "all", Usage: "also what an unfinished run may still reuse, all logs, and metadata that was moved aside"},
			jsonFlag("write what was freed as one line of JSON"),
			stateFlag(),
			logFormatFlag(),
		},
		Action: a.cleanAction,
	}
}

func (a *app) cleanAction(c *cli.Context) error {
	t, err := a.upkeep(c)
	if err != nil {
		return err
	}
	rep, err := engine.Clean(c.Context, t.state, engine.CleanOptions{
		DryRun: c.Bool("dry-run"), All: c.Bool("all"), Logger: a.logger(a.stderr), Hook: a.hook,
	})
	if err != nil {
		return t.nothing(err)
	}
	if c.Bool("json") {
		return writeJSON(a.results(), rep)
	}
	return writeClean(a.results(), rep, t.command("compact"))
}

// upkeep is the target of a command that looks after a state.
func (a *app) upkeep(c *cli.Context) (target, error) {
	file, err := atMostFile(c)
	if err != nil {
		return target{}, err
	}
	return find(c, file)
}

// fileAndName splits arguments of the form [FILE] NAME. A lone one is the name,
// also where there is a file of that name, unless it can't be one.
func fileAndName(c *cli.Context, what string) (file, name string, err error) {
	args := c.Args().Slice()
	switch {
	case len(args) == 1 && !strings.ContainsAny(args[0], "./\\"):
		return "", args[0], nil
	case len(args) == 2:
		return args[0], args[1], nil
	}
	return "", "", usagef("%s wants a FILE, which may be left out, and one %s: operon %s FILE %s", c.Command.Name, what, c.Command.Name, what)
}

// nothing says of a state that is not there how it comes to be.
func (t target) nothing(err error) error {
	if errors.Is(err, engine.ErrNoState) {
		return fmt.Errorf("%w: %s; %s makes it", engine.ErrNoState, t.state, t.command("run"))
	}
	return err
}

// writeClean says what clean freed.
func writeClean(w io.Writer, r *engine.CleanReport, compact string) error {
	var b strings.Builder
	verb := "freed"
	if r.DryRun {
		verb = "would free"
	}
	fmt.Fprintf(&b, "%s %s\n", verb, bytesText(r.Bytes))
	for _, t := range r.Tasks {
		fmt.Fprintf(&b, "  %s: %s of %s replaced or removed, %s\n",
			t.Task, count(int(t.Records), "record"), count(int(t.Dataflows), "dataflow"), bytesText(t.Bytes))
	}
	for _, p := range []struct {
		what string
		pile engine.Pile
	}{{"blob", r.Blobs}, {"log", r.Logs}, {"temporary file", r.Temporary}} {
		if p.pile.Files > 0 {
			fmt.Fprintf(&b, "  %s, %s\n", count(int(p.pile.Files), p.what), bytesText(p.pile.Bytes))
		}
	}
	if r.Kept > 0 {
		fmt.Fprintf(&b, "  kept: %s that the unfinished run may still reuse; --all drops them too\n", count(int(r.Kept), "dataflow"))
	}
	if r.Data > 0 && !r.DryRun {
		fmt.Fprintf(&b, "  %s of that is room in data.db, which is used again; %s makes the file smaller\n", bytesText(r.Data), compact)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
