package main

import (
	"bytes"

	"github.com/urfave/cli/v2"

	"operon/spec"
)

func (a *app) schemaCommand() *cli.Command {
	return &cli.Command{
		Name:        "schema",
		Usage:       "write the JSON Schema of pipeline files, for editors",
		Description: "An editor that knows YAML then completes keys and marks mistakes: put\n   # yaml-language-server: $schema=FILE\non a pipeline file's first line.",
		Flags:       []cli.Flag{logFormatFlag()},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return usagef("schema takes no arguments")
			}
			text := append(bytes.TrimRight(spec.JSONSchema(), "\n"), '\n')
			_, err := a.results().Write(text)
			return err
		},
	}
}
