package body

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"operon/spec/value"
)

// Func is a Go function that `func` bodies name.
type Func struct {
	Name string
	// Call runs one job and returns its value, or of a task that spawns the list
	// of its values, as anything that json.Marshal makes a list of. It is called
	// by several goroutines at once, and must return when ctx ends. An error
	// fails the job; a *Failure is taken as it is, so that a function can say what
	// kind it is of and whether to try again.
	Call func(ctx context.Context, args FuncArgs) (any, error)
}

// FuncArgs are what a job is given.
type FuncArgs struct {
	Task  string
	Index map[string]int             // of each dimension of the context
	Args  map[string]json.RawMessage // by argument name: slices nested, files as {"path", "file", "size", "sha256"}
	Input json.RawMessage            // the one argument, an object of several, or null
}

// function runs a Go function for each job, in process.
type function struct {
	*common
	fn Func
}

func newFunction(c *common) (*function, error) {
	name := c.task.Body.Func
	i := slices.IndexFunc(c.cfg.Funcs, func(f Func) bool { return f.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w %q", ErrNoFunc, name)
	}
	return &function{common: c, fn: c.cfg.Funcs[i]}, nil
}

// ErrNoFunc is a task whose function is not registered.
var ErrNoFunc = errors.New("this program has no function")

// Run implements Runner. It uses no slot.
func (f *function) Run(ctx context.Context, _ *Slot, job *Job) (res *Result, err error) {
	usage := Usage{Start: time.Now()}
	a := f.attempt(job)
	defer func() {
		if panicked := recover(); panicked != nil {
			fail := failf(KindInternal, "panic in the function %s: %v", f.fn.Name, panicked)
			fail.Stderr = debug.Stack()
			fail.Stderr = fail.Stderr[:min(len(fail.Stderr), tailLimit)]
			res, err = nil, fail
		}
		if err != nil {
			fail := a.giveUp(err)
			fail.Usage = usage.ended()
			res, err = nil, fail
		}
	}()
	if fail := cancelled(ctx); fail != nil {
		return nil, fail
	}
	if fail := f.checkArgs(job); fail != nil {
		return nil, fail
	}
	items, fail := f.run(ctx, a)
	if fail == nil {
		fail = f.verify(items)
	}
	if fail != nil {
		return nil, fail
	}
	return &Result{Items: items, Usage: usage.ended(), close: a.dir.remove}, nil
}

func (f *function) run(ctx context.Context, a *attempt) ([]value.Value, *Failure) {
	args, err := f.args(a)
	if err != nil {
		return nil, asFailure(err)
	}
	timed := ctx
	if f.task.Timeout > 0 {
		var cancel context.CancelFunc
		timed, cancel = context.WithTimeout(ctx, f.task.Timeout)
		defer cancel()
	}
	v, err := f.fn.Call(timed, args)
	if err != nil {
		return nil, f.failed(ctx, timed, err)
	}
	return f.values(v)
}

// failed is the failure for a function's error.
func (f *function) failed(ctx, timed context.Context, err error) *Failure {
	if fail := cancelled(ctx); fail != nil {
		return fail
	}
	if timed.Err() != nil {
		return &Failure{Kind: KindTimeout, Err: err, Message: fmt.Sprintf("took longer than its timeout of %s", f.task.Timeout)}
	}
	if own, ok := errors.AsType[*Failure](err); ok {
		copied := *own
		return &copied
	}
	return &Failure{Kind: KindExit, Exit: 1, Message: quoteUpTo([]byte(err.Error()), messageLimit), Err: err}
}

func (f *function) args(a *attempt) (FuncArgs, error) {
	args := FuncArgs{Task: f.task.Name, Index: make(map[string]int, len(f.dims)), Args: make(map[string]json.RawMessage, len(f.task.In))}
	for i, dim := range f.dims {
		args.Index[dim] = int(a.job.Coord.At(i))
	}
	for i, in := range f.task.In {
		text, err := a.appendArg(nil, i)
		if err != nil {
			return args, err
		}
		args.Args[in.Arg] = text
		args.Input = text
	}
	switch len(f.task.In) {
	case 0:
		args.Input = json.RawMessage("null")
	case 1:
	default:
		all, err := a.appendObject(nil, f.task.In)
		if err != nil {
			return args, err
		}
		args.Input = all
	}
	return args, nil
}

// values are what a function returned.
func (f *function) values(v any) ([]value.Value, *Failure) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, &Failure{Kind: KindOutput, Err: err, Message: "what the function returned can't be written as JSON: " + quoteLine(err.Error())}
	}
	out := b.Bytes()
	if int64(len(out)) > f.maxOutput {
		return nil, failf(KindOutput, "the function returned more than %d bytes (--max-output)", f.maxOutput)
	}
	var items []value.Value
	var err error
	switch {
	case f.task.Spawn == nil:
		items, err = readJSON(out)
	case string(bytes.TrimSpace(out)) == "null":
		return nil, nil // a nil slice of Go is an empty list
	default:
		items, err = readArray(out, f.spawned(), f.maxList)
	}
	if err != nil {
		return nil, &Failure{Kind: KindOutput, Err: err, Message: "what the function returned can't be taken: " + err.Error()}
	}
	return items, nil
}
