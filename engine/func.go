package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"operon/engine/body"
	"operon/spec"
)

// Function is a Go function that tasks name with `func`; see Func and FuncOf.
type Function = body.Func

// FuncArgs are what a Function is given for one job.
type FuncArgs = body.FuncArgs

// Func is a function for Options.Funcs, under the name that `func` says. It
// returns the job's value, or of a task that spawns the list of its values, as
// anything that encoding/json can write; a nil slice is an empty list. It is
// called by several goroutines at once and must return when ctx ends, which it
// does at the task's timeout too. An error fails the job as exit status 1 would,
// a panic fails it for good and leaves the engine whole.
//
// What a function does is not known to the engine: results of an earlier version
// are taken for results of this one. Rename it when it changes, name its source
// under `deps`, or say `cache: false`.
func Func(name string, fn func(ctx context.Context, args FuncArgs) (any, error)) Function {
	return Function{Name: name, Call: fn}
}

// FuncOf is Func for a function of Go types. In is read from the job's input as
// jq has it: the one argument, an object of several keyed by their names, or
// null; slices are lists, and a file an object with its `path`. Of a task that
// spawns, Out is a slice.
func FuncOf[In, Out any](name string, fn func(ctx context.Context, in In) (Out, error)) Function {
	return Func(name, func(ctx context.Context, args FuncArgs) (any, error) {
		var in In
		if err := json.Unmarshal(args.Input, &in); err != nil {
			return nil, &body.Failure{Kind: body.KindInput, Err: err, Message: fmt.Sprintf("the input does not fit the function %s: %v", name, err)}
		}
		return fn(ctx, in)
	})
}

// checkFuncs finds the functions that a pipeline names among those registered.
func checkFuncs(p *spec.Pipeline, funcs []Function) error {
	known := make([]string, len(funcs))
	have := map[string]bool{}
	for i, f := range funcs {
		known[i], have[f.Name] = f.Name, true
	}
	for _, t := range p.Tasks {
		if t.Body.Kind == spec.BodyFunc && !have[t.Body.Func] {
			return &UnknownError{What: "function", Name: t.Body.Func, Nearest: spec.Nearest(t.Body.Func, known), Known: known}
		}
	}
	return nil
}
