package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"operon/cmd/operon/internal/term"
	"operon/engine"
)

// watchEvery is how often --watch looks.
const watchEvery = time.Second

func (a *app) statusCommand() *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "say where a run stands",
		ArgsUsage: "[FILE]",
		Flags: append(serverFlags(),
			jsonFlag("write one line of JSON"),
			&cli.BoolFlag{Name: "watch", Usage: "go on until the run ends, whenever something changes"},
			stateFlag(),
			logFormatFlag(),
		),
		Action: a.statusAction,
	}
}

func (a *app) statusAction(c *cli.Context) error {
	file, err := atMostFile(c)
	if err != nil {
		return err
	}
	t, err := find(c, file)
	if err != nil {
		return err
	}
	if c.Bool("watch") {
		return a.watchStatus(c.Context, t, c.Bool("json"))
	}
	s, err := t.status(c.Context)
	if err != nil {
		return err
	}
	if err := a.writeStatus(s, c.Bool("json")); err != nil || c.Bool("json") || t.server != "" {
		return err
	}
	return a.writeAccepted(t)
}

// status asks where the run stands. That it never ran is an answer too.
func (t target) status(ctx context.Context) (*engine.Status, error) {
	src, err := t.open(ctx)
	if errors.Is(err, engine.ErrNoState) && t.file != "" {
		return neverRun(t.file)
	}
	if err != nil {
		return nil, err
	}
	s, err := src.Status(ctx)
	if errors.Is(err, engine.ErrNoState) && t.file != "" {
		return neverRun(t.file)
	}
	return s, errors.Join(err, src.close())
}

// neverRun is the status of a pipeline that nobody has run: a ticket a task.
func neverRun(file string) (*engine.Status, error) {
	p, err := engine.LoadFile(file, engine.LoadOptions{})
	if err != nil {
		return nil, err
	}
	s := &engine.Status{Pipeline: p.Name, State: engine.StateNone, Tasks: []engine.TaskStatus{}}
	for _, t := range p.Tasks {
		s.Tasks = append(s.Tasks, engine.TaskStatus{Task: t.Name, DataflowState: engine.DataflowWaiting, Waiting: 1})
	}
	return s, nil
}

// watchStatus writes the status whenever it has changed, until the run ends.
func (a *app) watchStatus(ctx context.Context, t target, asJSON bool) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	facts := term.Of(a.stdout, a.getenv)
	last, height := "", 0
	for {
		s, err := t.status(ctx)
		if err != nil {
			return err
		}
		var b strings.Builder
		if err := formatStatus(&b, s, asJSON, facts); err != nil {
			return err
		}
		if text := b.String(); text != last {
			if facts.Live && !asJSON && height > 0 {
				text = fmt.Sprintf("\x1b[%dA\r\x1b[J", height) + text
			}
			if _, err := io.WriteString(a.results(), text); err != nil {
				return err
			}
			last, height = b.String(), strings.Count(b.String(), "\n")
		}
		if s.State != engine.StateRunning && s.State != engine.StatePaused {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (a *app) writeStatus(s *engine.Status, asJSON bool) error {
	return formatStatus(a.results(), s, asJSON, term.Of(a.stdout, a.getenv))
}

func formatStatus(w io.Writer, s *engine.Status, asJSON bool, facts term.Facts) error {
	if asJSON {
		if s.Tasks == nil {
			s.Tasks = []engine.TaskStatus{}
		}
		return writeJSON(w, s)
	}
	head := facts.Paint(term.Bold, s.Pipeline) + ": " + string(s.State)
	if s.Run != "" {
		head += facts.Paint(term.Dim, "  run "+s.Run)
	}
	if _, err := fmt.Fprintln(w, head); err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "waiting\tqueued\trunning\tdone\treused\tfailed\tblocked\tholes\t  task")
	for _, t := range s.Tasks {
		state := string(t.DataflowState)
		if t.Paused {
			state += ", paused"
		}
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t  %s (%s)\n",
			t.Waiting, t.Queued, t.Running, t.Done, t.Reused, t.Failed, t.Blocked, t.Holes, t.Task, state)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return formatFrozen(w, s)
}

// formatFrozen says what is kept from going, and by which worker; and which
// workers do not answer.
func formatFrozen(w io.Writer, s *engine.Status) error {
	for _, f := range s.Frozen {
		var by []string
		for _, worker := range f.Pins {
			by = append(by, fmt.Sprintf("worker %d", worker))
		}
		text := fmt.Sprintf("frozen for %.1f s: %s (dataflow %d, %s)", f.For, f.Task, f.Dataflow, f.Outcome)
		if len(by) > 0 {
			text += ", pinned by " + strings.Join(by, ", ")
		}
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	for _, h := range s.Workers {
		if !h.Stalled {
			continue
		}
		if _, err := fmt.Fprintf(w, "worker %d has taken no command for %.1f s: it gets no more jobs\n", h.Worker, h.Behind); err != nil {
			return err
		}
	}
	return nil
}
