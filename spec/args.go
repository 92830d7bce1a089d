package spec

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// nameArguments checks rule 11: the names that a body may mention are the
// task's arguments, the dimensions of its context, and the params, and they
// differ. `out` is the place of a file that the body writes.
func (l *loader) nameArguments(d *draft) {
	d.table = make(map[string]*named, len(d.inputs)+len(d.dims))
	for _, n := range d.dims {
		if n.text == "out" {
			l.errorf(n.at, "argument-clash", "name the dimension otherwise", "a dimension named `out` clashes with the place of the output file")
		}
		if l.pipeline.dims[n.text] == nil {
			continue // an unknown one clashes with nothing
		}
		d.table[n.text] = &named{what: "a dimension", at: n.at}
	}
	for _, in := range d.inputs {
		l.nameArgument(d, in)
	}
}

func (l *loader) nameArgument(d *draft, in draftInput) {
	arg := in.arg()
	at := in.at.at
	if in.alias != nil {
		at = in.alias.at
	}
	other := l.means(d, arg)
	if other == nil {
		d.table[arg] = &named{what: "an argument", at: at}
		return
	}
	mend := fmt.Sprintf("give it an alias: `in: {%s: %s}`", l.freeAlias(d, arg), yamlRef(in.ref))
	if in.alias != nil {
		mend = "choose another alias, such as `" + l.freeAlias(d, arg) + "`"
	}
	e := l.errorf(at, "argument-clash", mend, "the argument name `%s` of `%s` is taken: it is %s", arg, in.ref, other.theName())
	if other.at.end > 0 {
		e.note(l.text.rangeOf(other.at), "the other is here")
	}
}

func (n *named) theName() string {
	if n.what == "an argument" {
		return "another argument's name"
	}
	return n.what
}

// freeAlias is a name near arg that the task does not use.
func (l *loader) freeAlias(d *draft, arg string) string {
	for i := 2; ; i++ {
		if alias := fmt.Sprintf("%s_%d", arg, i); l.means(d, alias) == nil {
			return alias
		}
	}
}

// yamlRef is a reference as it is written within braces.
func yamlRef(r Reference) string {
	if len(r.Dims) > 1 {
		return "\"" + r.String() + "\""
	}
	return r.String()
}

// means is what a name means in a task's body, or nil.
func (l *loader) means(d *draft, name string) *named {
	if n := d.table[name]; n != nil {
		return n
	}
	if name == "out" {
		return &named{what: "the place of the output file"}
	}
	if l.pipeline.params[name] != nil {
		return &named{what: "a param"}
	}
	return nil
}

// known are the names that d's body may mention, out only where it means
// something.
func (l *loader) known(d *draft, out bool) []string {
	names := slices.Collect(maps.Keys(d.table))
	for _, p := range l.pipeline.Params {
		names = append(names, p.Name)
	}
	if out {
		names = append(names, "out")
	}
	return names
}

// writesFiles reports whether the body's output is what it writes at `out`.
func (d *draft) writesFiles() bool { return d.Format == FormatFile || d.Format == FormatFiles }

// checkBody checks what a task's body is made of, and compiles what it mentions.
func (l *loader) checkBody(d *draft) {
	l.checkFormat(d)
	l.checkFileName(d)
	l.checkEnv(d)
	switch d.Body.Kind {
	case BodyRun:
		for _, name := range ScriptMentions(d.Body.Script) {
			if l.means(d, name) != nil && (name != "out" || d.writesFiles()) {
				d.mentions[name] = true
			}
		}
	case BodyExec:
		for i, item := range d.body.items {
			l.mentionAll(d, item, d.Body.Argv[i], d.writesFiles())
		}
	case BodyWorker:
		for i, item := range d.body.items {
			l.mentionParams(d, item, d.Body.Argv[i])
		}
		l.mentionIndices(d)
	case BodyFunc:
		l.mentionIndices(d)
	case BodyJQ:
		l.checkJQ(d)
	case BodySource:
		l.checkSource(d)
	}
	d.Mentions = sortedKeys(d.mentions)
	l.checkOrder(d)
	l.compileStdin(d)
	l.checkSave(d)
	l.checkSchema(d)
	l.checkKey(d)
}

