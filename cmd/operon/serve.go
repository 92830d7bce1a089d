package main

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/urfave/cli/v2"

	"operon/engine"
	"operon/engine/control"
	"operon/engine/serve"
)

func (a *app) serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "run pipelines for clients that come and go",
		Description: "Clients submit with operon run FILE --server; a run goes on when they leave, and who\n" +
			"submits an edited file keeps what is unchanged running. The first Ctrl-C lets running jobs\n" +
			"finish and stops, a second one kills them; the next server, or operon run, goes on from there.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "root", Usage: "keep the states below `DIR`", Value: ".operon"},
			&cli.StringFlag{Name: "listen", Usage: "also answer HTTP at `ADDR`, such as 127.0.0.1:7070, to who has the token"},
			&cli.BoolFlag{Name: "listen-anyway", Usage: "let ADDR be one that other machines reach, though nothing is encrypted"},
			&cli.IntFlag{Name: "j", Aliases: []string{"jobs"}, Usage: "run `N` jobs at once over all tasks of a pipeline", DefaultText: "number of CPUs"},
			&cli.IntFlag{Name: "workers", Usage: "share the jobs of a pipeline among `N` workers", DefaultText: "1"},
			&cli.StringFlag{Name: "cpus", Usage: "let jobs of a pipeline take `N` CPUs together", DefaultText: "the machine's"},
			&cli.StringFlag{Name: "mem", Usage: "let jobs of a pipeline take `SIZE` of memory together", DefaultText: "the machine's"},
			&cli.IntFlag{Name: "gpus", Usage: "let jobs of a pipeline take `N` GPUs together", DefaultText: "the machine's"},
			&cli.StringFlag{Name: "memo-limit", Usage: "after a complete run, keep `SIZE` of results of replaced tasks, the newest; 0: none", DefaultText: "all, until operon clean"},
			&cli.StringFlag{Name: "max-output", Usage: "fail a job that writes more than `SIZE`, such as 64M", DefaultText: "256M"},
			&cli.StringFlag{Name: "log-limit", Usage: "keep `SIZE` of a job's standard error, head and tail", DefaultText: "16M"},
			&cli.DurationFlag{Name: "stop-without-client", Usage: "end a run gracefully that has had no client for a `TIME`, such as 10m", DefaultText: "never"},
			logFormatFlag(),
		},
		Action: a.serveAction,
	}
}

func (a *app) serveAction(c *cli.Context) error {
	if c.NArg() > 0 {
		return usagef("serve takes no FILE: clients bring theirs, with operon run FILE --server")
	}
	o, err := runOptions(c, c.String("root"))
	if err != nil {
		return err
	}
	if c.Duration("stop-without-client") < 0 {
		return usagef("--stop-without-client is a time above 0, not %s", c.Duration("stop-without-client"))
	}
	o = engine.Options{Jobs: o.Jobs, Workers: o.Workers, CPUs: o.CPUs, Mem: o.Mem, GPUs: o.GPUs, MemoLimit: o.MemoLimit, MaxOutput: o.MaxOutput, LogLimit: o.LogLimit, Build: o.Build, Hook: a.hook}
	host, err := serve.New(c.Context, serve.Options{
		Root: c.String("root"), Engine: o, Grace: c.Duration("stop-without-client"), Logger: a.logger(a.stderr),
		Answer: control.AnswerEngine, Socket: control.SocketPath,
	})
	if err != nil {
		return err
	}
	err = a.serve(c, host)
	return errors.Join(err, host.Close())
}

// serve answers for the host until a signal comes, and returns when all runs and
// all answers have ended.
func (a *app) serve(c *cli.Context, host *serve.Host) error {
	unix, path, err := control.ListenHost(host.Root())
	if err != nil {
		return &engine.MachineError{Doing: "answer clients", Err: err}
	}
	var web net.Listener
	token := ""
	if addr := c.String("listen"); addr != "" {
		if web, token, err = a.listen(addr, host.Root(), c.Bool("listen-anyway")); err != nil {
			return errors.Join(err, unix.Close())
		}
	}
	stopping := make(chan struct{})
	if !a.stops.instead(sync.OnceFunc(func() { close(stopping) })) {
		close(stopping)
	}
	serving, stop := context.WithCancel(context.WithoutCancel(c.Context)) // clients hear how their runs end
	defer stop()
	var answering sync.WaitGroup
	failed := make(chan error, 2)
	answering.Go(func() { failed <- control.ServeHost(serving, unix, host) })
	if web != nil {
		answering.Go(func() { failed <- control.ServeHTTP(serving, web, host, token, c.Bool("listen-anyway")) })
	}
	a.say("serving %s at %s", host.Root(), path)
	select {
	case <-stopping:
		a.say("stopping: running jobs finish; once more kills them")
	case err = <-failed:
	case <-c.Context.Done():
	}
	closed := host.Close()
	stop()
	answering.Wait()
	a.stops.instead(nil)
	if heard := a.stops.heard(); host.Cut() && heard != nil {
		err = errors.Join(err, told{heard})
	}
	return errors.Join(err, closed)
}

// listen opens the HTTP address and makes the token, which is shown this once.
func (a *app) listen(addr, root string, anyway bool) (net.Listener, string, error) {
	ln, err := control.ListenHTTP(addr, anyway)
	if wrong, ok := errors.AsType[*control.RequestError](err); ok {
		return nil, "", usagef("--listen: %s", wrong.Message)
	}
	if err != nil {
		return nil, "", &engine.MachineError{Doing: "answer HTTP", Err: err}
	}
	token, err := control.NewToken(root)
	if err != nil {
		return nil, "", errors.Join(&engine.MachineError{Doing: "answer HTTP", Err: err}, ln.Close())
	}
	a.say("HTTP at http://%s, token %s (also in %s)", ln.Addr(), token, control.TokenPath(root))
	return ln, token, nil
}
