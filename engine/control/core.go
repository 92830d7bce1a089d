package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"operon/engine"
	"operon/engine/serve"
)

// core answers requests, however they came: from one engine, or from a host of
// many. Exactly one is set.
type core struct {
	one  Server
	host *serve.Host
}

// server is who answers a request.
func (c core) server(req request) (Server, error) {
	if c.host == nil {
		return c.one, nil
	}
	return c.host.Pipeline(req.Pipeline)
}

func (c core) pipelines(ctx context.Context, out *answer) (err error) {
	if c.host == nil {
		return &RequestError{Message: "this is an engine, which has one pipeline"}
	}
	out.last.Pipelines, err = c.host.Pipelines(ctx)
	return err
}

// answer writes all of an answer but its last line.
func (c core) answer(ctx context.Context, req request, out *answer) error {
	if req.V != Version {
		return &RequestError{Message: fmt.Sprintf("the running engine speaks version %d of the control protocol, the request has %d: use the same operon for both", Version, req.V)}
	}
	switch req.Method {
	case methodHello:
		out.last.V = Version
		return nil
	case methodPipelines:
		return c.pipelines(ctx, out)
	}
	srv, err := c.server(req)
	if err != nil {
		return err
	}
	switch req.Method {
	case methodStatus:
		status, err := srv.Status(ctx)
		out.last.Status = status
		return err
	case methodValues:
		return values(ctx, srv, engine.Query{Entity: req.Entity, At: req.At, Labels: req.Labels}, out)
	case methodLogs:
		if req.Task == "" && len(req.At)+len(req.Labels) > 0 {
			return &RequestError{Message: "at names a job of a task: say which task"}
		}
		q := engine.LogQuery{Task: req.Task, At: req.At, Labels: req.Labels, Failed: req.Failed}
		return srv.Logs(ctx, q, func(l engine.Log) error { return out.line(reply{Log: logOf(l)}) })
	case methodPause:
		return srv.Pause(ctx, req.Tasks, req.Cascade)
	case methodResume:
		return srv.Resume(ctx, req.Tasks)
	case methodQuit:
		return srv.Quit(ctx, req.Force)
	case methodPool:
		if err := engine.CheckPoolSize(req.Size); err != nil {
			return &RequestError{Message: err.Error()}
		}
		return srv.SetPool(ctx, req.Name, req.Size)
	case methodDrop:
		return srv.Drop(ctx, req.Tasks)
	case methodPlan:
		return plan(ctx, srv, req.Plan, out)
	}
	return &RequestError{Message: fmt.Sprintf("unknown method %q", req.Method)}
}

func plan(ctx context.Context, srv Server, q *engine.PlanQuery, out *answer) error {
	if q == nil {
		return &RequestError{Message: "a plan wants a pipeline file"}
	}
	p, err := srv.Plan(ctx, *q)
	if errors.Is(err, fs.ErrNotExist) {
		return &RequestError{Message: err.Error()}
	}
	if err != nil {
		return err
	}
	out.last.Plan = planOf(p)
	return nil
}

func values(ctx context.Context, srv Server, q engine.Query, out *answer) error {
	dims, err := Dims(ctx, srv, q)
	if err != nil {
		return err
	}
	dims = notNil(dims)
	if err := out.line(reply{Dims: &dims}); err != nil {
		return err
	}
	f, err := srv.Values(ctx, q, func(it engine.Item) error { return out.line(reply{Item: itemOf(it)}) })
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
