package main

import (
	"github.com/urfave/cli/v2"
)

// The library's own templates end without a line end, and name what nobody asks
// for.
const (
	appHelp = `operon - {{.Usage}}

usage: {{.UsageText}}

commands:{{range .VisibleCommands}}
   {{printf "%-11s" .Name}} {{.Usage}}{{end}}

operon help COMMAND explains one. FILE may be left out in a folder with one
operon.yaml or *.operon.yaml. Results go to standard output, all else to
standard error.
`
	commandHelp = `{{.HelpName}} - {{.Usage}}

usage: {{.HelpName}}{{if .VisibleFlags}} [flags]{{end}}{{if .ArgsUsage}} {{.ArgsUsage}}{{end}}{{if .Description}}

{{.Description}}{{end}}{{if .VisibleFlags}}

flags:{{range .VisibleFlags}}
   {{.}}{{end}}{{end}}
`
)

func (a *app) helpCommand() *cli.Command {
	return &cli.Command{
		Name:      "help",
		Usage:     "list the commands, or explain one",
		ArgsUsage: "[COMMAND]",
		Action: func(c *cli.Context) error {
			switch c.NArg() {
			case 0:
				return cli.ShowAppHelp(c)
			case 1:
				name := c.Args().First()
				command := c.App.Command(name)
				if command == nil {
					return unknownCommand(c.App, name)
				}
				cli.HelpPrinter(a.results(), commandHelp, command)
				return nil
			}
			return usagef("help explains one command at a time")
		},
	}
}
