package spec

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/itchyny/gojq"
)

// maxFilter bounds a jq filter: its compiler recurses as deep as the filter
// nests.
const maxFilter = 64 << 10

// JQVariables are the variables that t's filter takes from outside, without the
// $ and sorted: the arguments, dimensions and params it mentions. A filter that
// Load has passed compiles with these and nothing else. It is empty for any
// other body.
func JQVariables(t *TaskSpec) []string {
	if t.Body.Kind != BodyJQ {
		return nil
	}
	return slices.Clone(t.Mentions)
}

// jqRefused are the functions whose result depends on anything but the inputs,
// or that end more than the filter, each with the reason.
func jqRefused(name string) string {
	switch name {
	case "now":
		return "the result would depend on the clock"
	case "localtime", "strflocaltime":
		return "the result would depend on the machine's time zone"
	case "$ENV", "env":
		return "the result would depend on the environment"
	case "input", "inputs", "input_filename", "input_line_number":
		return "all inputs are in `.` already"
	case "halt", "halt_error":
		return "a filter can't end the engine; `error` fails the job"
	case "debug", "stderr":
		return "a filter has nowhere to print to"
	case "modulemeta", "get_search_list":
		return "the result would depend on files that are not inputs"
	}
	return ""
}

// filter is a jq filter of the document that is being compiled.
type filter struct {
	*loader
	at *node
	// use takes note of a variable that the filter does not define itself, and
	// reports one that it can't have.
	use func(name string)
}

// checkJQ checks a jq body and notes what it mentions.
func (l *loader) checkJQ(d *draft) {
	f := filter{loader: l, at: d.body}
	f.use = func(name string) {
		if l.means(d, name) == nil || name == "out" {
			f.unknown(name, l.variableMend(name, l.known(d, false)), "neither an argument nor a dimension of the task nor a param")
			return
		}
		d.mentions[name] = true
	}
	f.check()
}

// checkKey checks the filter that labels a list's items.
func (l *loader) checkKey(d *draft) {
	if d.label == nil {
		return
	}
	if d.out != nil && len(d.outRef.Dims) == 0 {
		l.errorf(d.keys["key"].at, "key-single", "leave it out", "`key` labels the items of a list, and `%s` is one value", d.outRef.Entity)
		return
	}
	f := filter{loader: l, at: d.label}
	f.use = func(name string) {
		f.unknown(name, "the item is `.`", "not known to `key`, which is given the item and nothing else")
	}
	f.check()
	d.KeyFilter = d.label.text
}

func (f filter) unknown(name, mend, what string) {
	at := wordAt(f.at.text, "$"+name)
	f.errorf(f.within(f.at, at, at+len(name)+1), "unknown-name", mend, "`$%s` is %s", name, what)
}

func (f filter) check() {
	text := f.at.text
	if len(text) > maxFilter {
		f.errorf(f.at.at, "limit", "", "the filter is longer than 64 KiB")
		return
	}
	query, err := gojq.Parse(text)
	if err != nil {
		f.syntax(err)
		return
	}
	if len(query.Imports) > 0 || query.Meta != nil {
		f.errorf(f.at.at, "jq", "write what it takes from there into the filter", "a filter can't import modules")
		return
	}
	refused := false
	for _, name := range jqNames(query) {
		if why := jqRefused(name); why != "" {
			refused = true
			f.errorf(f.within(f.at, wordAt(text, name), wordAt(text, name)+len(name)), "jq", "", "`%s` can't be used in a filter: %s", name, why)
		}
	}
	if !refused {
		f.compile(query)
	}
}

func (f filter) syntax(err error) {
	at, message := f.at.at, err.Error()
	var syntax *gojq.ParseError
	if errors.As(err, &syntax) {
		end := min(syntax.Offset, len(f.at.text))
		at = f.within(f.at, max(end-max(len(syntax.Token), 1), 0), end)
		if strings.HasSuffix(message, "EOF") {
			message = "it ends too soon"
		}
	}
	f.errorf(at, "jq", "", "the filter is not jq: %s", message)
}

// compile compiles the filter as it will be, and lets the compiler itself tell
// which variables are free: it alone knows jq's scopes.
func (f filter) compile(query *gojq.Query) {
	var variables []string
	for {
		_, err := gojq.Compile(query, gojq.WithVariables(variables))
		if err == nil {
			return
		}
		name, free := strings.CutPrefix(err.Error(), "variable not defined: $")
		if !free {
			f.compileError(err)
			return
		}
		f.use(name)
		variables = append(variables, "$"+name)
	}
}

func (l *loader) variableMend(name string, known []string) string {
	if near := l.nearest(name, known); near != "" {
		return "did you mean `$" + near + "`?"
	}
	return ""
}

func (f filter) compileError(err error) {
	at, message, mend := f.at.at, err.Error(), ""
	if name, found := strings.CutPrefix(message, "function not defined: "); found {
		message = fmt.Sprintf("jq has no function `%s`", name)
		name, _, _ = strings.Cut(name, "/")
		start := wordAt(f.at.text, name)
		at = f.within(f.at, start, start+len(name))
		mend = f.didYouMean(name, jqFunctions())
	}
	f.errorf(at, "jq", mend, "%s", message)
}

// jqFunctions are the functions that a filter may use.
func jqFunctions() []string {
	query, err := gojq.Parse(`builtins | map(split("/")[0])`)
	if err != nil {
		return nil
	}
	result, _ := query.Run(nil).Next()
	items, _ := result.([]any)
	var names []string
	for _, item := range items {
		if name, ok := item.(string); ok && jqRefused(name) == "" {
			names = append(names, name)
		}
	}
	return names
}

// jqNames are the functions and variables that a query uses, in order.
func jqNames(query *gojq.Query) []string {
	var names []string
	visitJQ(reflect.ValueOf(query), func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	})
	return names
}

// visitJQ walks a syntax tree. It goes by reflection because a tree walk that
// knows each kind of node would miss those that a later gojq adds, and what is
// missed here is a result that changes by itself.
func visitJQ(v reflect.Value, use func(name string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		switch n := v.Interface().(type) {
		case *gojq.Func:
			use(n.Name)
		case *gojq.ObjectKeyVal:
			if n.Val == nil { // {$name} reads the variable
				use(n.Key)
			}
		}
		visitJQ(v.Elem(), use)
	case reflect.Struct:
		for i := range v.NumField() {
			visitJQ(v.Field(i), use)
		}
	case reflect.Slice:
		for i := range v.Len() {
			visitJQ(v.Index(i), use)
		}
	}
}

// wordAt is where name first stands in text as a word, or 0.
func wordAt(text, name string) int {
	for from := 0; ; {
		i := strings.Index(text[from:], name)
		if i < 0 {
			return 0
		}
		i += from
		end := i + len(name)
		before := i > 0 && (isWord(text[i-1]) || text[i-1] == '.' || text[i-1] == '$')
		if !before && (end == len(text) || !isWord(text[end])) {
			return i
		}
		from = end
	}
}
