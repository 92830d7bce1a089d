package body

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"operon/spec"
	"operon/spec/value"
)

func TestScripts(t *testing.T) {
	for name, c := range map[string]struct {
		task *spec.TaskSpec
		args []Arg
		want []string
	}{
		"text":              {script("echo hello"), nil, []string{`"hello"`}},
		"one line end":      {script(`printf 'a\n\n'`), nil, []string{`"a\n"`}},
		"nothing":           {script(":"), nil, []string{`""`}},
		"by name":           {script(`printf %s "$word"`, "word"), []Arg{text("a  b")}, []string{`"a  b"`}},
		"in braces":         {script(`printf %s "${word%c}"`, "word"), []Arg{text("abc")}, []string{`"ab"`}},
		"on stdin":          {script("cat; printf .", "word"), []Arg{text("x")}, []string{`"x."`}},
		"number on stdin":   {script("cat; printf .", "word"), []Arg{raw("1.0")}, []string{`"1.0\n."`}},
		"two on stdin":      {script("cat; printf .", "a", "b"), []Arg{text("x"), raw("[1,2]")}, []string{`"{\"a\":\"x\",\"b\":[1,2]}\n."`}},
		"one of each":       {script(`printf %s "$a"; cat`, "a", "b"), []Arg{text("x"), text("y")}, []string{`"xy"`}},
		"no input, no wait": {script("cat"), nil, []string{`""`}},
		"slice on stdin":    {script("cat; printf .", "ws"), []Arg{texts("a", "", "b")}, []string{`"a\n\nb\n."`}},
		"empty slice":       {script("cat; printf .", "ws"), []Arg{texts()}, []string{`"."`}},
		"slice by name":     {script(`printf %s "$ws"`, "ws"), []Arg{texts("a", "b")}, []string{`"a\nb"`}},
		"exec":              {argv([]string{"printf", "%s-%s", "{word}", "x{word}{{word}}"}, "word"), []Arg{text("a b")}, []string{`"a b-xa b{word}"`}},
		"exec of a slice":   {argv([]string{"printf", "(%s)", "{ws}"}, "ws"), []Arg{texts("a", "b c", "")}, []string{`"(a)(b c)()"`}},
		"exec, empty slice": {argv([]string{"echo", "x", "{ws}"}, "ws"), []Arg{texts()}, []string{`"x"`}},
		"slice in an entry": {argv([]string{"printf", "%s", "[{ws}]"}, "ws"), []Arg{texts("a", "b")}, []string{`"[a\nb]"`}},
		"json":              {formatted(script(`echo '{ "a": [1, 12345678901234567890, 1.0] }'`), spec.FormatJSON), nil, []string{`{"a":[1,12345678901234567890,1.0]}`}},
		"lines":             {spawns(script(`printf 'a\n\nb\r\nc'`), ""), nil, []string{`"a"`, `""`, `"b\r"`, `"c"`}},
		"no lines":          {spawns(script(":"), ""), nil, nil},
		"a lone line end":   {spawns(script("echo"), ""), nil, []string{`""`}},
		"jsonl":             {spawns(script(`printf '1\n\n {"a": 2}\r\n"x"'`), spec.FormatJSONL), nil, []string{`1`, `{"a":2}`, `"x"`}},
		"array":             {spawns(script(`echo '[1, [2, 3], "x"]'`), spec.FormatJSON), nil, []string{`1`, `[2,3]`, `"x"`}},
		"empty array":       {spawns(script(`echo '[ ]'`), spec.FormatJSON), nil, nil},
		"nul":               {spawns(script(`printf 'a\nb\0\0c\0'`), spec.FormatNul), nil, []string{`"a\nb"`, `""`, `"c"`}},
		"no nul":            {spawns(script(":"), spec.FormatNul), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.task)
			if got := b.ok(c.args...); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// No value may become code, whatever it holds.
func TestValuesDoNotInject(t *testing.T) {
	for _, s := range []string{
		`'; touch pwned; '`, `"$(touch pwned)"`, "`touch pwned`", "a\nb\n", "\ttab ", "-n", "--", "$HOME", "日本 🎉", `\`, "*", "", `{word}`, "%s",
	} {
		for _, task := range []*spec.TaskSpec{
			script(`printf '%s.' "$word"`, "word"), script(`cat; printf .`, "word"), argv([]string{"printf", "%s.", "{word}"}, "word"),
		} {
			b := newBench(t, formatted(task, spec.FormatText))
			want := string(value.FromText(s + ".").JSON)
			if got := b.ok(text(s)); len(got) != 1 || got[0] != want {
				t.Errorf("%q arrived as %q", s, got)
			}
			if _, err := os.Stat(filepath.Join(b.dir, "pwned")); err == nil {
				t.Fatalf("%q was run as code", s)
			}
		}
	}
}

func TestEnvironment(t *testing.T) {
	task := script("env | sort; echo $word >/dev/null", "word", "other")
	task.Context = []*spec.Dim{{Name: "i"}}
	task.Env = []spec.EnvVar{
		{Name: "OWN", Value: spec.ParseTemplate("<{word}/{i}>")}, {Name: "BOTH", Value: spec.ParseTemplate("task")},
		{Name: "CODE", Value: spec.ParseTemplate("{n}")},
	}
	b := newBench(t, task)
	b.cfg.Pipeline.Params = []*spec.Param{{Name: "n", Value: value.FromJSON([]byte("1.10"))}}
	b.cfg.Pipeline.Env = []spec.EnvVar{{Name: "BOTH", Value: spec.ParseTemplate("pipeline")}, {Name: "ALL", Value: spec.ParseTemplate("x")}}
	b.cfg.Environ = []string{"PATH=" + os.Getenv("PATH"), "BOTH=inherited", "KEPT=1", "KEPT=2", "OPERON_JOB=outer", "nonsense"}
	t.Setenv("SECRET", "engine's own")
	job := b.job(text("w"), text("stdin"))
	res, f := b.try(t.Context(), job)
	if f != nil {
		t.Fatal(f)
	}
	got, _ := res.Items[0].Text()
	env := map[string]string{}
	for line := range strings.Lines(got) {
		name, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		env[name] = v
	}
	tmp := env["TMPDIR"]
	for _, shell := range []string{"PWD", "_", "SHLVL", "OLDPWD", "TMPDIR", "PATH"} {
		delete(env, shell)
	}
	want := map[string]string{
		"OWN": "<w/0>", "BOTH": "task", "ALL": "x", "CODE": "1.10", "KEPT": "2", "word": "w",
		"OPERON_JOB": job.Token, "OPERON_TASK": "work", "OPERON_COORD": "i=0", "OPERON_RUN_ID": "run", "OPERON_ATTEMPT": "1",
	}
	if !reflect.DeepEqual(env, want) {
		t.Errorf("environment %v, want %v", env, want)
	}
	if !strings.HasPrefix(tmp, b.dir) {
		t.Errorf("TMPDIR=%q", tmp)
	}
}

func TestHowProcessesEnd(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		kind   Kind
		says   string
		check  func(*Failure) bool
	}{
		"status":        {"exit 3", KindExit, "exit status 3", func(f *Failure) bool { return f.Exit == 3 }},
		"status 255":    {"exit 255", KindExit, "exit status 255", func(f *Failure) bool { return f.Exit == 255 }},
		"status 137":    {"exit 137", KindExit, "exit status 137", func(f *Failure) bool { return f.Exit == 137 && f.Signal == "" }},
		"killed":        {"kill -9 $$", KindSignal, "killed by signal SIGKILL", func(f *Failure) bool { return f.Signal == "SIGKILL" }},
		"segfault":      {"kill -SEGV $$", KindSignal, "killed by signal SIGSEGV", func(f *Failure) bool { return f.Signal == "SIGSEGV" }},
		"closes stdout": {"exec >&-; echo x", KindExit, "exit status", func(f *Failure) bool { return f.Exit > 0 }},
		"stderr":        {"echo oh no >&2; exit 1", KindExit, "exit status 1", func(f *Failure) bool { return string(f.Stderr) == "oh no\n" && f.Logged == 6 }},
		"printed first": {"echo '{}'; exit 1", KindExit, "exit status 1", func(f *Failure) bool { return f.Usage.Wall > 0 && !f.Usage.Start.IsZero() }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, script(c.script))
			if f := b.fails(c.kind, b.job(), c.says); !c.check(f) {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestWhatCanNotStart(t *testing.T) {
	program := func(path string) *spec.TaskSpec { return argv([]string{path}) }
	for name, c := range map[string]struct {
		task    *spec.TaskSpec
		workdir string
		kind    Kind
		exit    int
		says    []string
	}{
		"missing command":     {program("no-such-command"), "", KindExit, 127, []string{"command not found: no-such-command", "PATH="}},
		"missing path":        {program("./nothing"), "", KindExit, 127, []string{"command not found", "nothing"}},
		"not executable":      {program("./plain"), "", KindExit, 126, []string{"not executable", "chmod +x"}},
		"folder":              {program("./folder"), "", KindExit, 126, []string{"folder"}},
		"CRLF":                {program("./crlf"), "", KindExit, 127, []string{"CR LF"}},
		"missing interpreter": {program("./nointerp"), "", KindExit, 127, []string{"interpreter", "/no/such/thing"}},
		"no shebang":          {program("./garbage"), "", KindExit, 126, []string{"#!"}},
		"missing workdir":     {program("true"), "gone", KindExit, 127, []string{"working directory", "gone", "no such file"}},
		"workdir a file":      {program("true"), "plain", KindExit, 127, []string{"working directory", "no folder"}},
		"empty":               {argv([]string{"{word}"}, "word"), "", KindInput, 0, []string{"empty"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.task)
			b.write("plain", "x", 0o644)
			b.write("folder/x", "x", 0o644)
			b.write("crlf", "#!/bin/sh\r\necho hi\r\n", 0o755)
			b.write("nointerp", "#!/no/such/thing -x\n", 0o755)
			b.write("garbage", "\x01\x02\x03", 0o755)
			c.task.Workdir = c.workdir
			job := b.job()
			if len(c.task.In) > 0 {
				job.Args = []Arg{text("")}
			}
			if f := b.fails(c.kind, job, c.says...); f.Exit != c.exit {
				t.Errorf("exit %d, want %d", f.Exit, c.exit)
			}
		})
	}
}

func TestWorkdirAndPath(t *testing.T) {
	task := argv([]string{"mine"})
	task.Workdir = "sub"
	task.Env = []spec.EnvVar{{Name: "PATH", Value: spec.ParseTemplate("bin:" + os.Getenv("PATH"))}}
	b := newBench(t, task)
	b.write("sub/bin/mine", "#!/bin/sh\npwd\n", 0o755)
	if got := b.ok(); got[0] != string(value.FromText(filepath.Join(b.dir, "sub")).JSON) {
		t.Errorf("%s", got)
	}
}

func TestWhatCanNotTravelByName(t *testing.T) {
	long := strings.Repeat("x", maxNamed+1)
	for name, c := range map[string]struct {
		task *spec.TaskSpec
		arg  Arg
		says string
	}{
		"long":        {script(`echo "$word"`, "word"), text(long), "too long"},
		"long argv":   {argv([]string{"echo", "{word}"}, "word"), text(long), "too long"},
		"long slice":  {script(`echo "$word"`, "word"), texts(long[:maxNamed/2], long[:maxNamed/2]), "too long"},
		"NUL":         {script(`echo "$word"`, "word"), text("a\x00b"), "NUL"},
		"NUL in argv": {argv([]string{"echo", "{word}"}, "word"), texts("a", "\x00"), "NUL"},
		"all too long": {argv([]string{"echo", "{word}"}, "word"), func() Arg {
			var ss []string
			for range 20 {
				ss = append(ss, long[1:])
			}
			return texts(ss...)
		}(), "together"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.task)
			b.fails(KindInput, b.job(c.arg), c.says, "standard input", "file")
		})
	}
	b := newBench(t, script(`printf %s "$word" | wc -c`, "word"))
	if got := b.ok(text(long[1:])); strings.TrimSpace(strings.Trim(got[0], `"`)) != "65536" {
		t.Errorf("a text at the limit: %s", got)
	}
}

func TestTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		grace  time.Duration
	}{
		"ends on TERM":    {"sleep 100", time.Minute},
		"ignores TERM":    {"trap '' TERM; sleep 100; sleep 100; sleep 100", 50 * time.Millisecond},
		"is stopped":      {"kill -STOP $$", time.Minute},
		"child ignores":   {"(trap '' TERM; sleep 100; sleep 100) & sleep 100", 50 * time.Millisecond},
		"exits well":      {"trap 'exit 0' TERM; while :; do sleep 0.01; done", time.Minute},
		"no grace at all": {"trap '' TERM; sleep 100; sleep 100", time.Nanosecond},
	} {
		t.Run(name, func(t *testing.T) {
			task := script(c.script)
			task.Timeout, task.Grace = 100*time.Millisecond, c.grace
			b := newBench(t, task)
			b.fails(KindTimeout, b.job(), "timeout of 100ms")
		})
	}
}

