package body

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"operon/engine/body/internal/proc"
	"operon/spec"
)

// process runs a script or a program for each job.
type process struct {
	*common
	env     *environ
	workdir string
	toFile  bool     // the body writes a file or folder at $out
	found   sync.Map // command -> its path, as shells remember it
}

func newProcess(c *common) (*process, error) {
	p := &process{common: c, workdir: resolve(c.cfg.Dir, c.task.Workdir)}
	var named []string
	if c.task.Body.Kind == spec.BodyRun {
		if len(c.task.Shell) == 0 {
			return nil, errors.New("a script needs a shell")
		}
		named = c.scriptNames()
	} else if len(c.task.Body.Argv) == 0 {
		return nil, errors.New("an empty argv can't be run")
	}
	p.toFile = c.task.Format == spec.FormatFiles || c.task.Format == spec.FormatFile && c.mentionsOut()
	if !p.toFile {
		named = slices.DeleteFunc(named, func(n string) bool { return n == outName })
	} else if c.task.Body.Kind == spec.BodyRun && !slices.Contains(named, outName) {
		named = append(named, outName)
	}
	var err error
	p.env, err = newEnviron(c, named)
	return p, err
}

// scriptNames are the names that become variables of a script: those that it
// mentions, and that stand for something.
func (c *common) scriptNames() []string {
	var out []string
	for _, m := range spec.ScriptMentions(c.task.Body.Script) {
		if _, known := c.names[m]; known || m == outName {
			out = append(out, m)
		}
	}
	return out
}

// mentionsOut reports whether the body is told where to write its file.
func (c *common) mentionsOut() bool {
	for _, t := range c.task.Body.Argv {
		if slices.Contains(t.Names(), outName) {
			return true
		}
	}
	for _, v := range c.task.Env {
		if slices.Contains(v.Value.Names(), outName) {
			return true
		}
	}
	return c.task.Body.Kind == spec.BodyRun && slices.Contains(spec.ScriptMentions(c.task.Body.Script), outName)
}

// Run implements Runner.
func (p *process) Run(ctx context.Context, slot *Slot, job *Job) (res *Result, err error) {
	a := p.attempt(job)
	defer func() {
		if panicked := recover(); panicked != nil {
			res, err = nil, recovered(panicked)
		}
		if err != nil {
			res, err = nil, a.giveUp(err)
		}
	}()
	if f := cancelled(ctx); f != nil {
		return nil, f
	}
	if f := p.checkArgs(job); f != nil {
		return nil, f
	}
	r, f := p.run(ctx, slot, a)
	if cleanErr := slot.proc.Clean(); cleanErr != nil && f == nil {
		f = machine("clean the job's slot", cleanErr)
	}
	if f != nil {
		return nil, f
	}
	return r, nil
}

// giveUp removes what a failed attempt made.
func (a *attempt) giveUp(err error) *Failure {
	f := asFailure(err)
	if err := a.dir.remove(); err != nil && a.cfg.Logger != nil {
		a.cfg.Logger.Warn("a failed job's folder stays", "folder", a.dir.path, "error", err)
	}
	return f
}

// run prepares, runs and reads one attempt.
func (p *process) run(ctx context.Context, slot *Slot, a *attempt) (*Result, *Failure) {
	prog, input, err := p.program(slot, a)
	if input != nil {
		defer input.Close()
	}
	if err != nil {
		return nil, asFailure(err)
	}
	exit, err := slot.proc.Run(ctx, prog)
	if err != nil {
		if start, ok := errors.AsType[*proc.StartError](err); ok {
			p.found.Clear() // it may have moved
			return nil, explainStart(start.Errno, prog.Path, prog.Dir)
		}
		return nil, machine("run the job's process", err)
	}
	usage := Usage{Start: exit.Start, Wall: exit.Wall, CPU: exit.CPU, MaxRSS: exit.MaxRSS}
	logged, tail, logErr := writeLog(slot.proc.Stderr(), a.job.Log, p.logLimit)
	f := p.judge(ctx, exit)
	if f != nil {
		f = orFullDisk(f, p.workdir, slot.proc.TempDir())
	}
	if f == nil && slot.proc.Stdout().Size > p.maxOutput {
		f = p.tooMuch()
	}
	if f == nil && logErr != nil {
		f = machine("write the job's log", logErr)
	}
	res := &Result{Usage: usage, Logged: logged, close: a.dir.remove}
	if f == nil {
		if res.Items, err = p.read(slot, a); err != nil {
			f = asFailure(err)
		}
	}
	if f != nil {
		f.Usage, f.Logged, f.Stderr = usage, logged, tail
		return nil, f
	}
	return res, nil
}

// program is the process of one attempt, and the file to close after it.
func (p *process) program(slot *Slot, a *attempt) (*proc.Program, *os.File, error) {
	if err := p.makeOut(a); err != nil {
		return nil, nil, err
	}
	argv, err := p.argv(a)
	if err != nil {
		return nil, nil, err
	}
	env, err := p.env.of(a, slot.proc.TempDir())
	if err != nil {
		return nil, nil, err
	}
	if f := checkExec(argv, env); f != nil {
		return nil, nil, f
	}
	path, f := p.look(argv[0], env)
	if f != nil {
		return nil, nil, f
	}
	stdin, input, err := a.stdin(slot)
	if err != nil {
		return nil, input, err
	}
	return &proc.Program{
		Path: path, Argv: argv, Env: env, Dir: p.workdir, Token: a.job.Token, Stdin: stdin,
		Timeout: p.task.Timeout, Grace: p.task.Grace,
		MaxOutput: p.maxOutput, MaxStderr: p.logLimit, KillCause: ErrKill,
	}, input, nil
}

