package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// shape says what may stand at a place of the document. The same shape checks a
// document and becomes a piece of its JSON Schema, so the two can't differ.
type shape struct {
	says   string                           // in the user's terms: "a name", "a duration such as 90s"
	scalar func(text string, n *node) *slip // checks a scalar; nil: none may stand here
	list   *shape                           // of the items; nil: no list may stand here
	min    int                              // fewest items
	max    int                              // most free keys; 0: any number
	object *table                           // the fixed keys of a mapping
	// objectHas: of a mapping that may be both, the key by which it is object.
	objectHas string
	each      *shape             // of the values of a mapping with free keys
	key       func(string) *slip // form of the free keys; nil: any
	any       bool               // any value at all
	blank     bool               // may be left empty: the empty text, or an empty mapping
	json      map[string]any     // JSON Schema of the scalar form
	keys      string             // pattern of the free keys, for the schema
}

// slip is what is wrong with a scalar.
type slip struct{ rule, message, mend string }

// field is one key of a mapping in the language.
type field struct {
	name     string
	doc      string // one sentence: in the schema, and in the reference
	shape    *shape
	required bool
	defaults bool                         // of a task: may stand under `defaults`
	body     bool                         // of a task: is a body
	only     []BodyKind                   // of a task: the bodies it means something for; none: all
	read     func(*loader, *draft, *node) // of a task: takes a value of the right shape
}

// table is the keys of one mapping of the language.
type table struct {
	of     string // what the mapping is: "a task"
	fields []field
	oneOf  []string // exactly one of these
}

func (t *table) field(name string) *field {
	for i := range t.fields {
		if t.fields[i].name == name {
			return &t.fields[i]
		}
	}
	return nil
}

// names are the keys that may be used.
func (t *table) names() []string {
	var out []string
	for _, f := range t.fields {
		out = append(out, f.name)
	}
	return out
}

// check reports everything in n that does not have the shape, label being how
// errors call the place. What it passed may be read without further ado.
func (r *report) check(s *shape, n *node, label string) bool {
	switch {
	case n.bad:
		return false
	case n.empty() && !(s.blank && s.list == nil):
		r.errorf(n.at, "no-value", s.wanted(), "%s has no value", label)
		return false
	case s.any:
		return r.checkAny(n, label)
	}
	switch n.kind {
	case listNode:
		return r.checkList(s, n, label)
	case mapNode:
		return r.checkMapping(s, n, label)
	}
	return r.checkScalar(s, n, label)
}

func (s *shape) wanted() string {
	if s.says == "" {
		return ""
	}
	return "it wants " + s.says
}

func (r *report) checkScalar(s *shape, n *node, label string) bool {
	if n.empty() && (s.object != nil || s.each != nil) {
		return true // `env:` with nothing under it
	}
	if s.scalar == nil {
		return r.mismatch(s, n, label)
	}
	if strings.IndexByte(n.text, 0) >= 0 {
		r.errorf(n.at, "nul", "", "%s holds a NUL, which no program can be given", label)
		return false
	}
	if slip := s.scalar(n.text, n); slip != nil {
		message := slip.message
		if message == "" {
			message = fmt.Sprintf("%s wants %s", label, s.says)
		}
		r.errorf(n.at, slip.rule, slip.mend, "%s", message)
		return false
	}
	return true
}

func (r *report) mismatch(s *shape, n *node, label string) bool {
	kind := map[nodeKind]string{scalarNode: "a single value", listNode: "a list", mapNode: "a mapping"}[n.kind]
	r.errorf(n.at, "type", "", "%s wants %s, not %s", label, s.says, kind)
	return false
}

func (r *report) checkList(s *shape, n *node, label string) bool {
	if s.list == nil {
		return r.mismatch(s, n, label)
	}
	if len(n.items) < s.min {
		r.errorf(n.at, "type", "", "%s is an empty list, and wants at least %d", label, s.min)
		return false
	}
	ok := true
	for _, item := range n.items {
		ok = r.check(s.list, item, "an item of "+label) && ok
	}
	return ok
}

func (r *report) checkMapping(s *shape, n *node, label string) bool {
	switch {
	case s.object != nil && (s.objectHas == "" || n.get(s.objectHas) != nil):
		return r.checkObject(s.object, n)
	case s.each == nil:
		return r.mismatch(s, n, label)
	}
	if s.max > 0 && len(n.entries) > s.max {
		r.errorf(n.at, "limit", "", "%s has %d entries: more than %d can't be", label, len(n.entries), s.max)
		return false
	}
	ok := true
	for _, e := range n.entries {
		if s.key != nil {
			if slip := s.key(e.key.text); slip != nil {
				r.errorf(e.key.at, slip.rule, slip.mend, "%s", slip.message)
				ok = false
			}
		}
		ok = r.check(s.each, e.value, "`"+e.key.text+"`") && ok
	}
	return ok
}

