package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/urfave/cli/v2"

	"operon/cmd/operon/internal/term"
	"operon/engine"
)

func (a *app) workerTestCommand() *cli.Command {
	return &cli.Command{
		Name:      "worker-test",
		Usage:     "give a worker a few jobs, and show what passes",
		ArgsUsage: "FILE TASK",
		Description: "Each --args is one job; an argument that is missing is \"example\". Requests are shown with >,\n" +
			"answers with <, and what the worker prints to standard error with !. Nothing is stored.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "args", Usage: "one job: its arguments as a JSON `OBJECT`, such as {\"word\": \"x\"}; may be repeated"},
			&cli.IntFlag{Name: "jobs", Usage: "how many jobs where there is no --args: `N`", Value: 3},
			&cli.StringSliceFlag{Name: "p", Usage: "set a param: `NAME=VALUE`; may be repeated"},
			&cli.StringFlag{Name: "params", Usage: "read params from a YAML or JSON `FILE`"},
			logFormatFlag(),
		},
		Action: a.workerTestAction,
	}
}

func (a *app) workerTestAction(c *cli.Context) error {
	file, names := fileFirst(c.Args().Slice())
	if len(names) != 1 {
		return usagef("worker-test wants a FILE and a TASK")
	}
	args, err := trialArgs(c.StringSlice("args"), c.Int("jobs"))
	if err != nil {
		return err
	}
	params, err := readParams(c.StringSlice("p"))
	if err != nil {
		return err
	}
	t, err := find(c, file)
	if err != nil {
		return err
	}
	p, err := engine.LoadFile(t.file, engine.LoadOptions{Params: params, ParamsFile: c.String("params"), LookupEnv: a.lookupEnv})
	if err != nil {
		return err
	}
	show := &traffic{w: bufio.NewWriter(a.results()), paint: term.Of(a.stdout, a.getenv)}
	results, err := engine.Try(c.Context, p, engine.Options{Dir: t.dir(), Logger: a.logger(a.stderr)}, engine.Trial{Task: names[0], Args: args, Traffic: show.line})
	if err != nil {
		return err
	}
	failed := 0
	for i, r := range results {
		failed += show.result(i, r)
	}
	if err := show.w.Flush(); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d jobs failed", failed, len(results))
	}
	return nil
}

// trialArgs reads the arguments of each job.
func trialArgs(texts []string, n int) ([]map[string]json.RawMessage, error) {
	if len(texts) == 0 {
		if n < 1 {
			return nil, usagef("worker-test: --jobs %d is no number of jobs", n)
		}
		return make([]map[string]json.RawMessage, n), nil
	}
	var out []map[string]json.RawMessage
	for _, text := range texts {
		var args map[string]json.RawMessage
		d := json.NewDecoder(bytes.NewReader([]byte(text)))
		if err := d.Decode(&args); err != nil {
			return nil, usagef("worker-test: --args %s is no JSON object: %v", text, err)
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return nil, usagef("worker-test: --args %s is more than one JSON object", text)
		}
		for name, arg := range args {
			var compact bytes.Buffer
			if err := json.Compact(&compact, arg); err != nil {
				return nil, usagef("worker-test: --args %s: %v", text, err)
			}
			args[name] = compact.Bytes()
		}
		out = append(out, args)
	}
	return out, nil
}

// traffic shows what passes between the engine and a worker.
type traffic struct {
	mu    sync.Mutex
	w     *bufio.Writer
	paint term.Facts
}

// line shows lines that passed.
func (t *traffic) line(what engine.Traffic, text []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mark, colour := ">", term.Dim
	switch what {
	case engine.TrafficAnswer:
		mark, colour = "<", term.Bold
	case engine.TrafficError:
		mark, colour = "!", term.Yellow
	}
	for line := range bytes.Lines(text) {
		fmt.Fprintf(t.w, "%s %s\n", t.paint.Paint(colour, mark), bytes.TrimRight(line, "\n"))
	}
	t.w.Flush()
}

// result shows what came of job i, and returns 1 if it failed.
func (t *traffic) result(i int, r engine.TrialResult) int {
	switch {
	case !r.Run:
		fmt.Fprintf(t.w, "job %d: not run\n", i+1)
	case r.Failure != nil:
		fmt.Fprintf(t.w, "job %d: %s: %s\n", i+1, t.paint.Paint(term.Red, string(r.Failure.Kind)), r.Failure.Message)
		return 1
	default:
		fmt.Fprintf(t.w, "job %d:", i+1)
		for _, v := range r.Values {
			fmt.Fprintf(t.w, " %s", v)
		}
		fmt.Fprintf(t.w, "\n")
	}
	return 0
}
