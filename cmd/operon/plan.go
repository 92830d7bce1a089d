package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"operon/engine"
	"operon/engine/control"
)

func (a *app) planCommand() *cli.Command {
	return &cli.Command{
		Name:      "plan",
		Usage:     "say what a run would do, and why",
		ArgsUsage: "[FILE]",
		Description: "Says for each task how many jobs would run, how many results are there already, and the\n" +
			"first cause with the chain to its root. Runs no body and changes nothing.",
		Flags: append(serverFlags(),
			&cli.StringSliceFlag{Name: "p", Usage: "set a param: `NAME=VALUE`; may be repeated"},
			&cli.StringFlag{Name: "params", Usage: "read params from a YAML or JSON `FILE`"},
			stateFlag(),
			jsonFlag("write one line of JSON"),
			logFormatFlag(),
		),
		Action: a.planAction,
	}
}

func (a *app) planAction(c *cli.Context) error {
	arg, err := atMostFile(c)
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
	return a.plan(c, file, params)
}

// plan writes the plan of a run, for plan and for run -n.
func (a *app) plan(c *cli.Context, file string, params map[string]string) error {
	p, err := engine.LoadFile(file, engine.LoadOptions{
		Params: params, ParamsFile: c.String("params"), LookupEnv: a.lookupEnv, State: c.String("state"), Remember: true,
	})
	if err != nil {
		return err
	}
	redo := listed(c.StringSlice("redo"))
	if c.String("server") != "" {
		return a.planThere(c, file, p.Name, params, redo)
	}
	plan, err := engine.PlanRun(c.Context, p, engine.Options{Dir: filepath.Dir(file), State: c.String("state"), Redo: redo})
	if used, ok := errors.AsType[*engine.InUseError](err); ok && used.Socket != "" {
		plan, err = planOfEngine(c, used, file, params, redo)
	}
	if err != nil {
		return err
	}
	return a.writePlan(c, plan)
}

func (a *app) writePlan(c *cli.Context, plan *engine.Plan) error {
	if c.Bool("json") {
		return writeJSON(a.results(), plan)
	}
	return formatPlan(a.results(), plan)
}

// planThere asks a server.
func (a *app) planThere(c *cli.Context, file, name string, params map[string]string, redo []string) error {
	host, err := a.dialServer(c.Context, c, file)
	if err != nil {
		return err
	}
	q, err := planQuery(c, file, params, redo)
	if err != nil {
		return err
	}
	plan, err := host.Pipeline(name).Plan(c.Context, q)
	if err != nil {
		return err
	}
	return a.writePlan(c, plan)
}

// planOfEngine asks the engine that holds the state.
func planOfEngine(c *cli.Context, used *engine.InUseError, file string, params map[string]string, redo []string) (*engine.Plan, error) {
	client, err := control.Dial(used.Socket)
	if err != nil {
		return nil, fmt.Errorf("%w, which does not answer (%v)", used, err)
	}
	q, err := planQuery(c, file, params, redo)
	if err != nil {
		return nil, err
	}
	return client.Plan(c.Context, q)
}

// planQuery names files as another process finds them.
func planQuery(c *cli.Context, file string, params map[string]string, redo []string) (q engine.PlanQuery, err error) {
	q = engine.PlanQuery{Params: params, Redo: redo}
	if q.File, err = filepath.Abs(file); err != nil {
		return q, err
	}
	if q.ParamsFile = c.String("params"); q.ParamsFile != "" {
		q.ParamsFile, err = filepath.Abs(q.ParamsFile)
	}
	return q, err
}

// formatPlan writes a plan for a person: counts first, then the cause.
func formatPlan(w io.Writer, p *engine.Plan) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "run\treuse\t  task")
	for _, t := range p.Tasks {
		run, reuse := "? ("+t.Size+")", ""
		if t.Jobs != nil {
			run, reuse = fmt.Sprint(t.Jobs.Run), fmt.Sprint(t.Jobs.Reuse)
			if t.AtMost {
				run = "≤ " + run
			}
		}
		what := string(t.Action)
		if t.Reason != "" {
			what += ": " + t.Reason
		}
		fmt.Fprintf(table, "%s\t%s\t  %s  %s\n", run, reuse, t.Task, what)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	run, known := p.Run()
	if !known {
		_, err := fmt.Fprintf(w, "%d jobs would run, and more whose number is known only then\n", run)
		return err
	}
	most := ""
	if slices.ContainsFunc(p.Tasks, func(t engine.TaskPlan) bool { return t.AtMost }) {
		most = "at most "
	}
	_, err := fmt.Fprintf(w, "%s%d jobs would run\n", most, run)
	return err
}
