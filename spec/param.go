package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"operon/spec/value"
)

// ParamsFile is the content of a --params file: a mapping, param name to value.
type ParamsFile struct {
	report *report
	root   *node
}

// Names are the names that the file gives a value, in its order.
func (f *ParamsFile) Names() []string {
	if f == nil {
		return nil
	}
	var names []string
	for _, e := range f.root.entries {
		names = append(names, e.key.text)
	}
	return names
}

// ParseParams reads a --params file, YAML or JSON, as strictly as a pipeline
// file is read; file is the name shown in errors. The error is Errors. What the
// values must be is for the pipeline to say: Load checks them.
func ParseParams(src []byte, file string) (*ParamsFile, error) {
	r := &report{file: file}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	if !r.readable(src) {
		return nil, r.errs
	}
	root := r.parse()
	if root != nil && !root.bad {
		r.check(&shape{says: "a mapping, param name to value", each: anyShape(), key: nameKey("a param's name")}, root, "the file")
	}
	if errs := r.errs.inOrder(); len(errs) > 0 {
		return nil, errs
	}
	return &ParamsFile{report: r, root: root}, nil
}

func (f *ParamsFile) get(name string) *node {
	if f == nil {
		return nil
	}
	return f.root.get(name)
}

// readParams reads the params and finds each one's value: the command line's,
// else the params file's, else the environment's, else the default.
func (l *loader) readParams(n *node) {
	for _, e := range n.entries {
		if e.value.bad || !IsName(e.key.text) {
			continue
		}
		if e.key.text == "out" {
			l.errorf(e.key.at, "reserved", "take another name", "`out` is the place of a task's output file")
			continue
		}
		p := &Param{Name: e.key.text, Type: ParamString}
		l.pipeline.Params = append(l.pipeline.Params, p)
		l.pipeline.params[p.Name] = p
		l.declareName(e.key, "a param")
		if e.value.empty() || e.value.kind == listNode {
			continue // said by its shape
		}
		l.readParam(p, e)
	}
}

func (l *loader) readParam(p *Param, e entry) {
	fallback := e.value
	var choices []value.Value
	if e.value.kind == mapNode {
		fallback = e.value.get("default")
		quiet := &report{text: l.text}
		if !quiet.checkObject(paramShape().object, e.value) {
			return // said by its shape
		}
		choices = l.readParamKeys(p, e.value)
	}
	switch {
	case fallback == nil:
	case p.Secret:
		p.HasDefault = true
		l.secretDefault(p, fallback, choices)
	default:
		p.HasDefault = true
		p.Value = l.nodeValue(l.report, p, fallback, "the default of")
		l.checkChoice(p, choices, fallback)
	}
	l.overrideParam(p, e.key, choices)
}

// readParamKeys reads the mapping form and returns the choices.
func (l *loader) readParamKeys(p *Param, n *node) []value.Value {
	if t := n.get("type"); t != nil {
		p.Type = ParamType(t.text)
	}
	if env := n.get("env"); env != nil {
		p.EnvName = env.text
	}
	if secret := n.get("secret"); secret != nil {
		p.Secret = secret.yes()
	}
	if d := n.get("description"); d != nil {
		p.Description = d.text
	}
	var choices []value.Value
	if c := n.get("choices"); c != nil {
		for _, item := range c.items {
			v := l.nodeValue(l.report, p, item, "a choice of")
			choices = append(choices, v)
			p.Choices = append(p.Choices, (&Param{Value: v}).Text())
		}
	}
	return choices
}

// overrideParam replaces the default by what the run gives.
func (l *loader) overrideParam(p *Param, key *node, choices []value.Value) {
	if raw, given := l.options.Params[p.Name]; given {
		p.Given = true
		l.textValue(p, key, raw, "-p "+p.Name, choices)
		return
	}
	if n := l.options.ParamsFile.get(p.Name); n != nil {
		p.Given = true
		file := l.options.ParamsFile.report
		before := len(file.errs)
		p.Value = l.nodeValue(file, p, n, "the value of")
		if len(file.errs) == before && !chosen(p.Value, choices) {
			file.errorf(n.at, "param", p.suggest(p.Text()), "the param `%s` is one of %s", p.Name, list(p.Choices))
		}
		if p.Secret {
			hideFound(file.errs[before:])
		}
		l.errs = append(l.errs, file.errs[before:]...)
		file.errs = file.errs[:before]
		return
	}
	if l.options.LookupEnv == nil {
		return
	}
	if raw, set := l.lookup(p.EnvName); set {
		l.textValue(p, key, raw, "the environment variable "+p.EnvName, choices)
		return
	}
	if !p.HasDefault {
		l.errorf(key.at, "param", fmt.Sprintf("give it: -p %s=VALUE", p.Name), "the param `%s` has no default, and the run gives no value", p.Name)
	}
}

