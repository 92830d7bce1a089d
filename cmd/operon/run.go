package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"operon/cmd/operon/internal/diagfmt"
	"operon/cmd/operon/internal/live"
	"operon/cmd/operon/internal/term"
	"operon/engine"
	"operon/engine/control"
	"operon/spec"
)

func (a *app) runCommand() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "run a pipeline, or go on with it",
		ArgsUsage: "[FILE]",
		Description: "Runs what has not been done yet, or has changed. Ctrl-C lets running jobs finish and\n" +
			"stops, a second one kills them; the next run goes on from there.",
		Flags: append(serverFlags(),
			&cli.StringSliceFlag{Name: "p", Usage: "set a param: `NAME=VALUE`; may be repeated"},
			&cli.StringFlag{Name: "params", Usage: "read params from a YAML or JSON `FILE`"},
			&cli.IntFlag{Name: "j", Aliases: []string{"jobs"}, Usage: "run `N` jobs at once over all tasks", DefaultText: "number of CPUs"},
			&cli.IntFlag{Name: "workers", Usage: "share the jobs among `N` workers; results do not depend on it", DefaultText: "1"},
			&cli.BoolFlag{Name: "keep-going", Aliases: []string{"k"}, Usage: "when a job fails, go on with what does not need it"},
			&cli.Int64Flag{Name: "max-failures", Usage: "go on as --keep-going does until `N` jobs have failed, holes too", DefaultText: "any number"},
			&cli.BoolFlag{Name: "retry-holes", Usage: "try the jobs again that are holes, and run what comes out different by that"},
			&cli.StringSliceFlag{Name: "only", Usage: "run only these coordinates: `AT` dim=index or dim=@label, such as doc=17,doc=@x; may be repeated"},
			&cli.StringFlag{Name: "sample", Usage: "run only the first `N` of each list that a root makes, or dim=N: of that dimension"},
			&cli.StringFlag{Name: "cpus", Usage: "let jobs take `N` CPUs together, by what their tasks say of cpus", DefaultText: "the machine's"},
			&cli.StringFlag{Name: "mem", Usage: "let jobs take `SIZE` of memory together, by what their tasks say of mem", DefaultText: "the machine's"},
			&cli.IntFlag{Name: "gpus", Usage: "let jobs take `N` GPUs together, by what their tasks say of gpus", DefaultText: "the machine's"},
			&cli.StringSliceFlag{Name: "until", Usage: "run `TASK` and what it needs, nothing else; may be repeated"},
			&cli.BoolFlag{Name: "fresh", Usage: "ignore everything that is there, and start over"},
			&cli.StringSliceFlag{Name: "redo", Usage: "run `TASK` again, and what hangs on it where its results differ; may be repeated, or a comma list"},
			&cli.BoolFlag{Name: "redo-inconsistent", Usage: "look at all results first, and run those again that are damaged"},
			&cli.BoolFlag{Name: "rebuild", Usage: "first make the metadata again from the data: operon rebuild"},
			&cli.StringSliceFlag{Name: "skip", Usage: "with --rebuild, throw away the results of `TASK` and of all that hangs on it"},
			&cli.BoolFlag{Name: "n", Aliases: []string{"dry-run"}, Usage: "say what would run and why, and run nothing: operon plan"},
			&cli.StringFlag{Name: "memo-limit", Usage: "after a complete run, keep `SIZE` of results of replaced tasks, the newest; 0: none", DefaultText: "all, until operon clean"},
			&cli.BoolFlag{Name: "adopt", Usage: "take over the state of a pipeline file that was moved"},
			stateFlag(),
			&cli.StringFlag{Name: "ui", Value: "auto", Usage: "show the run as `MODE`: auto, plain, json or quiet"},
			jsonFlag("write the final summary as one line of JSON to standard output"),
			&cli.StringFlag{Name: "max-output", Usage: "fail a job that writes more than `SIZE`, such as 64M", DefaultText: "256M"},
			&cli.StringFlag{Name: "log-limit", Usage: "keep `SIZE` of a job's standard error, head and tail", DefaultText: "16M"},
			logFormatFlag(),
		),
		Action: a.runAction,
	}
}

// job is one run as it was asked for.
type job struct {
	target   target
	pipeline *spec.Pipeline
	options  engine.Options
	mode     live.Mode
	json     bool
	there    *submission // nil: it runs here
}

