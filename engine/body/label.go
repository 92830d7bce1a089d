package body

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/itchyny/gojq"

	"operon/spec"
	"operon/spec/value"
)

// Labels gives the items of a task's lists their labels: what its `key` filter
// says of each, or the base name of a file.
type Labels struct {
	code *gojq.Code // nil: names of files
}

// NewLabels makes the labels of a task's lists, nil if they have none.
func NewLabels(t *spec.TaskSpec) (*Labels, error) {
	files := t.Format == spec.FormatFiles || t.Body.Source != nil && t.Body.Source.Kind == spec.SourceGlob
	switch {
	case t.Spawn == nil || t.KeyFilter == "" && !files:
		return nil, nil
	case t.KeyFilter == "":
		return &Labels{}, nil
	}
	q, err := gojq.Parse(t.KeyFilter)
	if err != nil {
		return nil, fmt.Errorf("key of task %s: %w", t.Name, err)
	}
	code, err := gojq.Compile(q)
	if err != nil {
		return nil, fmt.Errorf("key of task %s: %w", t.Name, err)
	}
	return &Labels{code}, nil
}

// labelTime is how long the filter may take for one item.
const labelTime = 10 * time.Second

// Of is the label of an item. A filter must give exactly one text or number.
func (l *Labels) Of(ctx context.Context, v value.Value) (string, error) {
	if l.code == nil {
		if v.Kind != value.File {
			return "", errors.New("it is no file")
		}
		return v.File.Name, nil
	}
	input, err := decode(v.AppendJSON(nil))
	if err != nil {
		return "", err
	}
	b := &budget{Context: ctx, start: time.Now(), limit: labelTime, memory: 4 * DefaultMaxOutput}
	iter := l.code.RunWithContext(b, input)
	first, ok := iter.Next()
	if !ok {
		return "", errors.New("the filter has no result")
	}
	label, err := labelText(first)
	if err != nil {
		return "", err
	}
	if _, more := iter.Next(); more {
		return "", errors.New("the filter has more than one result")
	}
	return label, nil
}

func labelText(v any) (string, error) {
	switch v := v.(type) {
	case error:
		return "", fmt.Errorf("jq: %s", quoteLine(v.Error()))
	case string:
		if v == "" {
			return "", errors.New("the filter gives an empty text")
		}
		return v, nil
	case int:
		return strconv.Itoa(v), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	}
	if text, ok := v.(fmt.Stringer); ok { // a number that is no int
		return text.String(), nil
	}
	return "", fmt.Errorf("the filter gives %s, not a text", gojq.TypeOf(v))
}

// Check finds out whether each item of a list that is to have labels has one
// that no other has. Names of files may be equal: there the index tells.
func (l *Labels) Check(ctx context.Context, items []value.Value) *Failure {
	if l == nil || l.code == nil {
		return nil
	}
	seen := make(map[string]int, len(items))
	for i, v := range items {
		label, err := l.Of(ctx, v)
		if f := cancelled(ctx); f != nil {
			return f
		}
		if err != nil {
			return failf(KindOutput, "the key of item %d (%s): %v", i, quote(v.AppendJSON(nil)), err)
		}
		if other, twice := seen[label]; twice {
			return failf(KindOutput, "items %d and %d of the list have one key, %s; keys must differ within a list", other, i, strconv.Quote(label))
		}
		seen[label] = i
	}
	return nil
}