// isProcess reports whether each job is a process of its own.
func (d *draft) isProcess() bool { return d.Body.Kind == BodyRun || d.Body.Kind == BodyExec }

// mentionIndices counts as mentioned those dimensions of the context that no
// input brings: a worker or function is given the index, and where it is all
// that tells two jobs apart it will be looked at.
func (l *loader) mentionIndices(d *draft) {
	for _, dim := range d.Context {
		if !slices.ContainsFunc(d.In, func(in *Input) bool { return slices.Contains(in.Free, dim) }) {
			d.mentions[dim.Name] = true
		}
	}
}

// checkFormat checks that the output's form fits what the task returns.
func (l *loader) checkFormat(d *draft) {
	if !d.isProcess() {
		d.Format = "" // the body returns values, not bytes
		return
	}
	single := []Format{FormatText, FormatJSON, FormatFile}
	spawning := []Format{FormatLines, FormatJSONL, FormatJSON, FormatNul, FormatFiles}
	allowed, what := single, "one value from each job"
	if len(d.outRef.Dims) > 0 {
		allowed, what = spawning, "a list from each job"
	}
	if d.format == nil {
		d.Format = allowed[0]
		return
	}
	if d.out == nil || slices.Contains(allowed, d.Format) {
		return
	}
	at, from := d.format.at, ""
	if d.fromBase {
		at, from = d.name.at, " of `defaults`"
	}
	var words []string
	for _, f := range allowed {
		words = append(words, string(f))
	}
	l.errorf(at, "format", "one of "+list(words), "the format `%s`%s does not fit `%s`, which is %s", d.Format, from, d.outRef, what)
}

// checkFileName checks `file`, which names the file or says which files to take.
func (l *loader) checkFileName(d *draft) {
	n := d.file
	if n == nil || !d.isProcess() {
		return
	}
	switch d.Format {
	case FormatFiles:
		l.checkGlob(n)
		if strings.HasPrefix(n.text, "/") || slices.Contains(strings.Split(n.text, "/"), "..") {
			l.errorf(n.at, "file", "write it relative to the folder `$out`", "the glob leaves the folder")
		}
		d.Glob = n.text
	case FormatFile:
		d.File = ParseTemplate(n.text)
		l.mentionAll(d, n, d.File, false)
		literal := ""
		for _, p := range d.File {
			literal += p.Text
		}
		if strings.Contains(literal, "/") || n.text == "." || n.text == ".." || len(literal) > 255 {
			l.errorf(n.at, "file", "", "`file` is one file name: no folder, not `.` or `..`, at most 255 bytes")
		}
	default:
		l.errorf(n.at, "idle-key", "say `format: file` (one file) or `format: files` (all that match)", "`file` means nothing with `format: %s`", d.Format)
	}
}

// mentionAll notes the names of a template, and reports those that are unknown.
func (l *loader) mentionAll(d *draft, n *node, t Template, out bool) {
	_, at := parseTemplate(n.text)
	for i, p := range t {
		switch {
		case p.Name == "":
		case l.means(d, p.Name) != nil && (p.Name != "out" || out):
			d.mentions[p.Name] = true
		case p.Name == "out":
			l.errorf(l.within(n, at[i], at[i]+len("{out}")), "unknown-name", "say `format: file` or `format: files`; `{{out}}` for the word itself", "there is no `{out}` here: the output is not a file")
		default:
			l.unknownName(n, p.Name, at[i], l.known(d, out))
		}
	}
	l.warnBraces(n)
}

