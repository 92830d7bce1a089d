package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"operon/cmd/operon/internal/live"
	"operon/cmd/operon/internal/term"
	"operon/engine"
	"operon/engine/control"
	"operon/engine/serve"
	"operon/spec"
)

// ownFlags of run are the server's own, or of a run without one.
var ownFlags = []string{"state", "j", "workers", "cpus", "mem", "gpus", "memo-limit", "max-output", "log-limit", "n"}

// dashed is a flag as it is written.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// submission is a run that a server is to make.
type submission struct {
	host     *control.HostClient
	instance serve.Instance
}

// submission makes what is submitted of a run as it was asked for.
func (a *app) submission(c *cli.Context, file string, load engine.LoadOptions) (*submission, *spec.Pipeline, error) {
	for _, name := range ownFlags {
		if c.IsSet(name) && !(name == "state" && c.String(name) == "") {
			return nil, nil, usagef("%s is no matter of a client's: leave it out with --server, or give it to operon serve", dashed(name))
		}
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return nil, nil, err
	}
	env := map[string]string{}
	load.LookupEnv = func(name string) (string, bool) {
		v, ok := a.lookupEnv(name)
		if ok {
			env[name] = v
		}
		return v, ok
	}
	host, err := a.dialServer(c.Context, c, file)
	if err != nil {
		return nil, nil, err
	}
	load.Last = func(pipeline string) map[string]string {
		st, err := host.Pipeline(pipeline).Status(c.Context)
		if err != nil {
			return nil // none was there, or the submission will say what is wrong
		}
		return st.Params
	}
	p, err := engine.LoadFile(abs, load)
	if err != nil {
		return nil, nil, err
	}
	s := &submission{host: host, instance: serve.Instance{File: abs, Source: string(p.Source), Params: map[string]string{}, Env: env}}
	for _, param := range p.Params {
		if param.Given {
			s.instance.Params[param.Name] = param.Text()
		}
	}
	return s, p, nil
}

// want takes over what the run is asked for.
func (s *submission) want(o engine.Options) {
	s.instance.Wanted = serve.Wanted{
		Until: o.Until, KeepGoing: o.KeepGoing, MaxFailures: o.MaxFailures, Redo: o.Redo, Only: o.Only, Sample: o.Sample,
		RetryHoles: o.RetryHoles, Fresh: o.Fresh, Rebuild: o.Rebuild, Skip: o.Skip, RedoInconsistent: o.RedoInconsistent, Adopt: o.Adopt,
	}
}

// errDetached is a client that went away and left its run alone.
var errDetached = errors.New("detached")

// runThere has the server run the job, and shows it as if it ran here. The first
// signal leaves the run to the server.
func (a *app) runThere(ctx context.Context, j *job) (*engine.Summary, error) {
	a.warn(j)
	view := live.New(live.Options{
		Mode: j.mode, Out: a.stderr, Facts: term.Of(a.stderr, a.getenv), Start: time.Now(),
		Size: func() (int, int) { return term.Size(a.stderr) }, Tasks: taskNames(j.pipeline),
	})
	defer view.Close()
	hearing, detach := context.WithCancelCause(ctx)
	defer detach(nil)
	if !a.stops.instead(func() { detach(errDetached) }) {
		detach(errDetached)
	}
	defer a.stops.instead(nil)
	note := func(text string) {
		view.Event(engine.Event{Time: time.Now(), Kind: engine.EventNote, Message: text})
	}
	summary, err := j.there.host.Submit(hearing, j.pipeline, j.there.instance, nil, control.Hear{
		Event:  view.Event,
		Gap:    func(n int64) { note(count(int(n), "event") + " left out: this client was too slow") },
		Answer: func(an *serve.Answer) { noteReconciled(note, an.Reconciled) },
	})
	if errors.Is(err, errDetached) {
		note("detached: the run goes on; to see it again: " + j.target.command("run") + "; to end it: " + j.target.command("quit"))
		return nil, told{a.stops.heard()}
	}
	return summary, err
}

// noteReconciled says what became of the run that was on.
func noteReconciled(note func(string), r *engine.Reconciled) {
	if r == nil {
		return
	}
	note("took over the run: " + count(r.Kept, "task") + " kept, " + count(r.Replaced, "task") + " replaced, " +
		count(r.Created, "task") + " created, " + count(r.Dropped, "task") + " dropped")
	for _, d := range r.Tasks {
		if d.Reason != "" {
			note(d.Action + " " + d.Task + ": " + d.Reason)
		}
	}
}
