package control

import (
	"errors"

	"operon/engine"
	"operon/engine/serve"
	"operon/spec"
)

// ofHost fills in a problem that only a host has, and reports whether err is one.
func (p *problem) ofHost(err error) bool {
	var mismatch *serve.MismatchError
	var superseded *serve.SupersededError
	var noRun *serve.NoRunError
	var early *serve.BusyError
	var elsewhere *serve.ElsewhereError
	var protocol *serve.ProtocolError
	var wrong spec.Errors
	switch {
	case errors.As(err, &mismatch):
		p.Kind, p.Task, p.What, p.Name, p.Detail = kindMismatch, mismatch.Task, mismatch.What, mismatch.Client, mismatch.Host
	case errors.As(err, &superseded):
		p.Kind, p.Name = kindSuperseded, superseded.Pipeline
	case errors.As(err, &noRun):
		p.Kind, p.Name = kindNoRun, noRun.Pipeline
	case errors.As(err, &early):
		p.Kind, p.Name, p.What = kindEarly, early.Pipeline, early.Wish
	case errors.As(err, &elsewhere):
		p.Kind, p.Name, p.Detail, p.Running = kindElsewhere, elsewhere.Pipeline, elsewhere.File, elsewhere.Running
	case errors.As(err, &protocol):
		p.Kind, p.Message = kindRequest, protocol.Message
	case errors.As(err, &wrong):
		p.Kind, p.Spec = kindSpec, wrong
	case errors.Is(err, serve.ErrStopping):
		p.Kind = kindStopping
	case errors.Is(err, serve.ErrCrowded):
		p.Kind = kindCrowded
	default:
		return false
	}
	return true
}

func (p *problem) decodeHost() error {
	switch p.Kind {
	case kindMismatch:
		return &serve.MismatchError{Task: p.Task, What: p.What, Client: p.Name, Host: p.Detail}
	case kindSuperseded:
		return &serve.SupersededError{Pipeline: p.Name}
	case kindNoRun:
		return &serve.NoRunError{Pipeline: p.Name}
	case kindEarly:
		return &serve.BusyError{Pipeline: p.Name, Wish: p.What}
	case kindElsewhere:
		return &serve.ElsewhereError{Pipeline: p.Name, File: p.Detail, Running: p.Running}
	case kindSpec:
		return p.Spec
	case kindCrowded:
		return serve.ErrCrowded
	case kindStopping:
		return serve.ErrStopping
	}
	return nil
}

// ofState fills in what is wrong with a state directory.
func (p *problem) ofState(err error) bool {
	var used *engine.InUseError
	var foreign *engine.ForeignError
	var newer *engine.NewerError
	var damaged *engine.DamagedError
	var released *engine.ReleasedError
	var unsaved *engine.UnsavedError
	var notOurs *engine.NotOursError
	var room *engine.ResourcesError
	switch {
	case errors.As(err, &used):
		p.Kind, p.Name, p.Detail = kindInUse, used.Dir, used.Owner
	case errors.As(err, &foreign):
		p.Kind, p.Name, p.What, p.Detail = kindForeign, foreign.Dir, foreign.Pipeline, foreign.File
	case errors.As(err, &newer):
		p.Kind, p.Name, p.Have, p.Know = kindNewer, newer.Dir, newer.Have, newer.Know
	case errors.As(err, &damaged):
		p.Kind, p.Name, p.Detail, p.Doing = kindDamaged, damaged.Path, damaged.Detail, damaged.Mend
	case errors.As(err, &released):
		p.Kind, p.Name, p.Task = kindReleased, released.Entity, released.Task
	case errors.As(err, &unsaved):
		p.Kind, p.Name, p.Task = kindUnsaved, unsaved.Path, unsaved.Task
	case errors.As(err, &notOurs):
		p.Kind, p.Name, p.Detail = kindNotOurs, notOurs.Dir, notOurs.Holds
	case errors.As(err, &room):
		p.Kind, p.Known = kindResources, room.Faults
	case errors.Is(err, engine.ErrNoState):
		p.Kind = kindNoState
	default:
		return false
	}
	return true
}

func (p *problem) decodeState() error {
	switch p.Kind {
	case kindInUse:
		return &engine.InUseError{Dir: p.Name, Owner: p.Detail}
	case kindForeign:
		return &engine.ForeignError{Dir: p.Name, Pipeline: p.What, File: p.Detail}
	case kindNewer:
		return &engine.NewerError{Dir: p.Name, Have: p.Have, Know: p.Know}
	case kindDamaged:
		return &engine.DamagedError{Path: p.Name, Detail: p.Detail, Mend: p.Doing}
	case kindReleased:
		return &engine.ReleasedError{Entity: p.Name, Task: p.Task}
	case kindUnsaved:
		return &engine.UnsavedError{Task: p.Task, Path: p.Name}
	case kindNotOurs:
		return &engine.NotOursError{Dir: p.Name, Holds: p.Detail}
	case kindResources:
		return &engine.ResourcesError{Faults: p.Known}
	case kindNoState:
		return engine.ErrNoState
	}
	return nil
}
