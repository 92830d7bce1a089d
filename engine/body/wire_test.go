package body

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"operon/spec"
)

func TestReadAnswer(t *testing.T) {
	yes, no := true, false
	for line, want := range map[string]answer{
		`{"id":1,"value":null}`: {id: 1, value: []byte("null")},
		` { "value" : { "a" : 1.0 } , "id" : 18446744073709551615 } `: {id: 1<<64 - 1, value: []byte(`{"a":1.0}`)},
		`{"id":1,"error":"x","retry":true,"retry_after":0.5}`:         {id: 1, failed: true, error: "x", retry: &yes, after: time.Second / 2},
		`{"id":1,"error":"é\n","retry":false}`:                        {id: 1, failed: true, error: "é\n", retry: &no},
		`{"id":1,"value":2,"error":null,"later":[{"a":"}"}]}`:         {id: 1, value: []byte("2")},
		`{"id":1,"values":[]}`:                                        {id: 1, list: true},
	} {
		got, err := readAnswer([]byte(line), 10)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		same := got.id == want.id && bytes.Equal(got.value, want.value) && got.list == want.list && got.failed == want.failed &&
			got.error == want.error && got.after == want.after && (got.retry == nil) == (want.retry == nil)
		if !same || got.retry != nil && *got.retry != *want.retry {
			t.Errorf("%s: %+v", line, got)
		}
	}
	for line, want := range map[string]string{
		``: "expected an answer", `1`: "expected an answer", `{`: "expected a key", `{}`: "no id", `{"id":1`: "expected , or }", `{"id":1,}`: "expected a key",
		`{"id":-1,"value":1}`: "id is the number of a request", `{"id":"1"}`: "id is the number of a request", `{"id":1.0}`: "id is the number",
		`{"id":1,"id":2}`: "twice", `{"id":1} x`: "expected nothing after", `{"id":1,"values":{}}`: "values is a list, got object {}",
		`{"id":1,"retry":1}`: "retry is true or false", `{"id":1,"retry_after":-1}`: "retry_after is a number", `{"id":1,"retry_after":1e9}`: "a day at most",
		`{"id":1,"value":NaN}`: "expected a value", "\xef\xbb\xbf{}": "byte order mark", "{\"id\":1,\"value\":\"\xff\"}": "UTF-8",
		`{"id":1,"values":[1,2,3,4,5,6,7,8,9,10,11]}`: "more than 10 items",
	} {
		if _, err := readAnswer([]byte(line), 10); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// What is taken for an answer is a JSON object with one id, and its values are
// JSON too.
func FuzzReadAnswer(f *testing.F) {
	for _, s := range []string{
		`{"id":1,"value":null}`, `{"id":2,"values":[1,"a",{"b":[]}]}`, `{"id":3,"error":"x","retry":true,"retry_after":1.5}`, `{"id":4,"x":{"id":5}} `, `{"id":01}`, "{\"id\":1,\"value\":\"\\u00e9\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		a, err := readAnswer(bytes.Clone(line), 1000)
		if err != nil {
			return
		}
		var seen struct {
			ID    json.Number
			Value json.RawMessage
		}
		if err := json.Unmarshal(line, &seen); err != nil {
			t.Fatalf("%q was taken: %v", line, err)
		}
		if a.value != nil && !json.Valid(a.value) {
			t.Fatalf("the value of %q is %q", line, a.value)
		}
		for _, v := range a.values {
			if !json.Valid(v.JSON) {
				t.Fatalf("a value of %q is %q", line, v.JSON)
			}
		}
	})
}

// What the engine hands over by `env` for an attempt goes over everything else,
// and a program that ends with 75 asks to be run again.
func TestAttemptEnvironment(t *testing.T) {
	b := newBench(t, script(`echo "$GPU $OTHER"; exit 75`))
	b.cfg.Environ = append(b.cfg.Environ, "GPU=all", "OTHER=x")
	job := b.job()
	job.Env = []string{"GPU=1"}
	f := b.fails(KindExit, job, "exit status 75")
	if f.Retryable == nil || !*f.Retryable || f.Exit != 75 {
		t.Errorf("%+v", f)
	}
	b = newBench(t, script(`env | grep -c '^GPU='; env | grep '^GPU='`))
	b.cfg.Environ = append(b.cfg.Environ, "GPU=all")
	job = b.job()
	job.Env = []string{"GPU=0,1"}
	res, f := b.try(t.Context(), job)
	if f != nil || string(res.Items[0].JSON) != `"1\nGPU=0,1"` {
		t.Errorf("%v, %+v", res, f)
	}
}

// A job gets no more memory than its task says, and the failure says so.
func TestMemoryIsBounded(t *testing.T) {
	const python = `x = bytearray(200 << 20); print(len(x))`
	task := argv([]string{"python3", "-S", "-c", python})
	task.Mem = 100 << 20
	b := newBench(t, task)
	b.fails(KindExit, b.job(), "out of memory: `mem` gives it 100 MiB")
	task.Mem = 400 << 20
	if got := b.ok(); got[0] != `"209715200"` {
		t.Errorf("with enough it says %s", got)
	}
	worker := pyWorker("x = bytearray(200 << 20); say(id=id, value=1)")
	worker.Mem = 100 << 20
	w := newWorkers(t, worker)
	w.batch(t.Context(), "").wants(t, "exit: the worker died: exit status 1 (out of memory: `mem` gives it 100 MiB…")
	plain := script("exit 3")
	plain.Mem = 100 << 20
	b = newBench(t, plain)
	if f := b.fails(KindExit, b.job()); f.Message != "exit status 3" {
		t.Errorf("without need of memory it says %q", f.Message)
	}
}

func TestFuncIsGivenWhatItTakes(t *testing.T) {
	task := &spec.TaskSpec{Body: spec.Body{Kind: spec.BodyFunc, Func: "f"}}
	withInputs(task, []string{"a", "b"}, []string{"a", "b"})
	task.Mentions = nil
	b := newBench(t, task)
	if _, err := New(b.cfg, task); err == nil || !strings.Contains(err.Error(), `no function "f"`) {
		t.Errorf("a function that is not registered: %v", err)
	}
}
