package main

import (
	"slices"
	"testing"
)

// The address of --server may be left out.
func TestServerFlagWithoutAddress(t *testing.T) {
	root := newApp().cli()
	for _, tt := range []struct{ args, want []string }{
		{[]string{"run", "--server", "p.yaml"}, []string{"run", "--server=-", "--", "p.yaml"}},
		{[]string{"run", "p.yaml", "--server"}, []string{"run", "--server=-", "--", "p.yaml"}},
		{[]string{"run", "--server", "127.0.0.1:70", "p.yaml"}, []string{"run", "--server=127.0.0.1:70", "--", "p.yaml"}},
		{[]string{"run", "--server", "http://h:70", "p.yaml"}, []string{"run", "--server=http://h:70", "--", "p.yaml"}},
		{[]string{"run", "--server", "x/serve.sock", "p.yaml"}, []string{"run", "--server=x/serve.sock", "--", "p.yaml"}},
		{[]string{"run", "--server", "--json"}, []string{"run", "--server=-", "--json", "--"}},
	} {
		got, err := arrange(root, tt.args)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %q, %v", tt.args, got, err)
		}
	}
}
