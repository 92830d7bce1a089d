package control

import (
	"context"
	"errors"

	"operon/engine"
	"operon/spec"
)

// While a client asks.
var (
	// ErrGone: the engine ended, or closed the connection, before it had
	// answered. Its state directory may be free now.
	ErrGone = errors.New("the engine went away before it had answered")
	// ErrBusy: the engine has as many clients as it takes.
	ErrBusy = errors.New("the engine has too many clients at the moment")
)

// RequestError is a request that the engine did not understand.
type RequestError struct{ Message string }

// Error is what the engine said.
func (e *RequestError) Error() string { return e.Message }

const (
	kindUnknown      = "unknown"
	kindInconsistent = "inconsistent"
	kindMachine      = "machine"
	kindLabel        = "label"
	kindBusy         = "busy"
	kindGone         = "gone"
	kindRequest      = "request"
	kindOther        = "other"

	kindNoState    = "no-state"
	kindNoRun      = "no-run"
	kindInUse      = "in-use"
	kindForeign    = "foreign"
	kindNewer      = "newer"
	kindDamaged    = "damaged"
	kindReleased   = "released"
	kindUnsaved    = "unsaved"
	kindNotOurs    = "not-ours"
	kindResources  = "resources"
	kindSpec       = "spec"
	kindMismatch   = "mismatch"
	kindSuperseded = "superseded"
	kindStopping   = "stopping"
	kindEarly      = "early"
	kindElsewhere  = "elsewhere"
	kindCrowded    = "crowded"
)

// problem is an error on its way. The errors that a caller tells apart arrive
// as what they were; of all others the text is kept.
type problem struct {
	Kind    string   `json:"kind"`
	Message string   `json:"message"`
	What    string   `json:"what,omitempty"`
	Name    string   `json:"name,omitempty"`
	Nearest string   `json:"nearest,omitempty"`
	Known   []string `json:"known,omitempty"`
	Task    string   `json:"task,omitempty"`
	Coord   string   `json:"coord,omitempty"`
	Detail  string   `json:"detail,omitempty"`
	Doing   string   `json:"doing,omitempty"`
	Have    int      `json:"have,omitempty"`
	Know    int      `json:"know,omitempty"`
	Running bool     `json:"running,omitempty"`

	Spec spec.Errors `json:"spec,omitempty"`
}

func problemOf(err error) *problem {
	p := &problem{Kind: kindOther, Message: err.Error()}
	var unknown *engine.UnknownError
	var inconsistent *engine.InconsistentError
	var machine *engine.MachineError
	var label *engine.LabelError
	var request *RequestError
	switch {
	case errors.As(err, &unknown):
		p.Kind, p.What, p.Name, p.Nearest, p.Known = kindUnknown, unknown.What, unknown.Name, unknown.Nearest, unknown.Known
	case errors.As(err, &inconsistent):
		p.Kind, p.Task, p.Coord, p.Detail = kindInconsistent, inconsistent.Task, inconsistent.Coord, inconsistent.Detail
	case errors.As(err, &machine):
		p.Kind, p.Doing, p.Detail = kindMachine, machine.Doing, machine.Err.Error()
	case errors.As(err, &label):
		p.Kind, p.What, p.Name, p.Detail = kindLabel, label.Dim, label.Label, label.Detail
	case errors.As(err, &request):
		p.Kind = kindRequest
	case errors.Is(err, ErrBusy):
		p.Kind = kindBusy
	case p.ofHost(err), p.ofState(err):
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, engine.ErrNotRunning):
		p.Kind = kindGone
	}
	return p
}

func (p *problem) decode() error {
	switch p.Kind {
	case kindUnknown:
		return &engine.UnknownError{What: p.What, Name: p.Name, Nearest: p.Nearest, Known: p.Known}
	case kindInconsistent:
		return &engine.InconsistentError{Task: p.Task, Coord: p.Coord, Detail: p.Detail}
	case kindMachine:
		return &engine.MachineError{Doing: p.Doing, Err: errors.New(p.Detail)}
	case kindLabel:
		return &engine.LabelError{Dim: p.What, Label: p.Name, Detail: p.Detail}
	case kindBusy:
		return ErrBusy
	case kindGone:
		return ErrGone
	case kindRequest:
		return &RequestError{Message: p.Message}
	}
	if err := p.decodeHost(); err != nil {
		return err
	}
	if err := p.decodeState(); err != nil {
		return err
	}
	return errors.New(p.Message)
}
