package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"operon/engine"
)

func (a *app) acceptCommand() *cli.Command {
	return &cli.Command{
		Name:      "accept",
		Usage:     "take a task's results as they are, after an edit that does not change them",
		ArgsUsage: "[FILE] TASK",
		Description: "An edit of a script runs its task again, also one of a comment. Accept says that what the\n" +
			"task made is what it would make now: neither it nor what needs it runs again. What it makes\n" +
			"(dimensions, entity) and what it needs must be as they were. Who accepted what, and when,\n" +
			"is kept, and status says so.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "p", Usage: "set a param, as for the run: `NAME=VALUE`; may be repeated"},
			&cli.StringFlag{Name: "params", Usage: "read params from a YAML or JSON `FILE`"},
			jsonFlag("write what was accepted as one line of JSON"),
			stateFlag(),
			logFormatFlag(),
		},
		Action: a.acceptAction,
	}
}

func (a *app) acceptAction(c *cli.Context) error {
	arg, task, err := fileAndName(c, "TASK")
	if err != nil {
		return err
	}
	file, err := pipelineFile(arg)
	if err != nil {
		return here(err)
	}
	params, err := readParams(c.StringSlice("p"))
	if err != nil {
		return err
	}
	p, err := engine.LoadFile(file, engine.LoadOptions{
		Params: params, ParamsFile: c.String("params"), LookupEnv: a.lookupEnv, State: c.String("state"), Remember: true,
	})
	if err != nil {
		return err
	}
	rep, err := engine.Accept(c.Context, p, engine.AcceptOptions{
		Dir: filepath.Dir(file), State: c.String("state"), Task: task, Build: version(), Logger: a.logger(a.stderr), Hook: a.hook,
	})
	if errors.Is(err, engine.ErrNoState) {
		return fmt.Errorf("%w; there is nothing to accept", err)
	}
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return writeJSON(a.results(), rep)
	}
	text := fmt.Sprintf("accepted %s of %s as they are (%s)", count(int(rep.Jobs), "result"), rep.Task, rep.Why)
	if rep.Unchanged {
		text = fmt.Sprintf("nothing to accept: %s is as it was when it ran", rep.Task)
	}
	_, err = fmt.Fprintln(a.results(), text)
	return err
}

// writeAccepted says which tasks have results that somebody accepted. While an
// engine holds the state it is left out.
func (a *app) writeAccepted(t target) error {
	s, err := engine.OpenState(t.state)
	if is[*engine.InUseError](err) || errors.Is(err, engine.ErrNoState) {
		return nil
	}
	if err != nil {
		return err
	}
	list, err := s.Accepted()
	for _, r := range list {
		if err == nil {
			_, err = fmt.Fprintf(a.results(), "accepted %s as it was on %s by %s@%s: %s\n", r.Task, r.Time.Local().Format(time.DateTime), r.User, r.Host, r.Why)
		}
	}
	return errors.Join(err, s.Close())
}
