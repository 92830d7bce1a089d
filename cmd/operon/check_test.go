package main

import (
	"os"
	"strings"
	"testing"
)

// The README lists the kinds of faults and notes that a check knows.
func TestReadmeHasTheKindsOfFaults(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), KindTable()) {
		t.Errorf("the README's tables are not\n%s", KindTable())
	}
}
