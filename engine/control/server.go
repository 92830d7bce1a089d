package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"operon/engine/serve"
)

// Server is what Serve needs of an engine; *engine.Engine is one.
type Server interface{ serve.Asked }

// grace is how long an answer that is under way may go on after Serve was told
// to stop: enough for a status, not for a client that reads slowly.
const grace = 2 * time.Second

// Serve answers on ln from srv until ctx ends. It closes ln, and returns after
// all its connections have ended: idle ones at once, answers under way within
// two seconds. The error is ln's, nil after ctx has ended.
func Serve(ctx context.Context, ln net.Listener, srv Server) error {
	return serveOn(ctx, ln, core{one: srv})
}

func serveOn(ctx context.Context, ln net.Listener, core core) error {
	s := &server{core: core, slots: make(chan struct{}, MaxConns)}
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
	core  core
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
	newAnswer(patient{conn}).end(ErrBusy)
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
		out := newAnswer(patient{conn})
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
		if req.Method == methodSession && req.V == Version && s.core.host != nil {
			talkOn(ctx, s.core.host, conn, in)
			return
		}
		if out.end(s.core.answer(work, req, out)) != nil {
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
