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

// checkJQ checks a filter and notes what it mentions.
func (l *loader) checkJQ(d *draft) {
	filter := d.Body.Script
	if len(filter) > maxFilter {
		l.errorf(d.body.at, "limit", "", "the filter is longer than 64 KiB")
		return
	}
	query, err := gojq.Parse(filter)
	if err != nil {
		l.jqSyntax(d, err)
		return
	}
	if len(query.Imports) > 0 || query.Meta != nil {
		l.errorf(d.body.at, "jq", "write what it takes from there into the filter", "a filter can't import modules")
		return
	}
	refused := false
	for _, name := range jqNames(query) {
		if why := jqRefused(name); why != "" {
			refused = true
			l.errorf(l.within(d.body, wordAt(filter, name), wordAt(filter, name)+len(name)), "jq", "", "`%s` can't be used in a filter: %s", name, why)
		}
	}
	if !refused {
		l.compileJQ(d, query)
	}
}

func (l *loader) jqSyntax(d *draft, err error) {
	at, message := d.body.at, err.Error()
	var syntax *gojq.ParseError
	if errors.As(err, &syntax) {
		end := min(syntax.Offset, len(d.body.text))
		at = l.within(d.body, max(end-max(len(syntax.Token), 1), 0), end)
		if strings.HasSuffix(message, "EOF") {
			message = "it ends too soon"
		}
	}
	l.errorf(at, "jq", "", "the filter is not jq: %s", message)
}

// compileJQ compiles the filter as the body will, and lets the compiler itself
// tell which variables are free: it alone knows jq's scopes.
func (l *loader) compileJQ(d *draft, query *gojq.Query) {
	var variables []string
	for {
		_, err := gojq.Compile(query, gojq.WithVariables(variables))
		if err == nil {
			return
		}
		name, free := strings.CutPrefix(err.Error(), "variable not defined: $")
		if !free {
			l.jqCompileError(d, err)
			return
		}
		if l.means(d, name) == nil || name == "out" {
			at := wordAt(d.Body.Script, "$"+name)
			l.errorf(l.within(d.body, at, at+len(name)+1), "unknown-name", l.variableMend(name, l.known(d, false)), "`$%s` is neither an argument nor a dimension of the task nor a param", name)
		} else {
			d.mentions[name] = true
		}
		variables = append(variables, "$"+name)
	}
}

func (l *loader) variableMend(name string, known []string) string {
	if near := l.nearest(name, known); near != "" {
		return "did you mean `$" + near + "`?"
	}
	return ""
}

func (l *loader) jqCompileError(d *draft, err error) {
	at, message, mend := d.body.at, err.Error(), ""
	if name, found := strings.CutPrefix(message, "function not defined: "); found {
		message = fmt.Sprintf("jq has no function `%s`", name)
		name, _, _ = strings.Cut(name, "/")
		start := wordAt(d.Body.Script, name)
		at = l.within(d.body, start, start+len(name))
		mend = l.didYouMean(name, jqFunctions())
	}
	l.errorf(at, "jq", mend, "%s", message)
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
