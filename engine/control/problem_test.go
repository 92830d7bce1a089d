package control

import (
	"reflect"
	"testing"

	"operon/engine"
	"operon/engine/serve"
)

// What a host refuses, and what ends a run, arrives at the client as what it was.
func TestProblemsOfAHostArrive(t *testing.T) {
	for _, err := range []error{
		&serve.ElsewhereError{Pipeline: "p", File: "/x/p.yaml", Running: true},
		&serve.ElsewhereError{Pipeline: "p", File: "p.yaml"},
		&serve.BusyError{Pipeline: "p", Wish: "--fresh"},
		&serve.MismatchError{Task: "t", What: "fingerprint", Client: "a", Host: "b"},
		&serve.SupersededError{Pipeline: "p"},
		serve.ErrStopping,
		serve.ErrCrowded,
		&engine.InUseError{Dir: "/x", Owner: "process 1"},
		&engine.ForeignError{Dir: "/x", Pipeline: "p", File: "p.yaml"},
		&engine.NewerError{Dir: "/x", Have: 3, Know: 2},
		&engine.DamagedError{Path: "/x", Detail: "half", Mend: "rebuild"},
		&engine.ReleasedError{Entity: "E", Task: "t"},
		&engine.UnsavedError{Task: "t", Path: "/x"},
		&engine.NotOursError{Dir: "/x", Holds: "y"},
		&engine.ResourcesError{Faults: []string{"t"}},
		&engine.InconsistentError{Task: "t", Coord: "i=0", Detail: "gone"},
		&engine.UnknownError{What: "task", Name: "t", Known: []string{"u"}},
		&engine.LabelError{Dim: "d", Label: "l", Detail: "none"},
		engine.ErrNoState,
	} {
		if got := problemOf(err).decode(); !reflect.DeepEqual(got, err) {
			t.Errorf("%#v arrives as %#v", err, got)
		}
	}
}
