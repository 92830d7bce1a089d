package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// release is the version of this source; a build from elsewhere adds its
// revision.
const release = "0.1.0"

func (a *app) versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "say which operon this is",
		Flags: []cli.Flag{logFormatFlag()},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return usagef("version takes no arguments")
			}
			_, err := fmt.Fprintf(a.results(), "operon %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// version is the release, with the revision it was built from where that is
// known.
func version() string {
	text := release
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return text
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			text += "+" + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			text += ".changed"
		}
	}
	return text
}
