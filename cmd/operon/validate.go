package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"operon/cmd/operon/internal/diagfmt"
	"operon/engine"
	"operon/spec"
)

func (a *app) validateCommand() *cli.Command {
	return &cli.Command{
		Name:        "validate",
		Usage:       "say all that is wrong with pipeline files",
		ArgsUsage:   "[FILE…]",
		Description: "Runs nothing and needs no state. Params that a run would have to give may be missing.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "p", Usage: "set a param: `NAME=VALUE`; may be repeated"},
			&cli.StringFlag{Name: "params", Usage: "read params from a YAML or JSON `FILE`"},
			jsonFlag("write what was found as one JSON array to standard output"),
			logFormatFlag(),
		},
		Action: a.validateAction,
	}
}

func (a *app) validateAction(c *cli.Context) error {
	params, err := readParams(c.StringSlice("p"))
	if err != nil {
		return err
	}
	files := c.Args().Slice()
	if len(files) == 0 {
		files = []string{""}
	}
	var all []diagfmt.Finding
	var wrong spec.Errors
	for _, given := range files {
		file, err := pipelineFile(given)
		if err != nil {
			return here(err)
		}
		p, err := engine.LoadFile(file, engine.LoadOptions{Params: params, ParamsFile: c.String("params")})
		errs, isSpec := errors.AsType[spec.Errors](err)
		if err != nil && !isSpec {
			return err
		}
		wrong = append(wrong, errs...)
		var warnings spec.Errors
		if p != nil {
			warnings = p.Warnings
		}
		if c.Bool("json") {
			all = append(all, diagfmt.Findings(diagfmt.SeverityError, errs)...)
			all = append(all, diagfmt.Findings(diagfmt.SeverityWarning, warnings)...)
			continue
		}
		if err := a.validated(file, p, errs, warnings); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		if err := diagfmt.WriteJSON(a.results(), all); err != nil {
			return err
		}
	}
	if len(wrong) > 0 {
		return told{wrong}
	}
	return nil
}

// validated tells a person about one file.
func (a *app) validated(file string, p *spec.Pipeline, errs, warnings spec.Errors) error {
	show := a.printer(a.stderr)
	if err := errors.Join(show.Print(diagfmt.SeverityError, errs), show.Print(diagfmt.SeverityWarning, warnings)); err != nil {
		return fmt.Errorf("write to standard error: %w", err)
	}
	if len(errs) > 0 {
		a.say("%s: %s", file, count(len(errs), "error"))
		return nil
	}
	text := fmt.Sprintf("%s: ok: pipeline %s, %s", file, p.Name, count(len(p.Tasks), "task"))
	if len(warnings) > 0 {
		text += ", " + count(len(warnings), "warning")
	}
	_, err := fmt.Fprintln(a.results(), text)
	return err
}

func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
