package spec

import (
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
)

// Defaults of the language.
const (
	defaultBackoff    = time.Second
	defaultFactor     = 2
	defaultMaxBackoff = time.Minute
	defaultJitter     = 0.1
	defaultGrace      = 10 * time.Second
)

// readTop reads the top of the file, then each task.
func (l *loader) readTop(root *node) {
	t := pipelineTable()
	var tasks *node
	for _, e := range root.entries {
		f := t.field(e.key.text)
		switch {
		case f == nil:
			l.unknownKey(t, e)
		case f.name == "tasks":
			tasks = e.value
		case !l.check(f.shape, e.value, "`"+f.name+"`"):
			// Said already. Params are read all the same, so that none that is
			// right is called unknown further on, and so are the right `defaults`.
			if f.name == "params" || f.name == "pools" || f.name == "defaults" {
				l.readTopKey(f.name, e.value)
			}
		default:
			l.readTopKey(f.name, e.value)
		}
	}
	for _, f := range t.fields {
		if f.required && root.get(f.name) == nil && !t.misspelt(root, f.name) {
			l.errorf(span{}, "missing-key", "", "%s needs `%s`", t.of, f.name)
		}
	}
	if tasks != nil {
		l.readTasks(tasks)
	}
}

func (l *loader) readTopKey(name string, n *node) {
	switch {
	case n.bad:
	case name == "pipeline":
		l.pipeline.Name = n.text
	case name == "description":
		l.pipeline.Description = n.text
	case name == "params":
		l.readParams(n)
	case name == "env":
		l.env = l.readVariables(nil, n)
	case name == "pools":
		l.readPools(n)
	case name == "defaults" && n.kind == mapNode:
		l.defaults = n
	}
}

func (l *loader) readTasks(tasks *node) {
	f := pipelineTable().field("tasks")
	switch {
	case tasks.bad:
		return
	case tasks.kind != mapNode:
		l.check(f.shape, tasks, "`tasks`")
		return
	case len(tasks.entries) == 0:
		l.errorf(tasks.at, "no-tasks", "", "a pipeline needs at least one task")
		return
	case len(tasks.entries) > maxTasks:
		l.errorf(tasks.at, "limit", "", "a pipeline of %d tasks: more than %d can't be", len(tasks.entries), maxTasks)
		return
	}
	for _, e := range tasks.entries {
		if slip := f.shape.key(e.key.text); slip != nil {
			l.errorf(e.key.at, slip.rule, slip.mend, "%s", slip.message)
		}
		l.drafts = append(l.drafts, l.readTask(e))
	}
}

// readTask reads one task: its own keys, then those of `defaults` that it does
// not have.
func (l *loader) readTask(e entry) *draft {
	d := &draft{
		TaskSpec: &TaskSpec{
			Name: e.key.text, Index: len(l.drafts), Line: l.text.line(e.key.at.start),
			Grace: defaultGrace, Shell: shells("sh"), Cache: true, Keep: true, OnError: OnErrorStop,
		},
		name: e.key, node: e.value, keys: map[string]*node{}, mentions: map[string]bool{},
	}
	if !l.checkTaskNode(d) {
		d.broken = true
		return d
	}
	if l.defaults != nil {
		l.readDefaults(d)
	}
	for _, k := range e.value.entries {
		f := l.tables.field(k.key.text)
		switch {
		case f == nil:
			l.unknownKey(l.tables, k)
		case l.check(f.shape, k.value, "`"+f.name+"`"):
			if f.body {
				d.bodyKey = k.key
			}
			f.read(l, d, k.value)
			continue
		}
		// Only what says where the task stands in the graph makes the answers of
		// the rules meaningless.
		d.broken = d.broken || f != nil && slices.Contains([]string{"out", "in", "for"}, f.name)
	}
	l.checkTaskKeys(d)
	return d
}

