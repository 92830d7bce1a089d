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
	load := engine.LoadOptions{Params: params, ParamsFile: c.String("params")}
	files := c.Args().Slice()
	if len(files) == 0 {
		files = []string{""}
	}
	var all []diagfmt.Finding
	var wrong spec.Errors
	for _, given := range files {
		file, p, errs, err := validate(given, load)
		if err != nil {
			return err
		}
		wrong = append(wrong, errs...)
		var warnings spec.Errors
		if p != nil {
			warnings = p.Warnings
		}
		all = append(all, diagfmt.Findings(diagfmt.SeverityError, errs)...)
		all = append(all, diagfmt.Findings(diagfmt.SeverityWarning, warnings)...)
		if c.Bool("json") {
			continue // all in one array
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

// validate loads one file: its pipeline, or what is wrong with it.
func validate(given string, load engine.LoadOptions) (string, *spec.Pipeline, spec.Errors, error) {
	file, err := pipelineFile(given)
	if err != nil {
		return "", nil, nil, here(err)
	}
	p, err := engine.LoadFile(file, load)
	if errs, ok := errors.AsType[spec.Errors](err); ok {
		return file, nil, errs, nil
	}
	return file, p, nil, err
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
