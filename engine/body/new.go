package body

import (
	"context"
	"fmt"
	"sync/atomic"

	"operon/spec"
)

// New makes the runner of a task. The error is a task that can't be run as it
// is written; a pipeline that was loaded has none.
func New(cfg *Config, t *spec.TaskSpec) (Runner, error) {
	c, err := newCommon(cfg, t)
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", t.Name, err)
	}
	var r Runner
	switch t.Body.Kind {
	case spec.BodyRun, spec.BodyExec:
		r, err = newProcess(c)
	case spec.BodyJQ:
		r, err = newFilter(c)
	case spec.BodySource:
		r, err = newSource(c)
	case spec.BodyWorker:
		r, err = newPersistent(c)
	case spec.BodyFunc:
		r, err = newFunction(c)
	default:
		err = fmt.Errorf("no body of kind %q", t.Body.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", t.Name, err)
	}
	return c.secrets.guard(r), nil
}

// common is what all kinds of bodies have: the task and what its names mean.
type common struct {
	cfg   *Config
	task  *spec.TaskSpec
	names map[string]name
	dims  []string // names of the context

	maxOutput, logLimit, maxMemory int64
	maxList                        int // items of a list

	verifier *verifier // nil: any value will do
	secrets  *secrets  // nil: there are none

	noClone atomic.Bool // the state's file system can't clone files
}

// name is what a mentioned name stands for: one of the three, or the output.
type name struct {
	arg   int         // index of an input, or -1
	dim   int         // position in the context, or -1
	param *spec.Param // or nil
}

// outName is the name of the file or folder that a body is to write.
const outName = "out"

func newCommon(cfg *Config, t *spec.TaskSpec) (*common, error) {
	c := &common{cfg: cfg, task: t, names: map[string]name{}, dims: t.ContextNames()}
	c.maxOutput = orDefault(cfg.MaxOutput, DefaultMaxOutput)
	c.logLimit = orDefault(cfg.LogLimit, DefaultLogLimit)
	c.maxMemory = orDefault(cfg.MaxMemory, DefaultMaxOutput)
	c.maxList = int(min(maxItems, listShare*c.maxOutput/itemCost))
	if cfg.Pipeline != nil {
		for _, p := range cfg.Pipeline.Params {
			c.names[p.Name] = name{arg: -1, dim: -1, param: p}
		}
	}
	for i, d := range t.Context {
		c.names[d.Name] = name{arg: -1, dim: i}
	}
	for i, in := range t.In {
		c.names[in.Arg] = name{arg: i, dim: -1}
	}
	var err error
	if c.verifier, err = newVerifier(t); err != nil {
		return nil, err
	}
	c.secrets = newSecrets(cfg.Pipeline)
	for _, m := range t.Mentions {
		if _, known := c.names[m]; !known && m != outName {
			return nil, fmt.Errorf("the body mentions %q, which is no argument, dimension or param", m)
		}
	}
	return c, nil
}

const (
	itemCost  = 48 // bytes of memory that a list's item takes besides its text
	listShare = 16 // how many times the output limit a list may take in memory
)

func orDefault(limit, otherwise int64) int64 {
	if limit <= 0 {
		return otherwise
	}
	return limit
}

// spawned is the dimension that the task's list is along, for messages.
func (c *common) spawned() string {
	if c.task.Spawn == nil {
		return ""
	}
	return c.task.Spawn.Name
}

// checkArgs guards against an engine that hands over something else than the
// task takes.
func (c *common) checkArgs(job *Job) *Failure {
	if len(job.Args) != len(c.task.In) || job.Coord.Len() != len(c.task.Context) {
		return failf(KindInternal, "task %s takes %d arguments and %d dimensions, got %d and %d (this is a bug)",
			c.task.Name, len(c.task.In), len(c.task.Context), len(job.Args), job.Coord.Len())
	}
	return nil
}

// cancelled is the failure of a job whose context ended, or nil.
func cancelled(ctx context.Context) *Failure {
	if ctx.Err() == nil {
		return nil
	}
	cause := context.Cause(ctx)
	return &Failure{Kind: KindCancelled, Message: "stopped: " + cause.Error(), Err: cause}
}
