package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"operon/cmd/operon/internal/term"
	"operon/engine"
	"operon/spec"
)

func (a *app) checkCommand() *cli.Command {
	return &cli.Command{
		Name:      "check-consistency",
		Usage:     "hold the metadata of a state against its data, and list every fault",
		ArgsUsage: "[FILE]",
		Description: "Modes, from the least to the most: trust-all looks at nothing; metadata-only computes\n" +
			"every counter, status and length anew from the job records; quick also looks for the\n" +
			"values that an unfinished task or you will read; exhaustive reads every value and file,\n" +
			"verifies digests, and holds every record against its ticket and its inputs. Changes\n" +
			"nothing. Exit code 0 if there are no faults, else 3. What a kill may leave is counted as\n" +
			"a note, and is no fault.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "mode", Value: string(engine.Quick), Usage: "look as closely as `MODE`: " + modes()},
			jsonFlag("write what was found as one line of JSON"),
			stateFlag(),
			logFormatFlag(),
		},
		Action: a.checkAction,
	}
}

func modes() string {
	var names []string
	for _, m := range engine.CheckModes() {
		names = append(names, string(m))
	}
	return strings.Join(names, ", ")
}

func (a *app) checkAction(c *cli.Context) error {
	mode := engine.CheckMode(c.String("mode"))
	if !slices.Contains(engine.CheckModes(), mode) {
		return usagef("--mode is one of %s, not %q", modes(), mode)
	}
	t, p, err := a.lastRun(c)
	if err != nil {
		return err
	}
	rep, err := engine.Check(c.Context, p, engine.CheckOptions{
		Dir: t.dir(), State: t.state, Mode: mode, Logger: a.logger(a.stderr), Progress: a.progress(),
	})
	if err != nil {
		return t.nothing(err)
	}
	if c.Bool("json") {
		err = writeJSON(a.results(), rep)
	} else {
		err = a.writeCheck(a.results(), rep)
	}
	if err != nil || rep.Consistent {
		return err
	}
	return told{&engine.InconsistentError{Detail: "there are faults"}}
}

// lastRun is the target of a command that looks at what the last run left, with
// the pipeline as that run had it.
func (a *app) lastRun(c *cli.Context) (target, *spec.Pipeline, error) {
	file, err := atMostFile(c)
	if err != nil {
		return target{}, nil, err
	}
	t, err := find(c, file)
	if err != nil {
		return t, nil, err
	}
	p, err := engine.LoadLast(t.file, t.dir(), t.state, a.lookupEnv)
	return t, p, t.nothing(err)
}

// progress says on standard error how far something is, once it takes long.
func (a *app) progress() func(engine.Progress) {
	every := 10 * time.Second
	if term.Of(a.stderr, a.getenv).Live {
		every = 2 * time.Second
	}
	last := time.Now()
	return func(p engine.Progress) {
		if now := time.Now(); now.Sub(last) >= every {
			last = now
			a.say("%v", p)
		}
	}
}

// writeCheck writes a report for a person: each fault with its mend, notes, and
// the verdict.
func (a *app) writeCheck(w io.Writer, r *engine.CheckReport) error {
	facts := term.Of(a.stdout, a.getenv)
	var b strings.Builder
	mend := ""
	for _, f := range r.Faults {
		if f.Mend != mend && mend != "" {
			fmt.Fprintf(&b, "  %s\n", facts.Paint(term.Dim, mend))
		}
		mend = f.Mend
		where := f.Where()
		if where != "" {
			where += ": "
		}
		fmt.Fprintf(&b, "%s%s: %s\n", where, facts.Paint(term.Red, string(f.Kind)), f.Detail)
	}
	if mend != "" {
		fmt.Fprintf(&b, "  %s\n", facts.Paint(term.Dim, mend))
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Notes)) {
		fmt.Fprintf(&b, "note: %d %s (%s)\n", r.Notes[kind], kind, noteMeaning(kind))
	}
	verdict := "consistent"
	if !r.Consistent {
		verdict = fmt.Sprintf("inconsistent, %s", count(len(r.Faults), "fault"))
	}
	n := r.Checked
	fmt.Fprintf(&b, "%s (%s): looked at %d tickets, %d records, %d values, %d blobs\n", verdict, r.Mode, n.Tickets, n.Records, n.Values, n.Blobs)
	_, err := io.WriteString(w, b.String())
	return err
}

func noteMeaning(kind string) string {
	for _, k := range engine.NoteKinds() {
		if k.Name == kind {
			return k.Meaning
		}
	}
	return ""
}

// KindTable is the table of faults and notes in Markdown.
func KindTable() string {
	var b strings.Builder
	b.WriteString("| fault | meaning |\n| --- | --- |\n")
	for _, k := range engine.FaultKinds() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", k.Name, k.Meaning)
	}
	b.WriteString("\n| note | meaning |\n| --- | --- |\n")
	for _, k := range engine.NoteKinds() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", k.Name, k.Meaning)
	}
	return b.String()
}
