package main

import (
	"io"

	"github.com/urfave/cli/v2"

	"operon/cmd/operon/internal/draw"
	"operon/engine"
)

// maxSVG is how many tasks a picture has at most: with more nobody sees
// anything, and long edges take their toll.
const maxSVG = 1000

func (a *app) graphCommand() *cli.Command {
	return &cli.Command{
		Name:      "graph",
		Usage:     "draw a pipeline's tasks and what they take from each other",
		ArgsUsage: "[FILE]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Value: "text", Usage: "as `FORMAT`: text, dot, mermaid or svg"},
			logFormatFlag(),
		},
		Action: a.graphAction,
	}
}

func (a *app) graphAction(c *cli.Context) error {
	file, err := atMostFile(c)
	if err != nil {
		return err
	}
	if file, err = pipelineFile(file); err != nil {
		return here(err)
	}
	p, err := engine.LoadFile(file, engine.LoadOptions{})
	if err != nil {
		return err
	}
	g := draw.Of(p)
	var text string
	switch format := c.String("format"); format {
	case "text":
		text = g.Text()
	case "dot":
		text = g.DOT()
	case "mermaid":
		text = g.Mermaid()
	case "svg":
		if len(g.Nodes) > maxSVG {
			return usagef("graph --format svg draws up to %d tasks, and there are %d; --format dot goes to Graphviz", maxSVG, len(g.Nodes))
		}
		text = g.SVG()
	default:
		return usagef("--format is text, dot, mermaid or svg, not %q", format)
	}
	_, err = io.WriteString(a.results(), text)
	return err
}
