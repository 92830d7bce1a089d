package body

import (
	"bytes"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"operon/spec"
	"operon/spec/value"
)

// verifier says whether values are what their task promises.
type verifier struct{ schema *jsonschema.Schema }

func newVerifier(t *spec.TaskSpec) (*verifier, error) {
	if t.Schema == nil {
		return nil, nil
	}
	schema, err := spec.CompileSchema(t.Schema)
	if err != nil {
		return nil, err
	}
	return &verifier{schema}, nil
}

// verify is the failure of a job that returned values which break the task's
// schema, or nil.
func (c *common) verify(items []value.Value) *Failure {
	if c.verifier == nil {
		return nil
	}
	for i, item := range items {
		if f := c.checkSchema(c.verifier.schema, i, item); f != nil {
			return f
		}
	}
	return nil
}

func (c *common) checkSchema(schema *jsonschema.Schema, i int, item value.Value) *Failure {
	text := item.AppendJSON(nil)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = schema.Validate(doc)
	}
	if err == nil {
		return nil
	}
	which := "the value"
	if c.task.Spawn != nil {
		which = fmt.Sprintf("value %d of the list", i)
	}
	return &Failure{Kind: KindSchema, Err: err,
		Message: fmt.Sprintf("%s breaks the schema: %s: %s", which, spec.SchemaBreach(err), quote(text))}
}