func (a *app) runAction(c *cli.Context) error {
	if c.Bool("n") {
		return a.planAction(c)
	}
	j, err := a.job(c)
	if err != nil {
		return err
	}
	run := a.runJob
	if j.there != nil {
		run = a.runThere
	}
	summary, err := run(c.Context, j)
	if summary == nil {
		return err
	}
	a.tell(j, summary)
	if err != nil {
		return err
	}
	if j.json {
		if err := writeJSON(a.results(), live.DocumentOf(summary, j.target.execCommand)); err != nil {
			return err
		}
	}
	switch {
	case summary.Failed > 0 || !summary.Asked:
		if err := a.stops.heard(); err != nil {
			return told{err}
		}
		return told{errUnfinished}
	}
	return nil
}

// job reads the command line and loads the pipeline.
func (a *app) job(c *cli.Context) (*job, error) {
	j := &job{json: c.Bool("json")}
	var err error
	if j.mode, err = a.mode(c.String("ui")); err != nil {
		return nil, err
	}
	arg, err := atMostFile(c)
	if err != nil {
		return nil, err
	}
	file, err := pipelineFile(arg)
	if err != nil {
		return nil, here(err)
	}
	params, err := readParams(c.StringSlice("p"))
	if err != nil {
		return nil, err
	}
	load := engine.LoadOptions{Params: params, ParamsFile: c.String("params"), LookupEnv: a.lookupEnv, State: c.String("state"), Remember: !c.Bool("fresh")}
	if j.options, err = runOptions(c, file); err != nil {
		return nil, err
	}
	j.target = target{given: arg, file: file, asked: c.String("state"), server: c.String("server"), tokenFile: c.String("token-file")}
	if j.target.server != "" {
		if j.there, j.pipeline, err = a.submission(c, file, load); err == nil {
			j.there.want(j.options)
		}
		return j, err
	}
	if j.pipeline, err = engine.LoadFile(file, load); err != nil {
		return nil, err
	}
	if j.target.state, err = engine.StateDirOf(j.pipeline, j.options); err != nil {
		return nil, err
	}
	j.options.Socket = control.SocketPath(j.target.state)
	j.options.Hook = a.hook
	return j, nil
}

// maxWorkers is how many workers there may be: each has slots of its own.
const maxWorkers = 256

func runOptions(c *cli.Context, file string) (engine.Options, error) {
	o := engine.Options{
		Dir: filepath.Dir(file), State: c.String("state"), Jobs: c.Int("j"),
		KeepGoing: c.Bool("keep-going"), Until: c.StringSlice("until"), Fresh: c.Bool("fresh"), Adopt: c.Bool("adopt"),
		Redo: listed(c.StringSlice("redo")), RedoInconsistent: c.Bool("redo-inconsistent"),
		Rebuild: c.Bool("rebuild"), Skip: listed(c.StringSlice("skip")),
		Build: version(),
	}
	switch {
	case len(o.Skip) > 0 && !o.Rebuild:
		return o, usagef("--skip is part of --rebuild: give both")
	case o.Fresh && (o.Rebuild || o.RedoInconsistent || len(o.Redo) > 0):
		return o, usagef("--fresh starts over; --redo, --redo-inconsistent and --rebuild go on from what is there: choose one")
	}
	if c.IsSet("j") && o.Jobs < 1 {
		return o, usagef("-j is a number of jobs from 1, not %d", o.Jobs)
	}
	if o.Workers = c.Int("workers"); c.IsSet("workers") && (o.Workers < 1 || o.Workers > maxWorkers) {
		return o, usagef("--workers is a number of workers from 1 to %d, not %d", maxWorkers, o.Workers)
	}
	var err error
	if o.MaxOutput, err = size(c.String("max-output")); err != nil {
		return o, usagef("--max-output: %v", err)
	}
	if o.MemoLimit, err = memoLimit(c.String("memo-limit")); err != nil {
		return o, usagef("--memo-limit: %v", err)
	}
	if err := roomOptions(c, &o); err != nil {
		return o, err
	}
	if o.LogLimit, err = size(c.String("log-limit")); err != nil {
		return o, usagef("--log-limit: %v", err)
	}
	return o, nil
}

// here makes an error about usage of a folder without a pipeline file.
func here(err error) error {
	if none, ok := errors.AsType[*nothingHere](err); ok {
		return &usageError{none.Error()}
	}
	return err
}

// readParams reads what -p gave: name=value each.
func readParams(list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range list {
		name, value, ok := strings.Cut(text, "=")
		if !ok || !spec.IsName(name) {
			return nil, usagef("-p %s: want NAME=VALUE", quote(text))
		}
		out[name] = value
	}
	return out, nil
}

func (a *app) mode(ui string) (live.Mode, error) {
	switch ui {
	case "auto":
		switch {
		case a.logFormat == "json":
			return live.ModeJSON, nil
		case term.Of(a.stderr, a.getenv).Live:
			return live.ModeLive, nil
		}
		return live.ModePlain, nil
	case "plain":
		return live.ModePlain, nil
	case "json":
		a.logFormat = "json" // all of standard error is then JSON
		return live.ModeJSON, nil
	case "quiet":
		a.logLevel = zerolog.WarnLevel // no progress, and what goes wrong all the same
		return live.ModeQuiet, nil
	case "tui":
		return "", notYet("--ui tui", "--ui auto shows a line a task")
	}
	return "", usagef("--ui is auto, plain, json or quiet, not %q", ui)
}

