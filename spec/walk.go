package spec

import (
	"bytes"
	"errors"
	"io"

	"gopkg.in/yaml.v3"
)

// Limits of a document.
const (
	maxSource  = 64 << 20 // bytes
	maxNesting = 100      // lists and mappings within one another
	// maxExpansion is how much aliases may add to what is written: values, and
	// one more for each 32 bytes of text. Past it a file is a bomb, or reads as one.
	maxExpansion = 1_000_000
)

type nodeKind uint8

const (
	scalarNode nodeKind = iota
	listNode
	mapNode
)

// node is a value of the document: aliases followed, merge keys applied,
// duplicate keys taken out. An anchored node is shared by all its aliases, so
// that even a bomb costs no more than its text.
type node struct {
	kind    nodeKind
	text    string  // a scalar's source text: quotes taken off, nothing else read into it
	plain   bool    // a scalar without quotes, block indicator or tag
	items   []*node // of a list
	entries []entry // of a mapping
	at      span
	bad     bool // reported already: nothing more is to be said about it

	style  yaml.Style
	weight int // what it would take written out, aliases followed
	depth  int // lists and mappings within one another, this one counted
}

// entry is one key of a mapping.
type entry struct {
	key   *node
	value *node
	from  bool // brought in by a merge key
}

// empty reports whether nothing at all stands where the node would.
func (n *node) empty() bool { return n.kind == scalarNode && n.plain && n.text == "" }

// isMerge reports whether n is the key that merges mappings in.
func (n *node) isMerge() bool {
	return n.kind == scalarNode && n.plain && !n.bad && n.text == "<<"
}

// get is the value of a key, or nil.
func (n *node) get(key string) *node {
	for _, e := range n.entries {
		if e.key.text == key {
			return e.value
		}
	}
	return nil
}

// walker turns the parser's nodes into ours. Nothing is ever decoded into Go
// structs or maps: the parser's decoder reads 010 as 8, takes the first of two
// documents in silence, and can be made to panic.
type walker struct {
	*report
	anchored map[*yaml.Node]*node // what each anchored node became; nil while it is being walked
	expanded int
	bomb     bool
	end      int // where the node walked last ends, as written
}

// parse reads the one document of src. It returns nil where it found no value to
// go on with.
func (r *report) parse() *node {
	dec := yaml.NewDecoder(bytes.NewReader(r.text.src))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			r.errorf(span{}, "empty", "a first one is `pipeline: NAME`, then `tasks:`", "the file is empty")
			return nil
		}
		r.syntaxError(err)
		return nil
	}
	var second yaml.Node
	switch err := dec.Decode(&second); {
	case err == nil:
		at := r.text.offset(second.Line, second.Column)
		r.secondDocument(span{at, r.text.lineEnd(at)})
	case !errors.Is(err, io.EOF):
		r.syntaxError(err)
		return nil
	}
	if len(doc.Content) == 0 {
		return nil
	}
	w := &walker{report: r, anchored: map[*yaml.Node]*node{}}
	root := w.node(doc.Content[0], 1)
	if w.bomb {
		return nil // what else is wrong with a bomb is not worth the while
	}
	return root
}

func (r *report) secondDocument(at span) {
	r.errorf(at, "second-document", "keep each pipeline in a file of its own",
		"a second document begins here, and a pipeline file is one document")
}

// node walks y, which lies level lists and mappings deep.
func (w *walker) node(y *yaml.Node, level int) *node {
	if y.Kind == yaml.AliasNode {
		return w.alias(y, level)
	}
	if y.Anchor != "" {
		w.anchored[y] = nil
	}
	n := &node{style: y.Style, weight: 1}
	n.at.start = w.text.content(w.text.offset(y.Line, y.Column))
	switch y.Kind {
	case yaml.ScalarNode:
		w.scalar(n, y)
	case yaml.SequenceNode, yaml.MappingNode:
		w.collection(n, y, level)
	}
	if y.Anchor != "" {
		w.anchored[y] = n
	}
	return n
}

func (w *walker) scalar(n *node, y *yaml.Node) {
	n.kind = scalarNode
	n.text = y.Value
	n.plain = y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) == 0
	n.weight += len(y.Value) / 32
	n.at.end = w.text.scalarEnd(n)
	w.end = n.at.end
	w.tag(n, y, "!!str")
}

