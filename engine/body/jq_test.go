package body

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"operon/spec"
	"operon/spec/value"
)

func TestFilters(t *testing.T) {
	nested := Arg{Slice: &value.Slice{Lens: [][]uint32{{2}, {2, 0}}, Items: []value.Value{value.FromText("a"), value.FromJSON([]byte("1.0"))}}}
	for name, c := range map[string]struct {
		code  string
		spawn bool
		names []string
		args  []Arg
		want  []string
	}{
		"number":           {". * 2", false, []string{"n"}, []Arg{raw("21")}, []string{"42"}},
		"fraction":         {"[. / 8, . * 1e100, -. ]", false, []string{"n"}, []Arg{raw("20")}, []string{"[2.5,2e+101,-20]"}},
		"large number":     {".", false, []string{"n"}, []Arg{raw("12345678901234567890")}, []string{"12345678901234567890"}},
		"digits survive":   {".", false, []string{"n"}, []Arg{raw(`[1.0,1e2,-0,0,-5,123456789012345678,1.10,"1\u00e9\n"]`)}, []string{`[1.0,1e2,-0,0,-5,123456789012345678,1.10,"1é\n"]`}},
		"no input":         {".", false, nil, nil, []string{"null"}},
		"object of two":    {".", false, []string{"b", "a"}, []Arg{text("x"), raw("[1]")}, []string{`{"a":[1],"b":"x"}`}},
		"mentioned too":    {"[., $n]", false, []string{"n"}, []Arg{raw("1")}, []string{`[1,1]`}},
		"nested slice":     {".", false, []string{"s"}, []Arg{nested}, []string{`[["a",1.0],[]]`}},
		"hole":             {".", false, []string{"s"}, []Arg{list(value.NewHole("x"), value.FromJSON([]byte("1")))}, []string{`[null,1]`}},
		"spawning":         {".[]", true, []string{"s"}, []Arg{texts("a", "b")}, []string{`"a"`, `"b"`}},
		"spawning nothing": {"empty", true, nil, nil, nil},
		"strings":          {`"<&>\u2028" + .`, false, []string{"s"}, []Arg{text("é\x7f")}, []string{"\"<&>\u2028é\x7f\""}},
	} {
		t.Run(name, func(t *testing.T) {
			task := filterTask(c.code, c.names...)
			if c.spawn {
				task = spawns(task, "")
			}
			b := newBench(t, task)
			if got := b.ok(c.args...); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestFilterNames(t *testing.T) {
	task := filterTask("[$i, $n, $conf, .]", "word")
	task.Context = []*spec.Dim{{Name: "i"}}
	task.Mentions = []string{"conf", "i", "n"}
	b := newBench(t, task)
	b.cfg.Pipeline.Params = []*spec.Param{
		{Name: "n", Value: value.FromJSON([]byte("1.10"))}, {Name: "conf", Value: value.FromJSON([]byte(`{"x":[1]}`))},
	}
	if got := b.ok(text("w")); got[0] != `[0,1.10,{"x":[1]},"w"]` {
		t.Errorf("%s", got)
	}
}

func TestFilterGetsFiles(t *testing.T) {
	b := newBench(t, filterTask("[.size, (.path | test(\"/x\\\\.txt$\"))]", "doc"))
	if got := b.ok(one(b.file("x.txt", "abc", false))); got[0] != `[3,true]` {
		t.Errorf("%s", got)
	}
}

func TestFiltersThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		code  string
		spawn bool
		kind  Kind
		says  string
	}{
		"error":             {`error("oh no")`, false, KindExit, "oh no"},
		"no result":         {"empty", false, KindOutput, "no result"},
		"two results":       {"1, [2]", false, KindOutput, "second is [2]"},
		"second fails":      {`1, error("late")`, false, KindExit, "late"},
		"list then error":   {`1, error("late")`, true, KindExit, "late"},
		"halt":              {"halt_error", false, KindExit, ""},
		"NaN":               {"nan", false, KindOutput, "no number"},
		"infinite":          {"infinite", false, KindOutput, "no number"},
		"wrong type":        {`"a" + 1`, false, KindExit, "cannot add"},
		"endless":           {"def f: f; f", false, KindTimeout, "timeout of 50ms"},
		"endless list":      {"repeat(1)", true, KindOutput, "too many"},
		"huge":              {`"x" * 2000000`, false, KindOutput, "larger than 1000000 bytes"},
		"huge when written": {`reduce range(60) as $i ("x"; [., .])`, false, KindOutput, "larger than 1000000 bytes"},
		"deep":              {"reduce range(2000) as $i (1; [.])", false, KindOutput, "nested deeper"},
	} {
		t.Run(name, func(t *testing.T) {
			task := filterTask(c.code)
			if c.spawn {
				task = spawns(task, "")
			}
			if c.kind == KindTimeout {
				task.Timeout = 50 * time.Millisecond
			}
			b := newBench(t, task)
			b.cfg.MaxMemory = 1_000_000
			b.fails(c.kind, b.job(), c.says)
		})
	}
}

func TestFilterMemoryIsBounded(t *testing.T) {
	task := filterTask(`[range(1e9) | tostring]`)
	b := newBench(t, task)
	b.cfg.MaxMemory = 16 << 20
	b.fails(KindOutput, b.job(), "memory")
}

func TestFilterIsCancelled(t *testing.T) {
	b := newBench(t, filterTask("def f: f; f"))
	why := errors.New("the user said so")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
	if _, f := b.try(ctx, b.job()); f == nil || f.Kind != KindCancelled || !errors.Is(f, why) {
		t.Errorf("%+v", f)
	}
}

func TestFilterThatDoesNotCompile(t *testing.T) {
	for _, code := range []string{"{", "nosuch", "$nobody"} {
		if _, err := New(&Config{}, filterTask(code)); err == nil || !strings.Contains(err.Error(), "jq") {
			t.Errorf("%q: %v", code, err)
		}
	}
}

// One Runner serves several goroutines.
func TestFilterSideBySide(t *testing.T) {
	task := filterTask("[.[] | . + 1] | add", "s")
	b := newBench(t, task)
	r, err := New(b.cfg, task)
	if err != nil {
		t.Fatal(err)
	}
	shared := list(value.FromJSON([]byte("1")), value.FromJSON([]byte("2")))
	done := make(chan error)
	for range 4 {
		go func() {
			for range 200 {
				res, err := r.Run(t.Context(), nil, &Job{Args: []Arg{shared}})
				if err == nil && string(res.Items[0].JSON) != "5" {
					err = errors.New(string(res.Items[0].JSON))
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// What a filter does not touch comes out as it went in, keys sorted.
func TestIdentityKeepsValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawJSON(t, 3)
		decoded, err := decode([]byte(v))
		if err != nil {
			t.Fatal(err)
		}
		w := jqWriter{limit: 1 << 20}
		if err := w.append(decoded); err != nil {
			t.Fatal(err)
		}
		if string(w.out) != v {
			t.Fatalf("%s became %s", v, w.out)
		}
	})
}

// drawJSON draws compact JSON with sorted keys and no needless escapes.
func drawJSON(t *rapid.T, depth int) string {
	if depth > 0 && rapid.Bool().Draw(t, "nested") {
		n := rapid.IntRange(0, 4).Draw(t, "n")
		var parts []string
		object := rapid.Bool().Draw(t, "object")
		for i := range n {
			part := drawJSON(t, depth-1)
			if object {
				part = string(value.AppendString(nil, string(rune('a'+i)))) + ":" + part
			}
			parts = append(parts, part)
		}
		if object {
			return "{" + strings.Join(parts, ",") + "}"
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	if rapid.Bool().Draw(t, "string") {
		return string(value.AppendString(nil, strings.ToValidUTF8(rapid.String().Draw(t, "text"), "")))
	}
	return rapid.OneOf(
		rapid.SampledFrom([]string{"true", "false", "null", "-0", "1.0", "1E+2", "0.10"}),
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,5})?`),
	).Draw(t, "scalar")
}

func TestDecodeAgreesWithEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawJSON(t, 3)
		if strings.ContainsAny(v, "0123456789") {
			return // numbers have types of their own
		}
		var want any
		if err := json.Unmarshal([]byte(v), &want); err != nil {
			t.Fatal(err)
		}
		if got, err := decode([]byte(v)); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: %v, want %v (%v)", v, got, want, err)
		}
	})
}
