package body

import (
	"slices"
	"strconv"
	"strings"

	"operon/spec"
)

// environ is the environment of a task's jobs: what is the same for all, and
// what each fills in.
type environ struct {
	fixed []string
	own   []spec.EnvVar // values that differ from job to job
	named []string      // mentioned names, each a variable
	path  string        // value of PATH
}

// perJob are the variables that every job has its own of.
var perJob = [...]string{"OPERON_JOB", "OPERON_TASK", "OPERON_COORD", "OPERON_RUN_ID", "OPERON_ATTEMPT", "TMPDIR"}

// newEnviron lays the pipeline's variables over the inherited ones, the task's
// over these, and the mentioned names (of a script) over all.
func newEnviron(c *common, named []string) (*environ, error) {
	e := &environ{named: named}
	vars := newVarList(c.cfg.Environ)
	var own []spec.EnvVar
	if c.cfg.Pipeline != nil {
		own = append(own, c.cfg.Pipeline.Env...)
	}
	for _, v := range append(own, c.task.Env...) {
		e.drop(v.Name)
		if !c.isFixed(v.Value) {
			vars.drop(v.Name)
			e.own = append(e.own, v)
			continue
		}
		text, err := v.Value.Expand(func(name string) (string, error) { return c.names[name].param.Text(), nil })
		if err != nil {
			return nil, err
		}
		vars.set(v.Name, text)
	}
	for _, name := range append(perJob[:], named...) {
		vars.drop(name)
		e.drop(name)
	}
	e.fixed, e.path = vars.list(), vars.get("PATH")
	return e, nil
}

// isFixed reports whether a template is the same for every job, and can be
// handed over at all: where it can't, it is the job that has to fail.
func (c *common) isFixed(t spec.Template) bool {
	for _, piece := range t {
		if piece.Name == "" {
			continue
		}
		p := c.names[piece.Name].param
		if p == nil || checkText(piece.Name, p.Text()) != nil {
			return false
		}
	}
	return true
}

// drop takes out an earlier variable of that name.
func (e *environ) drop(name string) {
	kept := e.own[:0]
	for _, v := range e.own {
		if v.Name != name {
			kept = append(kept, v)
		}
	}
	e.own = kept
}

// of is the environment of one attempt. The token comes first: who looks for
// it in a process's environment finds it at once.
func (e *environ) of(a *attempt, tempDir string) ([]string, error) {
	env := make([]string, 0, len(e.fixed)+len(e.own)+len(e.named)+len(perJob)+1)
	env = append(env,
		"OPERON_JOB="+a.job.Token,
		"OPERON_TASK="+a.task.Name,
		"OPERON_COORD="+a.job.Coord.Format(a.dims),
		"OPERON_RUN_ID="+a.job.RunID,
		"OPERON_ATTEMPT="+strconv.Itoa(a.job.Attempt),
		"TMPDIR="+tempDir,
	)
	env = append(env, a.job.Env...)
	env = append(env, without(e.fixed, a.job.Env)...)
	for _, v := range e.own {
		text, err := a.expand(v.Value)
		if err != nil {
			return nil, err
		}
		if err := checkText(v.Name, text); err != nil {
			return nil, err
		}
		env = append(env, v.Name+"="+text)
	}
	for _, name := range e.named {
		text, err := a.text(name)
		if err != nil {
			return nil, err
		}
		env = append(env, name+"="+text)
	}
	return env, nil
}

// without are the variables of env but those that others has, too: of two of a
// name each program takes the one it likes.
func without(env, others []string) []string {
	if len(others) == 0 {
		return env
	}
	out := make([]string, 0, len(env))
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		if !slices.ContainsFunc(others, func(o string) bool { return strings.HasPrefix(o, name+"=") }) {
			out = append(out, v)
		}
	}
	return out
}

// varList is variables in order, each name once, the last value counting.
type varList struct {
	vars []string
	at   map[string]int // index into vars
}

func newVarList(environ []string) *varList {
	l := &varList{at: map[string]int{}}
	for _, v := range environ {
		if name, text, ok := strings.Cut(v, "="); ok && name != "" {
			l.set(name, text)
		}
	}
	return l
}

func (l *varList) set(name, text string) {
	if i, ok := l.at[name]; ok {
		l.vars[i] = name + "=" + text
		return
	}
	l.at[name] = len(l.vars)
	l.vars = append(l.vars, name+"="+text)
}

func (l *varList) drop(name string) {
	if i, ok := l.at[name]; ok {
		l.vars[i] = ""
		delete(l.at, name)
	}
}

func (l *varList) get(name string) string {
	i, ok := l.at[name]
	if !ok {
		return ""
	}
	return l.vars[i][len(name)+1:]
}

func (l *varList) list() []string {
	out := make([]string, 0, len(l.at))
	for _, v := range l.vars {
		if v != "" {
			out = append(out, v)
		}
	}
	return out
}
