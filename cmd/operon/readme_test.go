package main

import (
	"os"
	"strings"
	"testing"
)

// The README prints the table of exit codes that the program goes by.
func TestReadmeHasTheExitTable(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), ExitTable()) {
		t.Errorf("the README's table of exit codes is not\n%s", ExitTable())
	}
}