func (w *walker) collection(n *node, y *yaml.Node, level int) {
	n.kind = listNode
	want := "!!seq"
	if y.Kind == yaml.MappingNode {
		n.kind, want = mapNode, "!!map"
	}
	n.at.end = w.text.lineEnd(n.at.start)
	w.end = n.at.start + 1
	w.tag(n, y, want)
	if level > maxNesting {
		w.errorf(n.at, "limit", "", "lists and mappings lie more than %d deep in one another", maxNesting)
		n.bad = true
		return
	}
	if n.kind == listNode {
		for _, child := range y.Content {
			item := w.node(child, level+1)
			n.items = append(n.items, item)
			n.add(item)
		}
	} else {
		w.mapping(n, y, level)
	}
	n.depth++
	if y.Style&yaml.FlowStyle != 0 {
		n.at.end = w.text.bracketEnd(w.end)
	}
	w.end = n.at.end
}

// add counts a child into a collection.
func (n *node) add(child *node) {
	n.weight += child.weight
	n.depth = max(n.depth, child.depth)
}

// tag refuses every explicit tag that is not the one the value has anyway.
func (w *walker) tag(n *node, y *yaml.Node, want string) {
	if y.Style&yaml.TaggedStyle == 0 || y.ShortTag() == want {
		return
	}
	at := w.text.offset(y.Line, y.Column)
	end := at
	for end < n.at.start && w.text.src[end] > ' ' {
		end++
	}
	w.errorf(span{at, max(end, at+1)}, "tag", "leave it out", "tags have no meaning here")
	n.bad = true
}

// alias follows an alias to the node that was anchored.
func (w *walker) alias(y *yaml.Node, level int) *node {
	start := w.text.offset(y.Line, y.Column)
	at := span{start, start + 1 + len(y.Value)}
	w.end = at.end
	bad := &node{kind: scalarNode, at: at, bad: true, weight: 1}
	target, known := w.anchored[y.Alias]
	switch {
	case !known || target == nil:
		w.errorf(at, "alias", "", "the anchor &%s holds an alias to itself", y.Value)
		return bad
	case level+target.depth-1 > maxNesting:
		w.errorf(at, "limit", "", "with this alias, lists and mappings lie more than %d deep in one another", maxNesting)
		return bad
	}
	w.expanded += target.weight
	if w.expanded > maxExpansion {
		if !w.bomb {
			w.errorf(at, "alias", "write the values out, or take them from a file", "with this alias, the aliases of the file stand for more than %d values", maxExpansion)
		}
		w.bomb = true
		return bad
	}
	return target
}

// mapping walks the keys of a mapping: each once, those of merge keys behind
// those that are written.
func (w *walker) mapping(n *node, y *yaml.Node, level int) {
	seen := make(map[string]*node, len(y.Content)/2)
	var merges []*node // the mappings that merge keys bring in
	place := -1        // where among the entries
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := w.node(y.Content[i], level+1)
		if key.isMerge() {
			if place < 0 {
				place = len(n.entries)
			}
			// What is merged comes to lie in this mapping, not one deeper.
			merges = append(merges, w.merged(w.node(y.Content[i+1], level))...)
			continue
		}
		value := w.node(y.Content[i+1], level+1)
		n.add(value)
		switch {
		case key.bad:
			continue
		case key.kind != scalarNode:
			w.errorf(key.at, "key", "", "a key must be text, not a list or a mapping")
			continue
		}
		if first := seen[key.text]; first != nil {
			line, column := w.text.position(first.at.start)
			w.errorf(key.at, "duplicate-key", "keep one of the two", "the key `%s` is given twice; first at %d:%d", key.text, line, column).
				note(w.text.rangeOf(first.at), "first here")
			continue
		}
		seen[key.text] = key
		n.entries = append(n.entries, entry{key: key, value: value})
	}
	if place >= 0 {
		n.merge(place, merges, seen)
	}
}

// merged are the mappings that a merge key's value names.
func (w *walker) merged(value *node) []*node {
	list := []*node{value}
	if value.kind == listNode {
		list = value.items
	}
	for _, m := range list {
		if m.bad {
			return nil
		}
		if m.kind != mapNode {
			w.errorf(m.at, "merge", "`<<: *name` or `<<: [*one, *two]`", "a merge key takes a mapping or a list of mappings")
			return nil
		}
	}
	return list
}

// merge puts the entries of merges in at place: what is written in the mapping
// itself goes before them, and the earlier of them before the later.
func (n *node) merge(place int, merges []*node, seen map[string]*node) {
	var extra []entry
	for _, m := range merges {
		for _, e := range m.entries {
			if seen[e.key.text] != nil {
				continue
			}
			seen[e.key.text] = e.key
			n.add(e.value)
			extra = append(extra, entry{key: e.key, value: e.value, from: true})
		}
	}
	rest := append(extra, n.entries[place:]...)
	n.entries = append(n.entries[:place:place], rest...)
}
