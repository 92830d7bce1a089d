package control

import (
	"context"
	"errors"
	"net"
	"sync"

	"operon/engine/serve"
)

// ServeHost answers on ln from a host until ctx ends, as Serve does from an
// engine. Sessions end with ctx: a caller lets the host's runs end first.
func ServeHost(ctx context.Context, ln net.Listener, host *serve.Host) error {
	return serveOn(ctx, ln, core{host: host})
}

// Answer opens the socket of a state directory, which the caller must hold, and
// answers there from srv, also after ctx has ended, until finish is called. What
// finish returns is Serve's error.
func Answer(ctx context.Context, stateDir string, srv Server) (finish func() error, err error) {
	ln, _, err := Listen(stateDir)
	if err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // a run that is being killed still answers
	var served sync.WaitGroup
	var failed error
	served.Go(func() { failed = Serve(serving, ln, srv) })
	return func() error {
		stop()
		served.Wait()
		return failed
	}, nil
}

// AnswerEngine is Answer for an engine of a host.
func AnswerEngine(ctx context.Context, e serve.Engine) (finish func() error, err error) {
	finish, err = Answer(ctx, e.StateDir(), e)
	if err != nil {
		return nil, errors.Join(errors.New("open the engine's socket"), err)
	}
	return finish, nil
}
