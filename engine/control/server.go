package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"operon/engine"
)

// Server is what Serve needs of an engine; *engine.Engine is one.
type Server interface {
	engine.View
	Pause(ctx context.Context, tasks []string, cascade bool) error
	Resume(ctx context.Context, tasks []string) error
	Quit(ctx context.Context, force bool) error
	SetPool(ctx context.Context, name string, size int) error
	Plan(ctx context.Context, q engine.PlanQuery) (*engine.Plan, error)
}

// grace is how long an answer that is under way may go on after Serve was told
// to stop: enough for a status, not for a client that reads slowly.
const grace = 2 * time.Second

// Serve answers on ln from srv until ctx ends. It closes ln, and returns after
// all its connections have ended: idle ones at once, answers under way within
// two seconds. The error is ln's, nil after ctx has ended.
func Serve(ctx context.Context, ln net.Listener, srv Server) error {
	s := &server{srv: srv, slots: make(chan struct{}, MaxConns)}
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	err := s.accept(ctx, ln)
	stop()
	ln.Close()
	s.conns.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

type server struct {
	srv   Server
	slots chan struct{}
	conns sync.WaitGroup
}

func (s *server) accept(ctx context.Context, ln net.Listener) error {
	for {
		conn, err := ln.Accept()
		if err != nil {
			var temporary interface{ Temporary() bool }
			if ctx.Err() == nil && errors.As(err, &temporary) && temporary.Temporary() {
				wait(ctx, 50*time.Millisecond) // out of descriptors: the jobs have them
				continue
			}
			return fmt.Errorf("accept on the control socket: %w", err)
		}
		select {
		case s.slots <- struct{}{}:
			s.conns.Go(func() {
				defer func() { <-s.slots }()
				s.serve(ctx, conn)
			})
		default:
			refuse(conn)
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// refuse tells a client that there are too many. The line fits the socket's
// buffer, so this does not block.
func refuse(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(time.Second))
	newAnswer(conn).end(ErrBusy)
	conn.Close()
}

// serve answers one connection's requests until it ends, misbehaves, or ctx
// ends.
func (s *server) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	work, cancel := context.WithCancel(context.WithoutCancel(ctx)) // an answer under way outlives ctx by grace
	defer cancel()
	s.conns.Go(func() { hangUp(ctx, work, cancel, conn) })
	in := newLineReader(conn, MaxRequest)
	for ctx.Err() == nil {
		conn.SetReadDeadline(time.Now().Add(IdleTimeout))
		if ctx.Err() != nil {
			return // the deadline just set may have undone the one that ends us
		}
		line, err := in.next()
		out := newAnswer(conn)
		if errors.Is(err, errLineTooLong) {
			out.end(&RequestError{Message: fmt.Sprintf("a request may have %d bytes", MaxRequest)})
			return
		}
		if err != nil {
			return
		}
		var req request
		if err := json.Unmarshal(line, &req); err != nil {
			out.end(&RequestError{Message: "a request is one JSON object a line: " + err.Error()})
			return
		}
		if out.end(s.answer(work, req, out)) != nil {
			return
		}
	}
}

// hangUp ends a connection after ctx has ended: at once where it waits for a
// request, after grace where it still answers one. It returns when work ends.
func hangUp(ctx, work context.Context, cancel context.CancelFunc, conn net.Conn) {
	select {
	case <-ctx.Done():
	case <-work.Done():
		return
	}
	conn.SetReadDeadline(time.Now())
	wait(work, grace)
	cancel()
	conn.Close()
}

// answer writes all of an answer but its last line.
func (s *server) answer(ctx context.Context, req request, out *answer) error {
	if req.V != Version {
		return &RequestError{Message: fmt.Sprintf("the running engine speaks version %d of the control protocol, the request has %d: use the same operon for both", Version, req.V)}
	}
	switch req.Method {
	case methodHello:
		out.last.V = Version
		return nil
	case methodStatus:
		status, err := s.srv.Status(ctx)
		out.last.Status = status
		return err
	case methodValues:
		return s.values(ctx, engine.Query{Entity: req.Entity, At: req.At, Labels: req.Labels}, out)
	case methodLogs:
		q := engine.LogQuery{Task: req.Task, At: req.At, Labels: req.Labels, Failed: req.Failed}
		return s.srv.Logs(ctx, q, func(l engine.Log) error { return out.line(reply{Log: logOf(l)}) })
	case methodPause:
		return s.srv.Pause(ctx, req.Tasks, req.Cascade)
	case methodResume:
		return s.srv.Resume(ctx, req.Tasks)
	case methodQuit:
		return s.srv.Quit(ctx, req.Force)
	case methodPool:
		return s.srv.SetPool(ctx, req.Name, req.Size)
	case methodPlan:
		return s.plan(ctx, req.Plan, out)
	}
	return &RequestError{Message: fmt.Sprintf("unknown method %q", req.Method)}
}

func (s *server) plan(ctx context.Context, q *engine.PlanQuery, out *answer) error {
	if q == nil {
		return &RequestError{Message: "a plan wants a pipeline file"}
	}
	p, err := s.srv.Plan(ctx, *q)
	if err != nil {
		return err
	}
	out.last.Plan = planOf(p)
	return nil
}

func (s *server) values(ctx context.Context, q engine.Query, out *answer) error {
	dims, err := Dims(ctx, s.srv, q)
	if err != nil {
		return err
	}
	dims = notNil(dims)
	if err := out.line(reply{Dims: &dims}); err != nil {
		return err
	}
	f, err := s.srv.Values(ctx, q, func(it engine.Item) error { return out.line(reply{Item: itemOf(it)}) })
	if err != nil {
		return err
	}
	out.last.Found = foundOf(f)
	return nil
}

var errEnough = errors.New("the first item is enough")

// Dims are the dimensions of the entity that the query names, in canonical
// order, which a reader needs before the first value arrives.
func Dims(ctx context.Context, v engine.View, q engine.Query) ([]string, error) {
	f, err := v.Values(ctx, q, func(engine.Item) error { return errEnough })
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return f.Dims, nil
}
