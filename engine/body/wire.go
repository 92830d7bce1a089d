package body

import (
	"fmt"
	"strconv"
	"time"

	"operon/spec/value"
)

// The worker protocol, operon-worker/1: a JSON object a line, requests one way
// and answers the other, in any order.

// appendRequest appends the request of an attempt, with its line end.
func (a *attempt) appendRequest(b []byte, id uint64) ([]byte, error) {
	b = append(b, `{"id":`...)
	b = strconv.AppendUint(b, id, 10)
	b = append(b, `,"task":`...)
	b = value.AppendString(b, a.task.Name)
	b = append(b, `,"coord":{`...)
	for i, dim := range a.dims {
		if i > 0 {
			b = append(b, ',')
		}
		b = value.AppendString(b, dim)
		b = append(b, ':')
		b = strconv.AppendUint(b, uint64(a.job.Coord.At(i)), 10)
	}
	b = append(b, `},"args":{`...)
	a.bare = true
	for i, in := range a.task.In {
		if i > 0 {
			b = append(b, ',')
		}
		b = value.AppendString(b, in.Arg)
		b = append(b, ':')
		var err error
		if b, err = a.appendArg(b, i); err != nil {
			return nil, err
		}
	}
	return append(b, "}}\n"...), nil
}

// answer is one line of a worker.
type answer struct {
	id     uint64
	value  []byte        // nil: none
	values []value.Value // of a list
	list   bool          // values is given
	failed bool          // error is given
	error  string
	retry  *bool
	after  time.Duration
}

// readAnswer reads a line, which it takes over. The values are parts of it.
func readAnswer(line []byte, limit int) (a answer, err error) {
	t, err := newJSONText(line)
	if err != nil {
		return a, err
	}
	if t.space(); !t.at('{') {
		return a, t.errorf("expected an answer such as {\"id\": 1, \"value\": …}, got %s", t.here())
	}
	hasID, many := false, map[string]bool(nil)
	if t.space(); !t.at('}') {
		for more := true; more; {
			t.space()
			start := t.pos
			if err := t.key(0, &many); err != nil {
				return a, err
			}
			key := string(t.src[start+1 : t.pos-1])
			if t.space(); !t.at(':') {
				return a, t.errorf("expected : after a key, got %s", t.here())
			}
			if err := a.read(t, key, limit); err != nil {
				return a, err
			}
			hasID = hasID || key == "id"
			if t.space(); t.at('}') {
				more = false
			} else if !t.at(',') {
				return a, t.errorf("expected , or } in an answer, got %s", t.here())
			}
		}
	}
	if !t.atEnd() {
		return a, t.errorf("expected nothing after the answer, got %s", t.here())
	}
	if !hasID {
		return a, &jsonError{0, "the answer has no id"}
	}
	return a, nil
}

// read reads the value of one key of an answer. Keys that mean nothing are
// stepped over: a later protocol may have more.
func (a *answer) read(t *jsonText, key string, limit int) error {
	t.space()
	if key == "values" && t.at('[') {
		var err error
		a.values, err = t.items(limit)
		a.list = true
		return err
	}
	start := t.pos
	v, err := t.next()
	if err != nil {
		return err
	}
	wants := func(what string) error {
		return &jsonError{start, fmt.Sprintf("%s is %s, got %s %s", key, what, kindOf(v), quote(v))}
	}
	switch key {
	case "id":
		if a.id, err = strconv.ParseUint(string(v), 10, 64); err != nil {
			return wants("the number of a request")
		}
	case "value":
		a.value = v
	case "values":
		return wants("a list")
	case "error":
		if a.failed = string(v) != "null"; !a.failed {
			return nil
		}
		text, isText := value.FromJSON(v).Text()
		if a.error = text; !isText {
			a.error = string(v)
		}
	case "retry":
		if again := string(v) == "true"; again || string(v) == "false" {
			a.retry = &again
		} else if string(v) != "null" {
			return wants("true or false")
		}
	case "retry_after":
		seconds, err := strconv.ParseFloat(string(v), 64)
		if string(v) == "null" {
			return nil
		}
		if err != nil || seconds < 0 || seconds > maxRetryAfter.Seconds() {
			return wants("a number of seconds, a day at most")
		}
		a.after = time.Duration(seconds * float64(time.Second))
	}
	return nil
}

// maxRetryAfter is the longest wait that a worker can ask for.
const maxRetryAfter = 24 * time.Hour