// mentionParams notes the params of a template of a worker, which is filled in
// once for many jobs, and reports every other name.
func (l *loader) mentionParams(d *draft, n *node, t Template) {
	_, at := parseTemplate(n.text)
	for i, p := range t {
		switch {
		case p.Name == "":
		case l.pipeline.params[p.Name] != nil:
			d.mentions[p.Name] = true
		case l.means(d, p.Name) != nil:
			l.errorf(l.within(n, at[i], at[i]+len(p.Name)+2), "unknown-name", "the worker finds it in each request", "a worker serves many jobs: `%s` is not known when it starts", p.Name)
		default:
			l.unknownName(n, p.Name, at[i], l.paramNames())
		}
	}
	l.warnBraces(n)
}

func (l *loader) paramNames() []string {
	var names []string
	for _, p := range l.pipeline.Params {
		names = append(names, p.Name)
	}
	return names
}

func (l *loader) unknownName(n *node, name string, at int, known []string) {
	mend := "write `{{" + name + "}}` for the word itself"
	if near := l.nearest(name, known); near != "" {
		mend = "did you mean `{" + near + "}`? or " + mend
	}
	l.errorf(l.within(n, at, at+len(name)+2), "unknown-name", mend, "`%s` is neither an argument nor a dimension of the task nor a param", name)
}

// warnBraces warns of doubled braces that don't pair: JSON ends in }} where no
// literal brace was meant.
func (l *loader) warnBraces(n *node) {
	opens, closes := strings.Count(n.text, "{{"), strings.Count(n.text, "}}")
	if opens != closes {
		l.warnf(n.at, "braces", "double every brace that is meant as itself", "`{{` and `}}` are literal single braces here, and there are %d of one and %d of the other", opens, closes)
	}
}

// checkEnv checks the environment: the pipeline's may mention params, the task's
// whatever its body may.
func (l *loader) checkEnv(d *draft) {
	if !d.isProcess() && d.Body.Kind != BodyWorker {
		d.env = nil
		return
	}
	for _, v := range d.env {
		if d.Body.Kind == BodyWorker {
			l.mentionParams(d, v.value, v.Value)
		} else {
			l.mentionAll(d, v.value, v.Value, d.writesFiles())
		}
		d.Env = append(d.Env, v.EnvVar)
		l.checkHidden(d, v)
	}
	for _, v := range l.env {
		if slices.ContainsFunc(d.env, func(own draftEnv) bool { return own.Name == v.Name }) {
			continue
		}
		for _, name := range v.Value.Names() {
			if l.means(d, name) != nil {
				d.mentions[name] = true
			}
		}
		l.checkHidden(d, v)
	}
}

// checkHidden refuses a variable that has the name of something a script
// mentions: which of the two it would read is anyone's guess.
func (l *loader) checkHidden(d *draft, v draftEnv) {
	other := l.means(d, v.Name)
	if d.Body.Kind != BodyRun || other == nil || v.Name == "out" && !d.writesFiles() {
		return
	}
	l.errorf(v.key.at, "env-clash", "give one of them another name", "the variable `%s` has the name of %s of the task `%s`", v.Name, strings.TrimPrefix(other.what, "the place of "), d.Name)
}

// checkPipelineEnv checks the names that the pipeline's own environment mentions.
func (l *loader) checkPipelineEnv() {
	params := l.paramNames()
	for _, v := range l.env {
		_, at := parseTemplate(v.value.text)
		for i, p := range v.Value {
			if p.Name != "" && l.pipeline.params[p.Name] == nil {
				l.unknownName(v.value, p.Name, at[i], params)
			}
		}
		l.warnBraces(v.value)
		l.pipeline.Env = append(l.pipeline.Env, v.EnvVar)
	}
}

// checkSource checks that a source has no inputs and returns a list.
func (l *loader) checkSource(d *draft) {
	if len(d.inputs) > 0 {
		l.errorf(d.keys["in"].at, "source", "leave `in` out", "a source takes no inputs")
	}
	if d.out != nil && len(d.outRef.Dims) == 0 {
		l.errorf(d.out.at, "source", fmt.Sprintf("name the dimension of the list: `out: %s<%s_no>`", d.outRef.Entity, SnakeCase(d.outRef.Entity)),
			"a source returns a list, and `%s` is one value", d.outRef.Entity)
	}
}

