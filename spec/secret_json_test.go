package spec

import (
	"slices"
	"testing"
)

// Each part of a secret JSON value is a secret.
func TestPartsOfASecretAreSecret(t *testing.T) {
	p, err := Load([]byte(`pipeline: p
params:
  s: {type: json, secret: true, env: S}
tasks:
  a: {out: A, exec: [echo, "{s}"]}
`), Options{LookupEnv: func(string) (string, bool) { return `{"pw":"HIDDEN77","pins":[1234,"ab",true]}`, true }})
	if err != nil {
		t.Fatal(err)
	}
	got := p.Secrets()
	for _, want := range []string{"HIDDEN77", "1234", `{"pw":"HIDDEN77","pins":[1234,"ab",true]}`} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not among %q", want, got)
		}
	}
	if slices.Contains(got, "true") || slices.Contains(got, "ab") {
		t.Errorf("%q", got)
	}
}