func (l *loader) lookup(name string) (string, bool) {
	if name == "" {
		return "", false
	}
	return l.options.LookupEnv(name)
}

// textValue makes a param's value of raw text from outside the file.
func (l *loader) textValue(p *Param, key *node, raw, from string, choices []value.Value) {
	v, problem := p.Type.parse(raw)
	shown := strconv.Quote(quotable(raw))
	if p.Secret {
		shown = "something else"
	}
	switch {
	case problem != "":
		l.errorf(key.at, "param", "", "%s is %s, but the param `%s` is %s", from, shown, p.Name, problem).Found = ""
		return
	case !chosen(v, choices):
		l.errorf(key.at, "param", p.suggest(raw), "%s is %s, but the param `%s` is one of %s", from, shown, p.Name, list(p.Choices)).Found = ""
		return
	}
	p.Value = v
}

// suggest is the mend for a value that is none of the choices. Of a secret it
// would tell what was given.
func (p *Param) suggest(given string) string {
	if p.Secret {
		return ""
	}
	return didYouMean(given, p.Choices)
}

// hideFound takes the offending text out of errors.
func hideFound(errs Errors) {
	for _, e := range errs {
		e.Found = ""
	}
}

// parse reads raw text as a value of the type; problem says what it had to be.
func (t ParamType) parse(raw string) (v value.Value, problem string) {
	trimmed := strings.TrimSpace(raw)
	switch {
	case t == ParamString:
		if strings.ToValidUTF8(raw, "") != raw || strings.ContainsRune(raw, 0) {
			return v, "a text in UTF-8 without NUL"
		}
		return value.FromText(raw), ""
	case t == ParamInt && wholePattern.MatchString(trimmed), t == ParamFloat && numberPattern.MatchString(trimmed),
		t == ParamBool && (trimmed == "true" || trimmed == "false"):
		return value.FromJSON([]byte(trimmed)), ""
	case t == ParamJSON:
		var b bytes.Buffer
		if strings.ToValidUTF8(raw, "") == raw && json.Compact(&b, []byte(raw)) == nil {
			return value.FromJSON(b.Bytes()), ""
		}
	}
	return v, t.says()
}

// says is the type in the user's terms.
func (t ParamType) says() string {
	switch t {
	case ParamInt:
		return "a whole number"
	case ParamFloat:
		return "a number"
	case ParamBool:
		return "true or false"
	case ParamJSON:
		return "JSON"
	}
	return "a text"
}

// nodeValue makes a param's value of a value in a document.
func (l *loader) nodeValue(r *report, p *Param, n *node, what string) value.Value {
	if n.bad {
		return value.Value{}
	}
	if p.Type == ParamJSON {
		return value.FromJSON(n.appendJSON(nil))
	}
	if n.kind == scalarNode && (n.plain || p.Type == ParamString) {
		if v, problem := p.Type.parse(n.text); problem == "" {
			return v
		}
	}
	mend := ""
	switch {
	case n.kind != scalarNode:
		mend = "a param that holds lists or mappings has `type: json`"
	case p.Type == ParamInt || p.Type == ParamFloat:
		mend = numberMend(n.text, n)
	}
	r.errorf(n.at, "param", mend, "%s the param `%s` must be %s", what, p.Name, p.Type.says())
	return value.Value{}
}

func (l *loader) checkChoice(p *Param, choices []value.Value, n *node) {
	if p.Value.Kind != 0 && !chosen(p.Value, choices) {
		l.errorf(n.at, "param", p.suggest(p.Text()), "the default of the param `%s` is not one of its choices", p.Name)
	}
}

// chosen reports whether v may be taken.
func chosen(v value.Value, choices []value.Value) bool {
	return len(choices) == 0 || v.Kind == 0 || slices.ContainsFunc(choices, func(c value.Value) bool { return bytes.Equal(c.JSON, v.JSON) })
}

// checkGiven refuses values for params that the pipeline does not have.
func (l *loader) checkGiven() {
	known := slices.Collect(maps.Keys(l.pipeline.params))
	given := map[string]bool{}
	for name := range l.options.Params {
		given[name] = true
	}
	for _, name := range sortedKeys(given) {
		if l.pipeline.params[name] == nil {
			l.errs = append(l.errs, &Error{File: l.file, Rule: "unknown-param", Message: "-p " + name + ": the pipeline has no param `" + name + "`", Mend: l.didYouMean(name, known)})
		}
	}
	f := l.options.ParamsFile
	if f == nil {
		return
	}
	for _, e := range f.root.entries {
		if l.pipeline.params[e.key.text] == nil {
			e := f.report.say(e.key.at, "unknown-param", l.didYouMean(e.key.text, known), "the pipeline has no param `"+e.key.text+"`")
			l.errs = append(l.errs, e)
		}
	}
}
