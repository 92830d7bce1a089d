package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"operon/engine"
	"operon/engine/body"
	"operon/spec"
)

// A program that embeds the engine gives tasks bodies in Go.
func ExampleFunc() {
	p, err := spec.Load([]byte(`
pipeline: shout
tasks:
  words:
    out: Word<i>
    source: {values: [good, morning]}
  shout:
    in: Word
    for: i
    out: Shout
    func: upper
`), spec.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	dir, _ := os.MkdirTemp("", "shout")
	defer os.RemoveAll(dir)
	e, err := engine.New(p, engine.Options{Dir: dir, Funcs: []engine.Function{
		engine.FuncOf("upper", func(_ context.Context, word string) (string, error) {
			return strings.ToUpper(word) + "!", nil
		}),
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	s, err := e.Run(context.Background())
	fmt.Println(s.State, s.Executed, err)
	// Output: complete 3 <nil>
}

const functions = `pipeline: functions
defaults: {on_error: continue}
tasks:
  numbers:
    out: Number<i>
    func: numbers
  square:
    in: Number
    for: i
    out: Square
    func: square
  both:
    in: {all: "Square<i>", n: Number<i>}
    out: Both
    func: both
  each:
    for: i
    out: Each
    func: index
  panics:
    for: i
    out: Panic
    func: panics
  fails:
    out: Failure<j>
    func: fails
  slow:
    out: Slow
    timeout: 10ms
    func: slow
  empty:
    out: Empty<k>
    func: empty
  channel:
    out: Channel
    func: channel
`

func TestFuncs(t *testing.T) {
	p := newProject(t, functions)
	funcs := []engine.Function{
		engine.FuncOf("numbers", func(context.Context, any) ([]int, error) { return []int{1, 2, 3}, nil }),
		engine.FuncOf("square", func(_ context.Context, n int) (int, error) { return n * n, nil }),
		engine.FuncOf("both", func(_ context.Context, in struct{ All, N []int }) (string, error) {
			return fmt.Sprint(in.All, in.N, "<&>"), nil
		}),
		engine.Func("index", func(_ context.Context, args engine.FuncArgs) (any, error) { return args.Index["i"] * 10, nil }),
		engine.Func("panics", func(context.Context, engine.FuncArgs) (any, error) { panic("oh") }),
		engine.Func("fails", func(context.Context, engine.FuncArgs) (any, error) { return nil, errors.New("no") }),
		engine.Func("slow", func(ctx context.Context, _ engine.FuncArgs) (any, error) { <-ctx.Done(); return nil, ctx.Err() }),
		engine.Func("empty", func(context.Context, engine.FuncArgs) (any, error) { return []string(nil), nil }),
		engine.Func("channel", func(context.Context, engine.FuncArgs) (any, error) { return make(chan int), nil }),
	}
	s := p.mustRun(engine.Options{Funcs: funcs, Jobs: 2})
	kinds := map[string]string{}
	for _, g := range s.Failures {
		kinds[g.Task] = g.Kind + ": " + g.Sample.Message
	}
	for task, want := range map[string]string{
		"panics":  string(body.KindInternal) + ": panic in the function panics: oh",
		"fails":   string(body.KindExit) + ": no",
		"slow":    string(body.KindTimeout) + ": took longer than its timeout of 10ms",
		"channel": string(body.KindOutput) + ": what the function returned can't be written as JSON",
	} {
		if !strings.HasPrefix(kinds[task], want) {
			t.Errorf("%s: %q, want %q", task, kinds[task], want)
		}
	}
	for entity, want := range map[string]string{
		"Square": "i=0 1\ni=1 4\ni=2 9\n", "Both": "\"[1 4 9] [1 2 3]<&>\"\n", "Each": "i=0 0\ni=1 10\ni=2 20\n", "Empty": "",
	} {
		if got := p.values(entity); got != want {
			t.Errorf("%s is %s, want %s", entity, got, want)
		}
	}
}

func TestUnknownFunc(t *testing.T) {
	p := newProject(t, "pipeline: p\ntasks:\n  a: {out: A, func: uper}\n")
	_, err := p.run(engine.Options{Funcs: []engine.Function{engine.Func("upper", nil)}})
	var unknown *engine.UnknownError
	if !errors.As(err, &unknown) || unknown.Nearest != "upper" {
		t.Errorf("%v", err)
	}
}
