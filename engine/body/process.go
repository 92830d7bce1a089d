package body

import (
	"context"
	"errors"
	"os"
	"slices"

	"operon/engine/body/internal/proc"
	"operon/spec"
)

// process runs a script or a program for each job.
type process struct {
	*common
	env     *environ
	workdir string
	toFile  bool // the body writes a file or folder at $out
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
			p.cfg.commands.Clear() // it may have moved
			return nil, explainStart(start.Errno, prog.Path, prog.Dir)
		}
		return nil, machine("run the job's process", err)
	}
	usage := Usage{Start: exit.Start, Wall: exit.Wall, CPU: exit.CPU, MaxRSS: exit.PeakMemory()}
	logged, tail, logErr := p.writeLog(slot.proc.Stderr(), a.job.Log)
	f := p.judge(ctx, exit)
	if f != nil {
		f = p.orMemory(orFullDisk(f, p.workdir, slot.proc.TempDir()), exit, tail)
	}
	if f == nil && slot.proc.Stdout().Size > p.maxOutput {
		f = p.tooMuch()
	}
	if f == nil && logErr != nil {
		f = machine("write the job's log", logErr)
	}
	res := &Result{Usage: usage, Logged: logged, close: a.dir.remove}
	if f == nil {
		f = p.take(ctx, slot, a, res)
	}
	if f != nil {
		f.Usage, f.Logged, f.Stderr = usage, logged, tail
		return nil, f
	}
	return res, nil
}

// take reads what an attempt returned. A large output is read when there is room
// for it, which is given back with its values.
func (p *process) take(ctx context.Context, slot *Slot, a *attempt, res *Result) *Failure {
	taken := int64(0)
	if !p.toFile && p.task.Format != spec.FormatFile {
		var f *Failure
		if taken, f = p.cfg.room.take(ctx, slot.proc.Stdout().Size); f != nil {
			return f
		}
	}
	var err error
	f := (*Failure)(nil)
	if res.Items, err = p.read(slot, a); err != nil {
		f = asFailure(err)
	} else {
		f = p.verify(res.Items)
	}
	if f != nil {
		p.cfg.room.give(taken)
		return f
	}
	res.close = func() error {
		p.cfg.room.give(taken)
		taken = 0
		return a.dir.remove()
	}
	return nil
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
		MaxOutput: p.maxOutput, MaxStderr: p.logLimit, MaxMemory: p.task.Mem, KillCause: ErrKill,
	}, input, nil
}