func (l *loader) checkTaskNode(d *draft) bool {
	switch {
	case d.node.bad:
		return false
	case d.node.empty():
		l.errorf(d.name.at, "no-value", "", "the task `%s` is empty", quotable(d.Name))
		return false
	case d.node.kind != mapNode:
		return l.mismatch(&shape{says: "a mapping of a task's keys"}, d.node, "the task `"+quotable(d.Name)+"`")
	}
	for _, k := range d.node.entries {
		d.keys[k.key.text] = k.key
	}
	return true
}

// readDefaults reads the keys of `defaults` that the task does not have. `env`
// is read in any case: variables add up, and the task's own go before.
func (l *loader) readDefaults(d *draft) {
	for _, k := range l.defaults.entries {
		f := l.tables.field(k.key.text)
		if f == nil || !f.defaults || k.value.bad || d.keys[f.name] != nil && f.name != "env" {
			continue
		}
		quiet := &report{file: l.file, text: l.text}
		if !quiet.check(f.shape, k.value, "") {
			continue // said where `defaults` was checked
		}
		f.read(l, d, k.value)
		if f.name == "format" {
			d.fromBase = true
		}
	}
}

// checkTaskKeys checks the keys together: all that are needed, one body, none
// that means nothing beside it.
func (l *loader) checkTaskKeys(d *draft) {
	if d.keys["out"] == nil && !l.tables.misspelt(d.node, "out") {
		l.errorf(d.name.at, "missing-key", "say what it returns: `out: Entity`, or `out: Entity<dim>` for a list", "the task `%s` needs `out`", quotable(d.Name))
	}
	d.broken = d.broken || d.out == nil
	l.checkOneBody(d)
	if d.Body.Kind == "" {
		return
	}
	for _, k := range d.node.entries {
		f := l.tables.field(k.key.text)
		if f != nil && len(f.only) > 0 && !slices.Contains(f.only, d.Body.Kind) {
			l.errorf(k.key.at, "idle-key", "leave it out", "`%s` means nothing beside `%s`", f.name, d.Body.Kind)
		}
	}
}

func (l *loader) checkOneBody(d *draft) {
	var bodies []*node
	for _, k := range d.node.entries {
		if f := l.tables.field(k.key.text); f != nil && f.body {
			bodies = append(bodies, k.key)
		}
	}
	switch {
	case len(bodies) == 0 && l.tables.misspelt(d.node, l.tables.oneOf...):
	case len(bodies) == 0:
		l.errorf(d.name.at, "missing-key", "", "the task `%s` needs a body: one of %s", quotable(d.Name), list(l.tables.oneOf))
	case len(bodies) > 1:
		l.errorf(bodies[1].at, "one-of", "keep one of the two", "the task `%s` has two bodies, `%s` and `%s`", quotable(d.Name), bodies[0].text, bodies[1].text).
			note(l.text.rangeOf(bodies[0].at), "the other is here")
	}
}

// refError reports a reference that can't be read.
func (l *loader) refError(n *node, err error) {
	if e, ok := err.(*RefError); ok {
		l.errorf(l.within(n, e.Start, e.End), "reference", e.Mend, "%s", e.Message)
	}
}

func (l *loader) readOut(d *draft, n *node) {
	ref, err := ParseRef(n.text)
	if err != nil {
		l.refError(n, err)
		d.broken = true
		return
	}
	if len(ref.Dims) > 1 {
		at := l.within(n, ref.DimAt[1], ref.DimAt[1]+len(ref.Dims[1]))
		l.errorf(at, "out", "the other dimensions are those of `for`", "a task spawns one dimension at most")
		d.broken = true
		return
	}
	d.out, d.outRef = n, ref
}

func (l *loader) readIn(d *draft, n *node) {
	switch n.kind {
	case mapNode:
		if n.get("holes") != nil {
			l.readInput(d, nil, n)
			return
		}
		for _, e := range n.entries {
			l.readInput(d, e.key, e.value)
		}
	default:
		for _, item := range n.scalars() {
			l.readInput(d, nil, item)
		}
	}
}

