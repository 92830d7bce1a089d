package body

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/itchyny/gojq"

	"operon/spec/value"
)

// defaultFilterTime is what a filter may take where its task says no timeout: a
// filter that never ends would hold a CPU of the engine for ever.
const defaultFilterTime = 10 * time.Minute

// filter runs a jq filter in process.
type filter struct {
	*common
	code *gojq.Code
	vars []string // mentioned names, in the order of the code's variables
}

func newFilter(c *common) (*filter, error) {
	q, err := gojq.Parse(c.task.Body.Script)
	if err != nil {
		return nil, fmt.Errorf("jq: %w", err)
	}
	f := &filter{common: c}
	var dollars []string
	for _, m := range c.task.Mentions {
		if m != outName {
			f.vars = append(f.vars, m)
			dollars = append(dollars, "$"+m)
		}
	}
	if f.code, err = gojq.Compile(q, gojq.WithVariables(dollars)); err != nil {
		return nil, fmt.Errorf("jq: %w", err)
	}
	return f, nil
}

// Run implements Runner. It uses no slot.
func (f *filter) Run(ctx context.Context, _ *Slot, job *Job) (res *Result, err error) {
	usage := Usage{Start: time.Now()}
	a := f.attempt(job)
	defer func() {
		if panicked := recover(); panicked != nil {
			res, err = nil, recovered(panicked)
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
	items, err := f.run(ctx, a)
	if err != nil {
		return nil, err
	}
	if fail := f.verify(items); fail != nil {
		return nil, fail
	}
	return &Result{Items: items, Usage: usage.ended(), close: a.dir.remove}, nil
}

// ended is the usage of what ran in process: one thread, so its time is its
// CPU time as far as can be told.
func (u Usage) ended() Usage {
	u.Wall = time.Since(u.Start)
	u.CPU = u.Wall
	return u
}

func (f *filter) run(ctx context.Context, a *attempt) ([]value.Value, error) {
	input, err := f.input(a)
	if err != nil {
		return nil, err
	}
	var few [4]any
	vars := few[:0]
	for _, name := range f.vars {
		v, err := f.variable(a, name)
		if err != nil {
			return nil, err
		}
		vars = append(vars, v)
	}
	b := &budget{Context: ctx, start: time.Now(), limit: f.task.Timeout, memory: uint64(4 * f.maxMemory)}
	if b.limit <= 0 {
		b.limit = defaultFilterTime
	}
	iter := f.code.RunWithContext(b, input, vars...)
	if f.task.Spawn == nil {
		return f.one(b, iter)
	}
	return f.list(b, iter)
}

// one takes exactly one result.
func (f *filter) one(b *budget, iter gojq.Iter) ([]value.Value, error) {
	v, ok := iter.Next()
	if !ok {
		return nil, failf(KindOutput, "the filter has no result; expected exactly one")
	}
	if err, failed := v.(error); failed {
		return nil, f.failed(b, err)
	}
	w := jqWriter{limit: f.maxMemory}
	if err := w.append(v); err != nil {
		return nil, err
	}
	if more, ok := iter.Next(); ok {
		if err, failed := more.(error); failed {
			return nil, f.failed(b, err)
		}
		second := jqWriter{out: nil, limit: f.maxMemory}
		if err := second.append(more); err != nil {
			return nil, err
		}
		return nil, failf(KindOutput, "the filter has more than one result (the second is %s); expected exactly one: wrap it in [ ] for a list", quote(second.out))
	}
	return []value.Value{value.FromJSON(w.out)}, nil
}

// list takes each result as an item.
func (f *filter) list(b *budget, iter gojq.Iter) ([]value.Value, error) {
	w := jqWriter{limit: f.maxMemory}
	var ends []int
	for {
		v, ok := iter.Next()
		if !ok {
			return cutUp(w.out, ends), nil
		}
		if err, failed := v.(error); failed {
			return nil, f.failed(b, err)
		}
		if err := w.append(v); err != nil {
			return nil, err
		}
		ends = append(ends, len(w.out))
		if int64(len(w.out))+int64(len(ends))*itemCost > 4*f.maxMemory || len(ends) > f.maxList {
			return nil, failf(KindOutput, "the filter has too many results: %d and more", len(ends))
		}
	}
}

// failed is the failure for an error that the filter ended with.
func (f *filter) failed(b *budget, err error) *Failure {
	if b.spent != nil {
		return b.failure(f.task)
	}
	if fail := cancelled(b.Context); fail != nil {
		return fail
	}
	if halt, ok := errors.AsType[*gojq.HaltError](err); ok {
		return &Failure{Kind: KindExit, Exit: halt.ExitCode(), Err: err, Message: "jq: " + err.Error()}
	}
	return &Failure{Kind: KindExit, Exit: 5, Err: err, Message: "jq: " + quoteLine(err.Error())}
}

// input is what . is: the one input, an object of several, or null.
func (f *filter) input(a *attempt) (any, error) {
	switch len(f.task.In) {
	case 0:
		return nil, nil
	case 1:
		return f.argument(a, 0)
	}
	all := make(map[string]any, len(f.task.In))
	for i, in := range f.task.In {
		v, err := f.argument(a, i)
		if err != nil {
			return nil, err
		}
		all[in.Arg] = v
	}
	return all, nil
}

func (f *filter) argument(a *attempt, arg int) (any, error) {
	given := a.job.Args[arg]
	if given.Slice == nil && given.Value.Kind == value.JSON {
		return decode(given.Value.JSON)
	}
	text, err := a.appendArg(nil, arg)
	if err != nil {
		return nil, err
	}
	return decode(text)
}

// variable is what a mentioned name stands for.
func (f *filter) variable(a *attempt, name string) (any, error) {
	n := f.names[name]
	switch {
	case n.param != nil:
		return decode(n.param.Value.JSON)
	case n.dim >= 0:
		return int(a.job.Coord.At(n.dim)), nil
	}
	return f.argument(a, n.arg)
}

// quoteLine is a message of another program on one line, bounded.
func quoteLine(text string) string {
	const limit = 500
	out := strconv.Quote(text[:min(len(text), limit)])
	return out[1 : len(out)-1]
}
