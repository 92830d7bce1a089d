package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxSchema bounds the JSON Schema of a task, in bytes.
const maxSchema = 1 << 20

// checkSchema finds the JSON Schema of a task's values and compiles it once, so
// that a wrong one is told of here.
func (l *loader) checkSchema(d *draft) {
	n := d.schema
	if n == nil {
		return
	}
	text := n.appendJSON(nil)
	switch {
	case text[0] == '"':
		if l.options.Files == nil {
			return
		}
		var err error
		if text, err = l.readSchemaFile(n.text); err != nil {
			l.errorf(n.at, "schema", "`schema` is a JSON Schema, or the path of one from the pipeline file's folder", "%s", err)
			return
		}
	case text[0] != '{' && text[0] != 't' && text[0] != 'f':
		l.errorf(n.at, "schema", "", "`schema` wants a JSON Schema, or the path of one")
		return
	}
	if _, err := CompileSchema(text); err != nil {
		l.errorf(n.at, "schema", "", "%s", err)
		return
	}
	d.Schema = text
}

// readSchemaFile reads a JSON Schema that is written in JSON or YAML.
func (l *loader) readSchemaFile(path string) ([]byte, error) {
	raw, err := l.options.Files.ReadFile(path)
	switch {
	case err != nil:
		return nil, err
	case len(raw) > maxSchema:
		return nil, fmt.Errorf("the schema %s is longer than 1 MiB", path)
	}
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	var b bytes.Buffer
	jsonErr := json.Compact(&b, raw)
	if jsonErr == nil {
		return b.Bytes(), nil
	}
	if !strings.HasSuffix(path, ".yaml") && !strings.HasSuffix(path, ".yml") {
		return nil, fmt.Errorf("the schema %s is not JSON: %w", path, jsonErr)
	}
	r := &report{file: path}
	if !r.readable(raw) {
		return nil, r.errs[0]
	}
	root := r.parse()
	if len(r.errs) > 0 {
		return nil, r.errs[0]
	}
	return root.appendJSON(nil), nil
}

// CompileSchema compiles a JSON Schema, draft 2020-12 unless it says otherwise.
// Formats are checked, and nothing is loaded from anywhere: a reference points
// into the schema itself.
func CompileSchema(text []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("the schema is not JSON: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, fmt.Errorf("the schema can't be read: %w", err)
	}
	s, err := c.Compile(schemaURL)
	if err != nil {
		return nil, fmt.Errorf("the schema is none: %s", schemaProblem(err))
	}
	return s, nil
}

const schemaURL = "schema:"

// noLoader loads nothing.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%w: %s", errOutside, strings.TrimPrefix(url, schemaURL))
}

// errOutside is a reference to another document.
var errOutside = errors.New("a schema can't refer to what lies outside of it")

// schemaProblem is what a compiler says, on one line and without its own address.
func schemaProblem(err error) string {
	var load *jsonschema.LoadURLError
	if errors.As(err, &load) {
		err = load.Err
	}
	var invalid *jsonschema.SchemaValidationError
	if errors.As(err, &invalid) {
		err = invalid.Err
	}
	var broken *jsonschema.ValidationError
	if errors.As(err, &broken) {
		return SchemaBreach(broken)
	}
	return strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), schemaURL, "")), " ")
}

// SchemaBreach says where a value breaks its schema, and which rule: that of the
// innermost place, "at /words/3: got number, want string".
func SchemaBreach(err error) string {
	var broken *jsonschema.ValidationError
	if !errors.As(err, &broken) {
		return err.Error()
	}
	for len(broken.Causes) > 0 {
		deepest := broken.Causes[0]
		for _, c := range broken.Causes[1:] {
			if depth(c) > depth(deepest) {
				deepest = c
			}
		}
		broken = deepest
	}
	where := "the value"
	if len(broken.InstanceLocation) > 0 {
		where = ""
		for _, token := range broken.InstanceLocation {
			where += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
		}
	}
	return "at " + where + ": " + breachText(broken)
}

// depth is how deep in the value the innermost cause lies.
func depth(e *jsonschema.ValidationError) int {
	d := len(e.InstanceLocation)
	for _, c := range e.Causes {
		d = max(d, depth(c))
	}
	return d
}

// breachText is the rule alone: the library's text of an error without causes,
// less the place that it begins with.
func breachText(e *jsonschema.ValidationError) string {
	text := e.Error()
	if rest, found := strings.CutPrefix(text, "at '"); found {
		if _, rule, found := strings.Cut(rest, "': "); found {
			text = rule
		}
	}
	if keyword := e.ErrorKind.KeywordPath(); len(keyword) > 0 {
		text += " (" + strings.Join(keyword, "/") + ")"
	}
	return text
}