func (l *loader) readInput(d *draft, alias, n *node) {
	var holes *node
	if n.kind == mapNode {
		holes, n = n.get("holes"), n.get("from")
	}
	ref, err := ParseRef(n.text)
	if err != nil {
		l.refError(n, err)
		d.broken = true
		return
	}
	if holes != nil && len(ref.Dims) == 0 {
		l.errorf(holes.at, "holes", "leave it out, or take a slice: `"+ref.Entity+"<dim>`", "`holes` is for slices, and `%s` is one value: a job that takes a hole is one", ref.Entity)
	}
	d.inputs = append(d.inputs, draftInput{alias: alias, at: n, ref: ref, holesNull: holes != nil})
}

func (l *loader) readFor(d *draft, n *node)   { d.dims = n.scalars() }
func (l *loader) readOrder(d *draft, n *node) { d.order = n.scalars() }
func (l *loader) readDeps(d *draft, n *node)  { d.deps = n.scalars() }

func (l *loader) readRun(d *draft, n *node) {
	l.setBody(d, n, Body{Kind: BodyRun, Script: n.text})
}

func (l *loader) readJQ(d *draft, n *node) {
	l.setBody(d, n, Body{Kind: BodyJQ, Script: n.text})
}

func (l *loader) readExec(d *draft, n *node) {
	var argv []Template
	for _, item := range n.items {
		argv = append(argv, ParseTemplate(item.text))
	}
	if n.items[0].text == "" {
		l.errorf(n.items[0].at, "value", "", "the program's name is empty")
	}
	l.setBody(d, n, Body{Kind: BodyExec, Argv: argv})
}

func (l *loader) readWorker(d *draft, n *node) {
	b := Body{Kind: BodyWorker, Concurrency: 1}
	argv := n
	if n.kind == mapNode {
		argv = n.get("argv")
		if c := n.get("concurrency"); c != nil {
			b.Concurrency = c.whole()
		}
	}
	for _, item := range argv.items {
		b.Argv = append(b.Argv, ParseTemplate(item.text))
	}
	if argv.items[0].text == "" {
		l.errorf(argv.items[0].at, "value", "", "the program's name is empty")
	}
	l.setBody(d, argv, b)
}

func (l *loader) readFunc(d *draft, n *node) {
	l.setBody(d, n, Body{Kind: BodyFunc, Func: n.text})
}

func (l *loader) setBody(d *draft, n *node, b Body) {
	b.Line, b.Column = l.text.position(l.text.inside(n, 0))
	d.Body, d.body = b, n
}

func (l *loader) readSource(d *draft, n *node) {
	s := &Source{}
	for _, e := range n.entries {
		switch e.key.text {
		case "copy":
			s.Copy = e.value.yes()
			if n.get("glob") == nil {
				l.errorf(e.key.at, "idle-key", "leave it out", "`copy` means nothing without `glob`")
			}
			continue
		case "glob":
			for _, pattern := range e.value.scalars() {
				l.checkGlob(pattern)
				s.Globs = append(s.Globs, pattern.text)
			}
		case "values":
			for _, item := range e.value.items {
				s.Values = append(s.Values, item.appendJSON(nil))
			}
		case "count":
			s.Count = uint32(e.value.whole())
		default:
			s.Path = e.value.text
		}
		s.Kind = SourceKind(e.key.text)
	}
	l.setBody(d, n, Body{Kind: BodySource, Source: s})
}

func (l *loader) checkGlob(n *node) {
	if !doublestar.ValidatePattern(n.text) {
		l.errorf(n.at, "glob", "a `[` or `{` that is meant as itself is written `\\[` or `\\{`", "the pattern can't be read")
	}
}

func (l *loader) readStdin(d *draft, n *node) {
	d.stdin = n
	if d.keys["stdin"] != nil {
		d.stdinAt = d.keys["stdin"].at
	}
}

func (l *loader) readFormat(d *draft, n *node) {
	d.format, d.Format, d.fromBase = n, Format(n.text), false
}
func (l *loader) readFile(d *draft, n *node) { d.file = n }