// After SIGTERM a child has its grace period, although the leader is gone.
func TestGraceIsForTheWholeGroup(t *testing.T) {
	task := script(`sh -c 'trap "sleep 0.1; echo done >saved; exit 0" TERM; echo >started; while :; do sleep 0.01; done' & wait`)
	b := newBench(t, task)
	ctx, cancel := context.WithCancelCause(t.Context())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		waitForFile(filepath.Join(b.dir, "started")) // the child hears SIGTERM
		cancel(errors.New("the user pressed a key"))
	}()
	b.try(ctx, b.job())
	<-watched
	if got, err := os.ReadFile(filepath.Join(b.dir, "saved")); err != nil || string(got) != "done\n" {
		t.Errorf("the child could not tidy up: %q, %v", got, err)
	}
}

func TestCancel(t *testing.T) {
	why := errors.New("the user pressed a key")
	for name, c := range map[string]struct {
		script string
		cause  error
	}{
		"gracefully": {"trap 'echo >got-term; exit 0' TERM; echo >started; while :; do sleep 0.01; done", why},
		"at once":    {"trap 'echo >got-term; exit 0' TERM; echo >started; while :; do sleep 0.01; done", ErrKill},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, script(c.script))
			ctx, cancel := context.WithCancelCause(t.Context())
			watched := make(chan struct{})
			go func() {
				defer close(watched)
				waitForFile(filepath.Join(b.dir, "started"))
				cancel(c.cause)
			}()
			_, f := b.try(ctx, b.job())
			<-watched
			if f == nil || f.Kind != KindCancelled || !errors.Is(f, c.cause) {
				t.Fatalf("%+v", f)
			}
			_, err := os.Stat(filepath.Join(b.dir, "got-term"))
			if asked := err == nil; asked != (c.cause == why) {
				t.Errorf("asked to end: %v", asked)
			}
		})
	}
	b := newBench(t, script("true"))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, f := b.try(ctx, b.job()); f == nil || f.Kind != KindCancelled {
		t.Errorf("cancelled before it began: %+v", f)
	}
}

// waitForFile waits until a file is there.
func waitForFile(path string) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := os.Stat(path); err == nil {
			return
		}
	}
}
