package spec

import (
	"strings"
)

// Key is one key of the language, for references and help.
type Key struct {
	Of       string // the mapping it stands in, such as "a task"
	Name     string
	Doc      string // one sentence or two
	Wants    string // what its value is, in the user's terms
	Required bool
	Default  bool     // of a task: may stand under `defaults`
	Bodies   []string // of a task: the bodies it means something for; none: all
}

// Keys are all keys of the language, from the tables that Load reads files by: of
// the pipeline file, then of a task, then of each mapping within, in the order in
// which they are met.
func Keys() []Key {
	var keys []Key
	seen := map[string]bool{}
	tables := []*table{pipelineTable(), taskTable()}
	for len(tables) > 0 {
		t := tables[0]
		tables = tables[1:]
		if seen[t.of] {
			continue
		}
		seen[t.of] = true
		for i := range t.fields {
			f := &t.fields[i]
			keys = append(keys, f.key(t.of))
			tables = append(tables, f.shape.tables()...)
		}
	}
	return keys
}

func (f *field) key(of string) Key {
	k := Key{Of: strings.ReplaceAll(of, "`", ""), Name: f.name, Doc: f.doc, Wants: f.shape.says, Required: f.required, Default: f.defaults}
	for _, b := range f.only {
		k.Bodies = append(k.Bodies, string(b))
	}
	return k
}

// tables are the mappings of fixed keys in s, `defaults` left out: its keys are a
// task's.
func (s *shape) tables() []*table {
	var out []*table
	for _, inner := range []*shape{s.list, s.each} {
		if inner != nil {
			out = append(out, inner.tables()...)
		}
	}
	if s.object != nil && s.object.of != "`defaults`" {
		out = append(out, s.object)
	}
	return out
}
