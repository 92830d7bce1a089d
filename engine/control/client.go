package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"operon/engine"
)

// dialTimeout is how long an engine may take to say hello. It does so outside
// of its loop, so a busy engine is no slower than an idle one.
const dialTimeout = 5 * time.Second

// Client asks a running engine. It holds no connection between calls, and may
// be used from several goroutines.
type Client struct {
	way      way
	pipeline string // of a host; "": the engine's own
}

// way is how requests get to a server.
type way interface {
	// call makes one request, and hands the lines of its answer to fn, the
	// closing one too.
	call(ctx context.Context, req request, fn func(*reply) error) error
	// session makes a submission, and hands all that is said to fn.
	session(ctx context.Context, commands []byte, fn func(*reply) error) error
}

// unixSocket is a server at a Unix socket.
type unixSocket string

var (
	_ engine.View = (*Client)(nil)
	_ Server      = (*Client)(nil)
)

// Dial finds out whether an engine answers at the socket, and speaks our
// version of the protocol.
func Dial(socket string) (*Client, error) {
	if err := greet(socket); err != nil {
		return nil, err
	}
	return &Client{way: unixSocket(socket)}, nil
}

func greet(socket string) error {
	conn, err := net.DialTimeout("unix", socket, dialTimeout)
	if err != nil {
		return fmt.Errorf("reach the running engine: %w", err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(dialTimeout))
	var v int
	err = exchange(conn, request{Method: methodHello}, func(r *reply) error { v = r.V; return nil })
	if err != nil {
		return fmt.Errorf("reach the running engine at %s: %w", socket, err)
	}
	if v != Version {
		return fmt.Errorf("reach the running engine at %s: it speaks version %d of the control protocol, not %d", socket, v, Version)
	}
	return nil
}

// Status is View's.
func (c *Client) Status(ctx context.Context) (*engine.Status, error) {
	var status *engine.Status
	err := c.call(ctx, request{Method: methodStatus}, func(r *reply) error { status = r.Status; return nil })
	if err == nil && status == nil {
		err = errors.New("the running engine answered without a status")
	}
	return status, err
}

// Values is View's. Also where fn ended it, the dimensions are returned.
func (c *Client) Values(ctx context.Context, q engine.Query, fn func(engine.Item) error) (engine.Found, error) {
	var out engine.Found
	err := c.call(ctx, request{Method: methodValues, Entity: q.Entity, At: q.At, Labels: q.Labels}, func(r *reply) error {
		if r.Dims != nil {
			out.Dims = *r.Dims
		}
		if r.Found != nil {
			out = r.Found.decode()
		}
		if r.Item == nil {
			return nil
		}
		it, err := r.Item.decode()
		if err != nil {
			return err
		}
		return fn(it)
	})
	return out, err
}

// Logs is View's.
func (c *Client) Logs(ctx context.Context, q engine.LogQuery, fn func(engine.Log) error) error {
	req := request{Method: methodLogs, Task: q.Task, At: q.At, Labels: q.Labels, Failed: q.Failed}
	return c.call(ctx, req, func(r *reply) error {
		if r.Log == nil {
			return nil
		}
		return fn(r.Log.decode())
	})
}

// Pause is the engine's.
func (c *Client) Pause(ctx context.Context, tasks []string, cascade bool) error {
	return c.call(ctx, request{Method: methodPause, Tasks: tasks, Cascade: cascade}, ignore)
}

// Resume is the engine's.
func (c *Client) Resume(ctx context.Context, tasks []string) error {
	return c.call(ctx, request{Method: methodResume, Tasks: tasks}, ignore)
}

// Quit is the engine's.
func (c *Client) Quit(ctx context.Context, force bool) error {
	return c.call(ctx, request{Method: methodQuit, Force: force}, ignore)
}

// SetPool is the engine's.
func (c *Client) SetPool(ctx context.Context, name string, size int) error {
	return c.call(ctx, request{Method: methodPool, Name: name, Size: size}, ignore)
}

// Drop is the engine's.
func (c *Client) Drop(ctx context.Context, tasks []string) error {
	return c.call(ctx, request{Method: methodDrop, Tasks: tasks}, ignore)
}

// Plan is the engine's.
func (c *Client) Plan(ctx context.Context, q engine.PlanQuery) (*engine.Plan, error) {
	var out *engine.Plan
	err := c.call(ctx, request{Method: methodPlan, Plan: &q}, func(r *reply) error {
		if r.Done {
			out = decodePlan(r.Plan)
		}
		return nil
	})
	return out, err
}

func ignore(*reply) error { return nil }

func (c *Client) call(ctx context.Context, req request, fn func(*reply) error) error {
	req.V, req.Pipeline = Version, c.pipeline
	return c.way.call(ctx, req, fn)
}

// call makes one request on a connection of its own, so that calls need not
// wait for each other, and an abandoned one is a closed connection.
func (s unixSocket) call(ctx context.Context, req request, fn func(*reply) error) error {
	line, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	return s.converse(ctx, append(line, '\n'), fn)
}

// session sends the commands behind one another.
func (s unixSocket) session(ctx context.Context, commands []byte, fn func(*reply) error) error {
	line, err := json.Marshal(request{V: Version, Method: methodSession})
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	return s.converse(ctx, slices.Concat(line, []byte("\n"), commands), fn)
}

func (s unixSocket) converse(ctx context.Context, send []byte, fn func(*reply) error) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", string(s))
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w (%w)", ErrGone, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	defer stop()
	err = speak(conn, send, fn)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// exchange sends a request and hands the lines of its answer to fn, the closing
// one too. An error that the engine reports, or of fn, ends it.
func exchange(conn net.Conn, req request, fn func(*reply) error) error {
	req.V = Version
	line, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	return speak(conn, append(line, '\n'), fn)
}

// speak sends while it reads, so that neither side waits for the other.
func speak(conn net.Conn, send []byte, fn func(*reply) error) error {
	// An engine that refuses us says so and hangs up: its answer counts more
	// than that we could not send all.
	var sent error
	var sending sync.WaitGroup
	sending.Go(func() { _, sent = conn.Write(send) })
	defer sending.Wait()
	defer conn.Close()
	err := hearLines(conn, fn)
	if errors.Is(err, ErrGone) {
		conn.Close()
		sending.Wait()
		if sent != nil && !errors.Is(sent, net.ErrClosed) {
			err = fmt.Errorf("%w (%w)", err, sent)
		}
	}
	return err
}

// hearLines hands the lines of an answer to fn, until its last one.
func hearLines(r io.Reader, fn func(*reply) error) error {
	in := newLineReader(r, MaxReply)
	for {
		line, err := in.next()
		if errors.Is(err, errLineTooLong) {
			return fmt.Errorf("the running engine sent a line of more than %d bytes", MaxReply)
		}
		if err != nil {
			return fmt.Errorf("%w (%w)", ErrGone, err)
		}
		var r reply
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("the running engine sent what is no answer: %w", err)
		}
		if r.Error != nil && r.Summary == nil {
			return r.Error.decode()
		}
		if err := fn(&r); err != nil {
			return err
		}
		if r.Error != nil {
			return r.Error.decode() // of a run that came as far as its summary
		}
		if r.Done {
			return nil
		}
	}
}
