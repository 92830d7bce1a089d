package spec

import (
	"maps"
	"slices"
	"strings"
)

// declareName notes that a name is in use: in a pipeline each is used once,
// whatever it names.
func (l *loader) declareName(n *node, what string) {
	l.declareAt(n.text, n.at, what)
}

func (l *loader) declareAt(name string, at span, what string) {
	first := l.names[name]
	if first == nil {
		l.names[name] = &named{what, at}
		return
	}
	if first.at.start > at.start { // declared earlier, written later: blame the later
		first.what, what = what, first.what
		first.at, at = at, first.at
	}
	r := l.text.rangeOf(first.at)
	l.errorf(at, "name-twice", "rename one of the two", "the name `%s` is used twice: for %s here and for %s at %d:%d", name, what, first.what, r.Line, r.Column).
		note(r, "the other is here")
}

// declare makes the entities and dimensions that the tasks return (rule 1).
func (l *loader) declare() {
	l.pipeline.tasks = map[string]*TaskSpec{}
	l.pipeline.entities = map[string]*Entity{}
	l.pipeline.dims = map[string]*Dim{}
	for _, d := range l.drafts {
		if first := l.tasks[d.Name]; first == nil {
			l.tasks[d.Name] = d
			l.pipeline.tasks[d.Name] = d.TaskSpec
		}
		if IsName(d.Name) {
			l.declareName(d.name, "a task")
		}
		l.pipeline.Tasks = append(l.pipeline.Tasks, d.TaskSpec)
	}
	for _, d := range l.drafts {
		if d.out != nil {
			l.declareOut(d)
		}
	}
	l.allEntities = slices.Collect(maps.Keys(l.entities))
	l.allDims = slices.Collect(maps.Keys(l.dims))
}

// declareOut checks rule 1: each entity is produced by exactly one task, each
// dimension spawned by exactly one.
func (l *loader) declareOut(d *draft) {
	name := d.outRef.Entity
	at := l.within(d.out, 0, len(name))
	if first := l.entities[name]; first != nil {
		r := l.text.rangeOf(first.out.at)
		l.errorf(at, "one-producer", "give each its own entity", "`%s` is returned by two tasks, `%s` and `%s`", name, first.Name, d.Name).note(r, "the other is here")
		d.broken = true
		return
	}
	l.entities[name] = d
	d.Out = &Entity{Name: name, Producer: d.TaskSpec}
	l.pipeline.entities[name] = d.Out
	if len(d.outRef.Dims) == 0 {
		return
	}
	dim := d.outRef.Dims[0]
	at = l.within(d.out, d.outRef.DimAt[0], d.outRef.DimAt[0]+len(dim))
	if first := l.dims[dim]; first != nil {
		l.errorf(at, "one-spawner", "give each its own dimension", "the dimension `%s` is spawned by two tasks, `%s` and `%s`", dim, first.Name, d.Name).
			note(l.text.rangeOf(first.out.at), "the other is here")
		d.broken = true
		return
	}
	l.declareAt(dim, at, "a dimension")
	l.dims[dim] = d
	d.Spawn = &Dim{Name: dim, Spawner: d.TaskSpec}
	l.pipeline.dims[dim] = d.Spawn
	l.pipeline.Dims = append(l.pipeline.Dims, d.Spawn)
}

// link finds what the tasks' references and dimensions name.
func (l *loader) link() {
	maybe := l.halfRead()
	for _, d := range l.drafts {
		l.linkContext(d, maybe)
		for _, in := range d.inputs {
			l.linkInput(d, in, maybe)
		}
	}
}

// halfRead are the words of every `out` that could not be read: whoever speaks
// of them must not be told that they are unknown as well.
func (l *loader) halfRead() map[string]bool {
	maybe := map[string]bool{}
	for _, d := range l.drafts {
		if d.out != nil || d.node.kind != mapNode {
			continue
		}
		n := d.node.get("out")
		if n == nil {
			continue
		}
		for _, word := range strings.FieldsFunc(n.text, func(r rune) bool { return r > 127 || !isWord(byte(r)) }) {
			maybe[word] = true
		}
	}
	return maybe
}

// linkContext finds the dimensions of `for`; each stands there once (rule 10).
func (l *loader) linkContext(d *draft, maybe map[string]bool) {
	for _, n := range d.dims {
		dim := l.pipeline.dims[n.text]
		switch {
		case dim == nil:
			d.broken = true
			if !maybe[n.text] {
				l.errorf(n.at, "unknown-dimension", l.didYouMean(n.text, l.allDims), "there is no dimension `%s`: no task spawns it", n.text)
			}
		case slices.Contains(d.Context, dim):
			l.errorf(n.at, "dimension-twice", "leave one of them out", "`for` names `%s` twice", n.text)
		default:
			d.Context = append(d.Context, dim)
		}
	}
	if len(d.Context) > maxDims {
		l.errorf(d.dims[maxDims].at, "limit", "", "the task iterates over %d dimensions: more than %d can't be", len(d.Context), maxDims)
		d.broken = true
	}
}

func (l *loader) linkInput(d *draft, in draftInput, maybe map[string]bool) {
	producer := l.entities[in.ref.Entity]
	if producer == nil {
		d.broken = true
		if !maybe[in.ref.Entity] {
			l.errorf(l.within(in.at, 0, len(in.ref.Entity)), "unknown-entity", l.didYouMean(in.ref.Entity, l.allEntities),
				"there is no entity `%s`: no task returns it", in.ref.Entity)
		}
		return
	}
	input := &Input{Arg: in.arg(), Entity: producer.Out, HolesNull: in.holesNull, Line: l.text.line(in.at.at.start)}
	for i, name := range in.ref.Dims {
		at := l.within(in.at, in.ref.DimAt[i], in.ref.DimAt[i]+len(name))
		dim := l.pipeline.dims[name]
		switch {
		case dim == nil && !maybe[name]:
			l.errorf(at, "unknown-dimension", l.didYouMean(name, l.allDims), "there is no dimension `%s`: no task spawns it", name)
		case dim == nil:
		case input.Sliced(dim):
			l.errorf(at, "dimension-twice", "leave one of them out", "the slice names `%s` twice", name)
		default:
			input.Slice = append(input.Slice, dim)
			continue
		}
		d.broken = true
	}
	if len(input.Slice) > maxDims {
		l.errorf(in.at.at, "limit", "", "the slice is over %d dimensions: more than %d can't be", len(input.Slice), maxDims)
		d.broken = true
	}
	d.In = append(d.In, input)
}

// arg is the argument's name: the alias, else what follows from the reference.
func (in draftInput) arg() string {
	if in.alias != nil {
		return in.alias.text
	}
	return ArgName(in.ref.Entity, in.ref.Dims)
}