// runJob runs the engine and answers others meanwhile. It returns after both
// have ended, and the state directory is free.
func (a *app) runJob(ctx context.Context, j *job) (*engine.Summary, error) {
	a.warn(j)
	facts := term.Of(a.stderr, a.getenv)
	view := live.New(live.Options{
		Mode: j.mode, Out: a.stderr, Facts: facts, Start: time.Now(),
		Size: func() (int, int) { return term.Size(a.stderr) }, Tasks: taskNames(j.pipeline),
	})
	defer view.Close()
	log := a.logger(view)
	j.options.Events, j.options.Logger = view.Event, log
	e, err := engine.New(j.pipeline, j.options)
	if err != nil {
		return nil, err
	}
	finish := a.answer(ctx, e, j, log.Warn)
	quit := a.graceful(ctx, e, view)
	summary, err := e.Run(ctx)
	quit()
	finish()
	if closeErr := e.Close(); closeErr != nil {
		err = errors.Join(err, closeErr)
	}
	return summary, err
}

// answer opens the socket and serves it. What it returns ends that. A run
// without a socket is a run nevertheless.
func (a *app) answer(ctx context.Context, e *engine.Engine, j *job, warn func(string, ...any)) (finish func()) {
	end, err := control.Answer(ctx, e.StateDir(), e)
	if err != nil {
		warn("nobody can ask this run how it stands: " + err.Error())
		return func() {}
	}
	return func() {
		if err := end(); err != nil {
			warn("nobody could ask this run to its end how it stands: " + err.Error())
		}
	}
}

// graceful makes the first signal let running jobs finish. What it returns ends
// that.
func (a *app) graceful(ctx context.Context, e *engine.Engine, view *live.View) (end func()) {
	quitting, stop := context.WithCancel(ctx)
	var asked sync.WaitGroup
	quit := func() {
		asked.Go(func() {
			view.Event(engine.Event{Time: time.Now(), Kind: engine.EventNote, Message: "stopping: running jobs finish; once more kills them"})
			e.Quit(quitting, false) // an engine that has ended needs no quitting
		})
	}
	if !a.stops.instead(quit) {
		quit()
	}
	return func() {
		a.stops.instead(nil)
		stop()
		asked.Wait()
	}
}

// warn shows what is likely not meant in the pipeline file.
func (a *app) warn(j *job) {
	switch warnings := j.pipeline.Warnings; {
	case len(warnings) == 0 || j.mode == live.ModeQuiet:
	case a.logFormat == "json":
		log := a.logger(a.stderr)
		for _, w := range warnings {
			log.Warn(w.Error())
		}
	default:
		a.printer(a.stderr).Print(diagfmt.SeverityWarning, warnings)
	}
}

// tell writes the summary for a person.
func (a *app) tell(j *job, s *engine.Summary) {
	if j.mode == live.ModeJSON {
		return // its events have told
	}
	var gets []string
	for _, entity := range finals(j.pipeline) {
		gets = append(gets, j.target.command("get", entity))
	}
	for n := range s.Failures {
		if sample := &s.Failures[n].Sample; sample.Log != "" {
			if _, err := os.Stat(sample.Log); err != nil {
				sample.Log = "" // a worker that said nothing but its answers
			}
		}
	}
	facts := term.Of(a.stderr, a.getenv)
	columns := 0
	if facts.Live {
		columns, _ = term.Size(a.stderr)
	}
	live.WriteSummary(a.stderr, live.Ending{
		Summary: s, Facts: facts, Columns: columns, Quiet: j.mode == live.ModeQuiet,
		Get: gets, Again: j.target.command("run"), Retry: j.target.command("run", "--retry-holes"), Exec: j.target.execCommand,
	})
}

func taskNames(p *spec.Pipeline) []string {
	var out []string
	for _, t := range p.Tasks {
		out = append(out, t.Name)
	}
	return out
}

// finals are the entities that no task takes: what a run is for.
func finals(p *spec.Pipeline) []string {
	taken := map[*spec.Entity]bool{}
	for _, t := range p.Tasks {
		for _, in := range t.In {
			taken[in.Entity] = true
		}
	}
	var out []string
	for _, t := range p.Tasks {
		if !taken[t.Out] {
			out = append(out, t.Out.Name)
		}
	}
	return out
}

func writeJSON(w interface{ Write([]byte) (int, error) }, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
