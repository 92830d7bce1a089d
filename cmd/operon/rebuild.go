package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"operon/engine"
)

func (a *app) rebuildCommand() *cli.Command {
	return &cli.Command{
		Name:      "rebuild",
		Usage:     "make the metadata again from the data, and drop what is not intact",
		ArgsUsage: "[FILE]",
		Description: "Keeps every result whose record, values and inputs are intact; drops the rest, with all\n" +
			"that hangs on it. The next run executes what was dropped. The metadata may be missing,\n" +
			"damaged, of an older format, or of another shape of the pipeline. Until the end nothing\n" +
			"has changed.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "skip", Usage: "throw away the results of `TASK` and of all that hangs on it; may be repeated, or a comma list"},
			&cli.StringSliceFlag{Name: "redo", Usage: "let the next run make the results of `TASK` again, and what hangs on them where they differ"},
			&cli.BoolFlag{Name: "redo-inconsistent", Usage: "keep aside what hangs on damaged results, to be taken back if they come out as they were"},
			jsonFlag("write what was done as one line of JSON"),
			stateFlag(),
			logFormatFlag(),
		},
		Action: a.rebuildAction,
	}
}

func (a *app) rebuildAction(c *cli.Context) error {
	t, p, err := a.lastRun(c)
	if err != nil {
		return err
	}
	rep, err := engine.Rebuild(c.Context, p, engine.RebuildOptions{
		Options: engine.Options{Dir: t.dir(), State: t.state, Build: version(), Logger: a.logger(a.stderr), Hook: a.hook},
		Skip:    listed(c.StringSlice("skip")), Redo: listed(c.StringSlice("redo")),
		RedoInconsistent: c.Bool("redo-inconsistent"), Progress: a.progress(),
	})
	if err != nil {
		return t.nothing(err)
	}
	if c.Bool("json") {
		return writeJSON(a.results(), rep)
	}
	return writeRebuild(a.results(), rep, t.command("run"))
}

// listed takes comma lists apart.
func listed(list []string) []string {
	var out []string
	for _, text := range list {
		for name := range strings.SplitSeq(text, ",") {
			if name = strings.TrimSpace(name); name != "" {
				out = append(out, name)
			}
		}
	}
	return out
}

// writeRebuild writes what a rebuild did: a line a task, then the sum.
func writeRebuild(w io.Writer, r *engine.RebuildReport, run string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "kept\tdropped\taside\t  task")
	for _, t := range r.Tasks {
		fmt.Fprintf(table, "%d\t%d\t%d\t  %s\n", t.Kept, t.Dropped, t.Aside, withReasons(t.Task, t.Reasons))
	}
	if r.Memo.Dropped > 0 {
		fmt.Fprintf(table, "\t%d\t\t  %s\n", r.Memo.Dropped, withReasons("(earlier definitions)", r.Memo.Reasons))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	text := r.String()
	if r.State != engine.StateComplete {
		text += "; " + run + " goes on"
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// withReasons is a name with the reasons for what became of it, counted.
func withReasons(name string, reasons map[string]int64) string {
	var why []string
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		why = append(why, fmt.Sprintf("%d %s", reasons[reason], reason))
	}
	if len(why) == 0 {
		return name
	}
	return name + ": " + strings.Join(why, ", ")
}