// look finds a command, once for all jobs with the same PATH.
func (p *process) look(command string, env []string) (string, *Failure) {
	searched := p.pathOf(env)
	key := [2]string{command, searched}
	if path, ok := p.found.Load(key); ok {
		return path.(string), nil
	}
	path, f := lookPath(command, searched, p.workdir)
	if f == nil {
		p.found.Store(key, path)
	}
	return path, f
}

// pathOf is the effective PATH: the fixed one, unless a job fills it in.
func (p *process) pathOf(env []string) string {
	for _, v := range p.env.own {
		if v.Name == "PATH" {
			return newVarList(env).get("PATH")
		}
	}
	return p.env.path
}

// argv is the shell with the script, or the filled-in argv. An entry that is
// nothing but the name of a slice becomes one entry a value.
func (p *process) argv(a *attempt) ([]string, error) {
	if p.task.Body.Kind == spec.BodyRun {
		return append(slices.Clip(slices.Clone(p.task.Shell)), p.task.Body.Script), nil
	}
	argv := make([]string, 0, len(p.task.Body.Argv))
	for _, t := range p.task.Body.Argv {
		if n, isSlice := a.wholeSlice(t); isSlice {
			texts, err := a.itemTexts(t[0].Name, n)
			if err != nil {
				return nil, err
			}
			argv = append(argv, texts...)
			continue
		}
		text, err := a.expand(t)
		if err != nil {
			return nil, err
		}
		argv = append(argv, text)
	}
	if len(argv) == 0 || argv[0] == "" {
		return nil, failf(KindInput, "the command to run is empty: the first entry of exec has no value")
	}
	return argv, nil
}

// wholeSlice is the argument that t is nothing but the name of, if that is a
// slice.
func (a *attempt) wholeSlice(t spec.Template) (arg int, ok bool) {
	if len(t) != 1 || t[0].Name == "" {
		return 0, false
	}
	n, known := a.names[t[0].Name]
	if !known || n.arg < 0 || a.job.Args[n.arg].Slice == nil {
		return 0, false
	}
	return n.arg, true
}

// itemTexts are the values of a slice, each as text.
func (a *attempt) itemTexts(name string, arg int) ([]string, error) {
	items := a.job.Args[arg].Slice.Items
	texts := make([]string, len(items))
	total := 0
	for i, v := range items {
		text, err := a.itemText(arg, i, v)
		if err != nil {
			return nil, err
		}
		if err := checkText(fmt.Sprintf("value %d of %s", i, name), text); err != nil {
			return nil, err
		}
		if total += len(text) + 1; total > maxExec {
			return nil, tooMuchExec(total)
		}
		texts[i] = text
	}
	return texts, nil
}

// checkExec refuses more than the kernel may take.
func checkExec(argv, env []string) *Failure {
	total := 0
	for _, s := range argv {
		total += len(s) + 1
	}
	for _, s := range env {
		total += len(s) + 1
	}
	if total > maxExec {
		return tooMuchExec(total)
	}
	return nil
}

func tooMuchExec(total int) *Failure {
	return failf(KindInput, "arguments and environment together are too long (at least %d bytes; the limit is %d); hand values over on standard input or as a file", total, maxExec)
}

// judge is the failure that a process's end means, or nil.
func (p *process) judge(ctx context.Context, x *proc.Exit) *Failure {
	switch x.Cause {
	case proc.CauseTimeout:
		return failf(KindTimeout, "took longer than its timeout of %s", p.task.Timeout)
	case proc.CauseCancelled:
		return cancelled(ctx)
	case proc.CauseStdout:
		return p.tooMuch()
	}
	switch {
	case x.Status.Signaled():
		name := unix.SignalName(x.Status.Signal())
		if name == "" {
			name = fmt.Sprintf("signal %d", x.Status.Signal())
		}
		f := failf(KindSignal, "killed by signal %s", name)
		f.Signal = name
		if x.Status.Signal() == syscall.SIGKILL {
			f.Message += " (not by operon: often the kernel does so when memory runs out)"
		}
		return f
	case x.Status.ExitStatus() != 0:
		f := failf(KindExit, "exit status %d", x.Status.ExitStatus())
		f.Exit = x.Status.ExitStatus()
		return f
	}
	return nil
}

// orFullDisk blames the machine for a failure if a disk is full that the body
// writes to: what it wrote there can't have arrived.
func orFullDisk(f *Failure, dirs ...string) *Failure {
	const little = 64 << 10
	if f.Kind != KindExit && f.Kind != KindSignal {
		return f
	}
	for _, dir := range dirs {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Blocks > 0 && int64(st.Bavail)*st.Bsize < little {
			f.Kind = KindResources
			f.Message += fmt.Sprintf(" (the disk that holds %s is full)", dir)
			break
		}
	}
	return f
}

func (p *process) tooMuch() *Failure {
	return failf(KindOutput, "printed more than %d bytes (--max-output); a large value is better written to a file: format: file and $out", p.maxOutput)
}
