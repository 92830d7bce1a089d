package spec

import (
	"slices"
	"testing"
)

// The reference has every key that Load reads, once for each mapping it stands
// in, and says something of each.
func TestKeys(t *testing.T) {
	var of []string
	seen := map[string]bool{}
	for _, k := range Keys() {
		if k.Name == "" || k.Doc == "" || k.Wants == "" || seen[k.Of+"."+k.Name] {
			t.Errorf("%+v", k)
		}
		seen[k.Of+"."+k.Name] = true
		if !slices.Contains(of, k.Of) {
			of = append(of, k.Of)
		}
	}
	for _, want := range []string{"a pipeline file", "a task", "a param", "an input", "stdin", "source", "retry", "a pool", "a shared pool", "worker"} {
		if !slices.Contains(of, want) {
			t.Errorf("no key of %s: %v", want, of)
		}
	}
	for _, f := range taskTable().fields {
		if !seen["a task."+f.name] {
			t.Errorf("%s is not there", f.name)
		}
	}
}