// checkOrder finds the dimensions of `order` in the task's context.
func (l *loader) checkOrder(d *draft) {
	var names []string
	for _, n := range d.dims {
		names = append(names, n.text)
	}
	seen := map[string]bool{}
	for _, n := range d.order {
		name := strings.TrimPrefix(n.text, "-")
		switch {
		case !slices.Contains(names, name):
			l.errorf(n.at, "order", l.didYouMean(name, names), "`order` names `%s`, which is no dimension of `for`", name)
		case seen[name]:
			l.errorf(n.at, "dimension-twice", "leave one of them out", "`order` names `%s` twice", name)
		}
		seen[name] = true
		position := slices.IndexFunc(d.Context, func(dim *Dim) bool { return dim.Name == name })
		if position >= 0 {
			d.Order = append(d.Order, OrderKey{Position: position, Descending: n.text != name})
		}
	}
}

// compileStdin says what standard input carries: what the body does not mention,
// if the user says nothing else. Several inputs come in the order of their
// names, so that the order of `in` changes no byte.
func (l *loader) compileStdin(d *draft) {
	switch {
	case d.Body.Kind == BodyJQ:
		d.Stdin.From = slices.Clone(d.In)
	case !d.isProcess(): // a worker or function finds all of them in its request
	case d.stdin == nil:
		for _, in := range d.In {
			if !d.mentions[in.Arg] {
				d.Stdin.From = append(d.Stdin.From, in)
			}
		}
	default:
		l.readStdinChoice(d)
	}
	slices.SortFunc(d.Stdin.From, func(a, b *Input) int { return cmp.Compare(a.Arg, b.Arg) })
}

func (l *loader) readStdinChoice(d *draft) {
	d.Stdin.Set = true
	from := d.stdin
	if from.kind == scalarNode && from.text == "none" {
		d.Stdin.None = true
		return
	}
	if from.kind == mapNode {
		if as := d.stdin.get("as"); as != nil {
			d.Stdin.As = StdinAs(as.text)
		}
		from = d.stdin.get("from")
	}
	var args []string
	for _, in := range d.inputs {
		args = append(args, in.arg())
	}
	if !slices.Contains(args, from.text) {
		l.errorf(from.at, "stdin", l.didYouMean(from.text, args), "`stdin` names `%s`, which is no input of the task", from.text)
		return
	}
	for _, in := range d.In {
		if in.Arg != from.text {
			continue
		}
		d.Stdin.From = []*Input{in}
		if d.Stdin.As == AsText && len(in.Slice) > 0 {
			l.errorf(d.stdin.get("as").at, "stdin", "one of `lines`, `nul`, `json` and `jsonl`", "`as: text` is for one value, and `%s` is a slice", in.Arg)
		}
	}
}

// warn reports what is legal in a task but most likely not meant.
func (l *loader) warn(d *draft) {
	for _, in := range d.In {
		carried := slices.Contains(d.Stdin.From, in)
		if d.Stdin.Set && !carried && !d.mentions[in.Arg] {
			l.warnf(d.stdin.at, "input-left-out", "mention it in the body, or take it out of `in`", "the input `%s` reaches the body neither by name nor on standard input", in.Arg)
		}
	}
	if d.Format == FormatFiles && !d.mentions["out"] {
		l.warnf(d.format.at, "no-out", "write the files into the folder `$out` (`{out}` in exec)", "the body of `%s` does not mention `out`, so it can return no files", d.Name)
	}
	if !d.Cache {
		return // equal jobs run each on their own, and that is what was asked for
	}
	for _, n := range d.dims {
		dim := l.pipeline.dims[n.text]
		brought := slices.ContainsFunc(d.In, func(in *Input) bool { return slices.Contains(in.Free, dim) })
		if !brought && !d.mentions[dim.Name] {
			l.warnf(n.at, "equal-jobs", "take an input that has it, mention it in the body, or leave it out of `for`", "no input of `%s` has the dimension `%s` and its body does not mention it: its jobs are equal", d.Name, dim.Name)
		}
	}
}
