package body

import (
	"testing"

	"operon/spec"
)

// A value that breaks the schema fails the job, whatever its body, and says where
// and what.
func TestSchema(t *testing.T) {
	schema := []byte(`{"type":"object","required":["id"],"properties":{"id":{"type":"integer"},"words":{"type":"array","items":{"type":"string"}}}}`)
	with := func(task *spec.TaskSpec) *spec.TaskSpec { task.Schema = schema; return task }
	good, bad := `{"id":1,"words":["a"]}`, `{"id":1,"words":["a",2]}`
	want := "breaks the schema: at /words/1: got number, want string (type): {\"id\":1,\"words\":[\"a\",2]}"
	for name, task := range map[string]*spec.TaskSpec{
		"run":    with(formatted(script("cat", "word"), spec.FormatJSON)),
		"jq":     with(filterTask(".", "word")),
		"worker": with(pyWorker(`say(id=id, value=word)`, "word")),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, task)
			if name == "worker" {
				w := newWorkers(t, task)
				o := newOutcomes(2)
				w.r.RunBatch(t.Context(), w.slot, []*Job{w.job(raw(good)), w.job(raw(bad))}, o)
				o.wants(t, good, "schema: the value "+want)
				return
			}
			if got := b.ok(raw(good)); got[0] != good {
				t.Errorf("returned %s", got)
			}
			b.fails(KindSchema, b.job(raw(bad)), "the value "+want)
		})
	}
	t.Run("list", func(t *testing.T) {
		b := newBench(t, with(spawns(script("cat", "word"), spec.FormatJSONL)))
		b.fails(KindSchema, b.job(text(good+"\n{}\n")), "value 1 of the list breaks the schema: at the value: missing property 'id' (required): {}")
	})
	t.Run("source", func(t *testing.T) {
		task := with(spawns(&spec.TaskSpec{Body: spec.Body{Kind: spec.BodySource, Source: &spec.Source{Kind: spec.SourceCount, Count: 3}}}, ""))
		b := newBench(t, task)
		b.fails(KindSchema, b.job(), "value 0 of the list breaks the schema: at the value: got number, want object (type): 0")
	})
	t.Run("file", func(t *testing.T) {
		task := formatted(script("printf abc"), spec.FormatFile)
		task.Schema = []byte(`{"properties":{"size":{"maximum":2}}}`)
		b := newBench(t, task)
		b.fails(KindSchema, b.job(), "at /size: maximum")
	})
}
