package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/urfave/cli/v2"
)

// firstPipeline is what init writes. It is not to be changed.
//
//go:embed init.yaml
var firstPipeline []byte

func (a *app) initCommand() *cli.Command {
	return &cli.Command{
		Name:      "init",
		Usage:     "write a small pipeline with comments, to start from",
		ArgsUsage: "[FILE]",
		Flags:     []cli.Flag{logFormatFlag()},
		Action: func(c *cli.Context) error {
			file, err := atMostFile(c)
			if err != nil {
				return err
			}
			if file == "" {
				file = "operon.yaml"
			}
			return a.init(file)
		},
	}
}

// init writes the file, and never over another.
func (a *app) init(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return usagef("%s is there already; init writes over nothing", file)
	}
	if err != nil {
		return fmt.Errorf("write a first pipeline: %w", err)
	}
	_, err = f.Write(firstPipeline)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write a first pipeline: %w", err)
	}
	a.say("wrote %s; operon run %s runs it", file, quote(file))
	return nil
}
