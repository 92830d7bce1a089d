package worker

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func long() bool { return os.Getenv("OPERON_LONG") != "" }

// rapidChecks draws so many cases, until it is undone.
func rapidChecks(t *testing.T, n int) (undo func()) {
	t.Helper()
	was := flag.Lookup("rapid.checks").Value.String()
	set := func(v string) {
		if err := flag.Set("rapid.checks", v); err != nil {
			t.Fatal(err)
		}
	}
	set(strconv.Itoa(n))
	return func() { set(was) }
}
