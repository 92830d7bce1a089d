package body

import (
	"fmt"
	"slices"

	"operon/spec"
)

// look finds a command, once for all jobs of the pipeline with the same PATH and
// working directory, as shells remember it.
func (p *process) look(command string, env []string) (string, *Failure) {
	searched := p.pathOf(env)
	key := [3]string{command, searched, p.workdir}
	if path, ok := p.cfg.commands.Load(key); ok {
		return path.(string), nil
	}
	path, f := lookPath(command, searched, p.workdir)
	if f == nil {
		p.cfg.commands.Store(key, path)
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
