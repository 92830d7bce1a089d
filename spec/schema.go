package spec

import (
	"encoding/json"
	"fmt"
)

// JSONSchema is the JSON Schema (draft 2020-12) of pipeline files, indented. It
// is written from the tables that Load reads files by. It can't say what lies
// between keys: the rules of well-formedness, names that must be known,
// references that must fit.
func JSONSchema() []byte {
	task := taskTable()
	root := pipelineTable().schema()
	// A task's keys are written once, and shared by all tasks.
	tasks := root["properties"].(map[string]any)["tasks"].(map[string]any)
	tasks["additionalProperties"] = map[string]any{"$ref": "#/$defs/task"}
	tasks["minProperties"] = 1
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "operon pipeline"
	root["$defs"] = map[string]any{"task": task.schema()}
	b, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("this is a bug: the schema is not JSON: %v", err))
	}
	return append(b, '\n')
}
