package control

import (
	"reflect"
	"testing"

	"operon/engine/serve"
)

// What a host refuses arrives at the client as what it was.
func TestProblemsOfAHostArrive(t *testing.T) {
	for _, err := range []error{
		&serve.ElsewhereError{Pipeline: "p", File: "/x/p.yaml", Running: true},
		&serve.ElsewhereError{Pipeline: "p", File: "p.yaml"},
		&serve.BusyError{Pipeline: "p", Wish: "--fresh"},
		&serve.MismatchError{Task: "t", What: "fingerprint", Client: "a", Host: "b"},
		&serve.SupersededError{Pipeline: "p"},
		serve.ErrStopping,
		serve.ErrCrowded,
	} {
		if got := problemOf(err).decode(); !reflect.DeepEqual(got, err) {
			t.Errorf("%#v arrives as %#v", err, got)
		}
	}
}