// checkObject checks a mapping of fixed keys: none unknown, none missing.
func (r *report) checkObject(t *table, n *node) bool {
	ok := true
	for _, e := range n.entries {
		f := t.field(e.key.text)
		switch {
		case f == nil:
			r.unknownKey(t, e)
		case r.check(f.shape, e.value, "`"+f.name+"`"):
			continue
		}
		ok = false
	}
	for _, f := range t.fields {
		if f.required && n.get(f.name) == nil && !t.misspelt(n, f.name) {
			r.errorf(n.at, "missing-key", "", "%s needs `%s`", t.of, f.name)
			ok = false
		}
	}
	return r.checkOneOf(t, n) && ok
}

func (r *report) checkOneOf(t *table, n *node) bool {
	if len(t.oneOf) == 0 {
		return true
	}
	var given []*node
	for _, e := range n.entries {
		if slices.Contains(t.oneOf, e.key.text) {
			given = append(given, e.key)
		}
	}
	switch {
	case len(given) == 0 && t.misspelt(n, t.oneOf...):
	case len(given) == 0:
		r.errorf(n.at, "missing-key", "", "%s needs one of %s", t.of, list(t.oneOf))
	case len(given) > 1:
		r.errorf(given[1].at, "one-of", "keep one of the two", "%s has one of %s; here `%s` stands beside `%s`", t.of, list(t.oneOf), given[1].text, given[0].text).
			note(r.text.rangeOf(given[0].at), "the other is here")
	default:
		return true
	}
	return false
}

// misspelt reports whether an unknown key of n is most likely one of names: then
// it need not be said that they are missing.
func (t *table) misspelt(n *node, names ...string) bool {
	for _, e := range n.entries[:min(len(n.entries), maxGuesses)] {
		if t.field(e.key.text) == nil && slices.Contains(names, Nearest(e.key.text, t.names())) {
			return true
		}
	}
	return false
}

func (r *report) unknownKey(t *table, e entry) {
	mend := r.didYouMean(e.key.text, t.names())
	if e.value.empty() && e.value.at.start < len(r.text.src) && strings.ContainsRune(",}", rune(r.text.src[e.value.at.start])) {
		mend = "in {braces} a text that holds a comma needs quotes"
	}
	r.errorf(e.key.at, "unknown-key", mend, "%s has no key `%s`", t.of, quotable(e.key.text))
}

// checkAny checks any JSON value: only a missing one is wrong.
func (r *report) checkAny(n *node, label string) bool {
	ok := true
	for _, item := range n.items {
		ok = r.check(anyShape(), item, "an item of "+label) && ok
	}
	for _, e := range n.entries {
		ok = r.check(anyShape(), e.value, "`"+quotable(e.key.text)+"`") && ok
	}
	return ok
}

func anyShape() *shape {
	return &shape{says: "any value; write null or \"\" for none", any: true}
}

// schema is s as JSON Schema. A table used in several places is written once,
// under its name in defs.
func (s *shape) schema() map[string]any {
	if s.any {
		return maps.Clone(s.orAnything())
	}
	var forms []any
	if s.scalar != nil {
		forms = append(forms, s.scalarSchema())
	}
	if s.list != nil {
		form := map[string]any{"type": "array", "items": s.list.schema()}
		if s.min > 0 {
			form["minItems"] = s.min
		}
		forms = append(forms, form)
	}
	if s.object != nil {
		forms = append(forms, s.object.schema())
	}
	if s.each != nil {
		form := map[string]any{"type": "object", "additionalProperties": s.each.schema()}
		if s.keys != "" {
			form["propertyNames"] = map[string]any{"pattern": s.keys}
		}
		if s.max > 0 {
			form["maxProperties"] = s.max
		}
		forms = append(forms, form)
	}
	if s.blank && s.scalar == nil {
		forms = append(forms, map[string]any{"type": "null"})
	}
	if len(forms) == 1 {
		return forms[0].(map[string]any)
	}
	return map[string]any{"anyOf": forms}
}

// orAnything is the JSON Schema of a value of any form.
func (s *shape) orAnything() map[string]any {
	if s.json == nil {
		return map[string]any{}
	}
	return s.json
}

func (s *shape) scalarSchema() map[string]any {
	if s.json != nil {
		return maps.Clone(s.json)
	}
	// A text may look like something else to YAML: 1.10, 010, no, 2024-01-02.
	return map[string]any{"type": []any{"string", "number", "boolean", "null"}}
}

// schema is the mapping as JSON Schema.
func (t *table) schema() map[string]any {
	properties := map[string]any{}
	var required []any
	for _, f := range t.fields {
		p := f.shape.schema()
		if f.doc != "" {
			p["description"] = f.doc
		}
		properties[f.name] = p
		if f.required {
			required = append(required, f.name)
		}
	}
	form := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		form["required"] = required
	}
	if len(t.oneOf) > 0 {
		var one []any
		for _, name := range t.oneOf {
			one = append(one, map[string]any{"required": []any{name}})
		}
		form["oneOf"] = one
	}
	return form
}
