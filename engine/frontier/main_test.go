package frontier

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain draws more cases if there is time: OPERON_LONG=1.
func TestMain(m *testing.M) {
	flag.Parse()
	if long() {
		if err := flag.Set("rapid.checks", "5000"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func long() bool { return os.Getenv("OPERON_LONG") == "1" }
