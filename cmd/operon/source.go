package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"operon/engine"
	"operon/engine/control"
)

// source answers for a target: the engine that runs there, or what it left.
type source struct {
	engine.View
	engine *control.Client // nil if none runs
	close  func() error
}

// patience is how long a state directory may be held by an engine that does
// not answer: one that starts has no socket yet, and one that ends has none any
// more.
const (
	patience = 2 * time.Second
	retry    = 50 * time.Millisecond
)

// open opens what answers for the target.
func (t target) open(ctx context.Context) (*source, error) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(retry)
	defer again.Stop()
	for {
		s, err := t.try(ctx)
		if _, used := errors.AsType[*engine.InUseError](err); !used {
			return s, err
		}
		select {
		case <-again.C:
		case <-deadline.C:
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (t target) try(ctx context.Context) (*source, error) {
	if t.server != "" {
		return t.tryServer(ctx)
	}
	state, err := engine.OpenState(t.state)
	if err == nil {
		return &source{View: state, close: state.Close}, nil
	}
	if errors.Is(err, engine.ErrNoState) {
		return nil, fmt.Errorf("%w: %s; %s makes it", engine.ErrNoState, t.state, t.command("run"))
	}
	used, ok := errors.AsType[*engine.InUseError](err)
	if !ok || used.Socket == "" {
		return nil, err
	}
	client, dialErr := control.Dial(used.Socket)
	if dialErr != nil {
		return nil, fmt.Errorf("%w, which does not answer (%v)", err, dialErr)
	}
	return &source{View: client, engine: client, close: func() error { return nil }}, nil
}

// openEngine opens the engine that runs, and nothing else.
func (t target) openEngine(ctx context.Context) (*control.Client, error) {
	s, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	if s.engine == nil {
		return nil, errors.Join(usagef("no engine runs on %s", t.state), s.close())
	}
	return s.engine, nil
}