func (l *loader) readRetry(d *draft, n *node) {
	r := Retry{
		Backoff: defaultBackoff, Factor: defaultFactor, MaxBackoff: defaultMaxBackoff, Jitter: defaultJitter,
		OnExit: true, OnSignal: true, OnTimeout: true, OnOutput: true,
	}
	if n.kind == scalarNode {
		r.Times = n.whole()
		d.Retry = r
		return
	}
	for _, e := range n.entries {
		switch e.key.text {
		case "times":
			r.Times = e.value.whole()
		case "backoff":
			r.Backoff = e.value.duration()
		case "factor":
			r.Factor = e.value.number()
		case "max_backoff":
			r.MaxBackoff = e.value.duration()
		case "jitter":
			r.Jitter = e.value.number()
		case "on":
			r.on(e.value)
		}
	}
	d.Retry = r
}

// on sets what is tried again.
func (r *Retry) on(n *node) {
	r.OnExit, r.OnSignal, r.OnTimeout, r.OnOutput = false, false, false, false
	for _, item := range n.scalars() {
		switch item.text {
		case "exit":
			r.OnExit = true
		case "signal":
			r.OnSignal = true
		case "timeout":
			r.OnTimeout = true
		case "output":
			r.OnOutput = true
		default:
			if status := item.whole(); !slices.Contains(r.Exits, status) {
				r.Exits = append(r.Exits, status)
			}
		}
	}
	slices.Sort(r.Exits)
}

func (l *loader) readTimeout(d *draft, n *node)     { d.Timeout = n.duration() }
func (l *loader) readGrace(d *draft, n *node)       { d.Grace = n.duration() }
func (l *loader) readWorkdir(d *draft, n *node)     { d.Workdir = n.text }
func (l *loader) readCache(d *draft, n *node)       { d.Cache = n.yes() }
func (l *loader) readDescription(d *draft, n *node) { d.Description = n.text }
func (l *loader) readCPUs(d *draft, n *node)        { d.CPUs = n.number() }
func (l *loader) readMem(d *draft, n *node)         { d.Mem = n.size() }
func (l *loader) readGPUs(d *draft, n *node)        { d.GPUs = n.whole() }
func (l *loader) readKeep(d *draft, n *node)        { d.Keep = n.yes() }
func (l *loader) readOnError(d *draft, n *node)     { d.OnError = OnError(n.text) }
func (l *loader) readSave(d *draft, n *node)        { d.save = n }
func (l *loader) readSchema(d *draft, n *node)      { d.schema = n }
func (l *loader) readKey(d *draft, n *node)         { d.label = n }

func (l *loader) readShell(d *draft, n *node) {
	if n.kind == scalarNode {
		d.Shell = shells(n.text)
		return
	}
	d.Shell = nil
	for _, item := range n.items {
		d.Shell = append(d.Shell, item.text)
	}
	if d.Shell[0] == "" {
		l.errorf(n.items[0].at, "value", "", "the shell's name is empty")
	}
}

// shells are the shells that are known by name: each ends at the first command
// that fails, bash also where one inside a pipe does.
func shells(name string) []string {
	if name == "bash" {
		return []string{"bash", "-eo", "pipefail", "-c"}
	}
	return []string{"sh", "-e", "-c"}
}

func (l *loader) readEnv(d *draft, n *node) { d.env = l.readVariables(d.env, n) }

// readVariables adds the variables of n to base, those of the same name
// replaced in place.
func (l *loader) readVariables(base []draftEnv, n *node) []draftEnv {
	out := slices.Clone(base)
	for _, e := range n.entries {
		if e.value.bad || e.value.kind != scalarNode || !isVariable(e.key.text) {
			continue
		}
		if strings.HasPrefix(e.key.text, "OPERON_") || e.key.text == "TMPDIR" {
			l.errorf(e.key.at, "reserved", "take another name", "the variable %s is set for every job and can't be changed", e.key.text)
			continue
		}
		v := draftEnv{EnvVar: EnvVar{Name: e.key.text, Value: ParseTemplate(e.value.text)}, key: e.key, value: e.value}
		if i := slices.IndexFunc(out, func(o draftEnv) bool { return o.Name == v.Name }); i >= 0 {
			out[i] = v
			continue
		}
		out = append(out, v)
	}
	return out
}
