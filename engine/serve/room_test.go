package serve_test

import (
	"errors"
	"testing"

	"operon/engine/serve"
)

// What a session holds is free once it is installed or closed.
func TestHeldUntilInstalledOrClosed(t *testing.T) {
	h, _ := host(t, nil)
	first, other := h.Session(), h.Session()
	defer first.Close()
	defer other.Close()
	full := func(when string, want error) {
		t.Helper()
		if err := other.Hold(1); !errors.Is(err, want) {
			t.Errorf("%s: got %v", when, err)
		}
	}
	if err := first.Hold(serve.MaxHeld); err != nil {
		t.Fatal(err)
	}
	full("while it is held", serve.ErrCrowded)
	for _, c := range submission(t, two) {
		if _, err := first.Do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	full("after it was installed", nil)
	third := h.Session()
	if err := third.Hold(serve.MaxHeld - 1); err != nil {
		t.Fatal(err)
	}
	full("while the rest is held", serve.ErrCrowded)
	third.Close()
	full("after it was closed", nil)
}
