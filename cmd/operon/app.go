package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"operon/cmd/operon/internal/diagfmt"
	"operon/cmd/operon/internal/term"
	"operon/spec"
)

// app is the program in its surroundings.
type app struct {
	stdout, stderr *os.File
	getenv         func(string) string
	lookupEnv      func(string) (string, bool)

	stops     stops
	logFormat string // of the command that runs
	logLevel  zerolog.Level
	hook      func(string) // of the stores' commit points, for tests
}

func newApp() *app {
	return &app{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, lookupEnv: os.LookupEnv, logLevel: zerolog.InfoLevel}
}

// main runs the program and returns its exit code.
func (a *app) main(ctx context.Context, argv []string, signals <-chan os.Signal) int {
	ctx, cancel := context.WithCancelCause(ctx)
	a.stops.cancel = cancel
	var watching sync.WaitGroup
	watching.Go(func() { a.stops.watch(ctx, signals) })
	err := cause(ctx, a.run(ctx, argv))
	if errors.Is(err, errReaderGone) {
		err = nil // as head does: it has all that it wanted
	}
	a.report(err)
	cancel(nil)
	watching.Wait()
	return ExitCode(err)
}

func (a *app) run(ctx context.Context, argv []string) error {
	root := a.cli()
	args, err := arrange(root, argv[1:])
	if err != nil {
		return err
	}
	return root.RunContext(ctx, append([]string{root.Name}, args...))
}

// cli is the table of commands. Order is that of help.
func (a *app) cli() *cli.App {
	root := &cli.App{
		Name:                      "operon",
		Usage:                     "run pipelines of tasks over lists, and lists of lists",
		UsageText:                 "operon COMMAND [flags] [FILE] …",
		CustomAppHelpTemplate:     appHelp,
		HideHelpCommand:           true,
		HideVersion:               true,
		Suggest:                   true,
		DisableSliceFlagSeparator: true, // -p a=1,2 is one value
		Writer:                    a.stdout,
		ErrWriter:                 a.stderr,
		ExitErrHandler:            func(*cli.Context, error) {}, // main decides
		OnUsageError:              onUsageError,
		Commands: []*cli.Command{
			a.runCommand(), a.planCommand(), a.whyCommand(), a.validateCommand(), a.statusCommand(), a.getCommand(), a.logsCommand(),
			a.pauseCommand(), a.resumeCommand(), a.poolCommand(), a.dropCommand(), a.quitCommand(), a.serveCommand(), a.execCommand(),
			a.lineageCommand(), a.checkCommand(), a.rebuildCommand(), a.cleanCommand(), a.compactCommand(), a.acceptCommand(),
			a.graphCommand(), a.workerTestCommand(), a.initCommand(), a.schemaCommand(), a.completionCommand(), a.completeCommand(),
			a.versionCommand(), a.helpCommand(),
		},
	}
	for _, c := range root.Commands {
		c.HideHelpCommand = true
		c.CustomHelpTemplate = commandHelp
		c.Flags = append(c.Flags, cli.HelpFlag)
		c.OnUsageError = onUsageError
		c.Before = a.begin
		for _, f := range c.Flags {
			if b, ok := f.(*cli.BoolFlag); ok {
				b.DisableDefaultText = true // what is off is off
			}
		}
	}
	return root
}

// begin takes note of what holds for every command.
func (a *app) begin(c *cli.Context) error {
	format := c.String("log-format")
	if format != "" && format != "console" && format != "json" {
		return usagef("--log-format is console or json, not %q", format)
	}
	a.logFormat = format
	return nil
}

func onUsageError(c *cli.Context, err error, _ bool) error {
	return usagef("%v; see operon help %s", err, c.Command.Name)
}

// report tells the user of an error, once.
func (a *app) report(err error) {
	if err == nil || is[told](err) {
		return
	}
	if errs, ok := errors.AsType[spec.Errors](err); ok && a.logFormat != "json" {
		a.printer(a.stderr).Print(diagfmt.SeverityError, errs)
		return
	}
	if a.logFormat == "json" {
		a.logger(a.stderr).Error(err.Error())
		return
	}
	facts := term.Of(a.stderr, a.getenv)
	fmt.Fprintf(a.stderr, "%s %v\n", facts.Paint(term.Red, "operon:"), err)
}

// printer shows findings in pipeline files.
func (a *app) printer(w *os.File) *diagfmt.Printer {
	return &diagfmt.Printer{Out: w, Facts: term.Of(w, a.getenv), Source: sources()}
}

// sources reads files that findings name, each once.
func sources() func(string) []byte {
	read := map[string][]byte{}
	return func(file string) []byte {
		text, known := read[file]
		if !known {
			text, _ = os.ReadFile(file) // without it there is no snippet
			read[file] = text
		}
		return text
	}
}

// say writes a line for the user to standard error.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.stderr, "operon: "+format+"\n", args...)
}

// results is standard output as a command's results go to it.
func (a *app) results() io.Writer { return reader{a.stdout} }
