package spec

import (
	"bytes"
	"unicode/utf8"

	"operon/spec/value"
)

// Options are what Load needs to know besides the file.
type Options struct {
	File string // the name shown in errors
	// Params are values given on the command line, raw text by param name. They
	// go before ParamsFile, that before the environment, that before defaults.
	Params     map[string]string
	ParamsFile *ParamsFile // of --params; may be nil
	// LookupEnv looks up an environment variable, as os.LookupEnv does. Nil is
	// for looking at a pipeline without running it: params and pools that come
	// from the environment keep their default, and a param that a run would
	// have to give may be missing (its Value is then the zero one).
	LookupEnv func(string) (string, bool)
	// Digests finds the files of `deps`. Nil leaves TaskSpec.Deps empty, and the
	// fingerprints without them.
	Digests Digests
	// Files reads the files that `schema` names. Nil leaves TaskSpec.Schema
	// empty where it is a file, and the fingerprints without it.
	Files Files
}

// Files reads files.
type Files interface {
	// ReadFile reads the file at path, relative to the pipeline file's folder.
	ReadFile(path string) ([]byte, error)
}

// Digests finds files and digests them.
type Digests interface {
	// Digest finds the files that pattern, a path or a glob relative to the
	// pipeline file's folder, stands for, sorted by path.
	Digest(pattern string) ([]Dep, error)
}

// maxTasks is how many tasks a pipeline may have.
const maxTasks = 10_000

// maxDims is how many dimensions a context or a slice may have.
const maxDims = 16

// Load reads a pipeline file. The error is Errors: all that is wrong with the
// file, in its order. src is kept as Pipeline.Source and must not be changed.
func Load(src []byte, o Options) (*Pipeline, error) {
	r := &report{file: o.File}
	body := bytes.TrimPrefix(src, []byte("\ufeff"))
	if !r.readable(body) {
		return nil, r.errs
	}
	l := &loader{
		report: r, options: o, tables: taskTable(),
		pipeline: &Pipeline{Source: src, File: o.File, params: map[string]*Param{}},
		tasks:    map[string]*draft{}, names: map[string]*named{}, entities: map[string]*draft{}, dims: map[string]*draft{},
	}
	if root := r.parse(); root != nil {
		l.load(root)
	}
	if errs := r.errs.inOrder(); len(errs) > 0 {
		return nil, errs
	}
	l.pipeline.Warnings = r.warnings.inOrder()
	return l.pipeline, nil
}

// readable refuses what the YAML parser would refuse without saying where, and
// what it must not even begin with.
func (r *report) readable(src []byte) bool {
	if len(src) > maxSource {
		r.text = newText(nil)
		r.errs = Errors{{File: r.file, Rule: "limit", Message: "the file is larger than 64 MiB", Mend: "take values from data files: `source: {jsonl: FILE}`"}}
		return false
	}
	r.text = newText(src)
	for i := 0; i < len(src); {
		c, n := utf8.DecodeRune(src[i:])
		switch {
		case c == utf8.RuneError && n == 1:
			r.encodingError(i, "the file is not UTF-8: byte %#02x", src[i])
			return false
		case c == 0:
			r.encodingError(i, "the file holds a NUL byte")
			return false
		case c < 0x20 && c != '\t' && c != '\n' && c != '\r', c >= 0x7F && c < 0xA0 && c != 0x85, c == 0xFFFE, c == 0xFFFF:
			r.encodingError(i, "the file holds the control character %U", c)
			return false
		}
		i += n
	}
	return true
}

func (r *report) encodingError(at int, format string, args ...any) {
	e := r.errorf(span{at, at + 1}, "encoding", "save the file as UTF-8 text", format, args...)
	e.Found = ""
}

// loader builds a pipeline from a document, step by step.
type loader struct {
	*report
	options  Options
	tables   *table // of a task
	pipeline *Pipeline
	defaults *node
	env      []draftEnv
	drafts   []*draft
	tasks    map[string]*draft
	names    map[string]*named // every name in use, whatever its kind
	entities map[string]*draft // producer
	dims     map[string]*draft // spawner

	allEntities, allDims []string // their names
}

// draft is a task on its way to a TaskSpec.
type draft struct {
	*TaskSpec
	node     *node
	name     *node
	out      *node
	outRef   Reference
	inputs   []draftInput
	dims     []*node // of `for`, written order
	order    []*node
	bodyKey  *node
	body     *node
	stdin    *node
	stdinAt  span
	format   *node
	fromBase bool // format comes from `defaults`
	file     *node
	save     *node
	schema   *node
	label    *node // `key`
	env      []draftEnv
	deps     []*node
	keys     map[string]*node // the keys written in the task itself
	mentions map[string]bool
	table    map[string]*named // what may be mentioned
	broken   bool              // has errors that make the rules' answers meaningless
}

// draftInput is an input as it is written.
type draftInput struct {
	alias     *node // or nil
	at        *node
	ref       Reference
	holesNull bool
}

// draftEnv is an environment variable as it is written.
type draftEnv struct {
	EnvVar
	key   *node
	value *node
}

// named is a name in use.
type named struct {
	what string // "a task"
	at   span
}

// load goes through the document. Each step goes on where the one before left
// errors, as far as its own answers do not rest on what is wrong.
func (l *loader) load(root *node) {
	if root.bad {
		return
	}
	if root.kind != mapNode {
		l.errorf(root.at, "type", "a first one is `pipeline: NAME`, then `tasks:`", "a pipeline file is a mapping")
		return
	}
	l.readTop(root)
	l.checkGiven()
	l.declare()
	l.link()
	if l.checkCycles() {
		l.checkShapes()
	}
	l.checkPipelineEnv()
	for _, d := range l.drafts {
		l.nameArguments(d)
		l.checkBody(d)
	}
	if len(l.errs) > 0 {
		return
	}
	l.finish()
}

// finish makes what can only be made of a pipeline without errors.
func (l *loader) finish() {
	p := l.pipeline
	for _, d := range l.drafts {
		l.digestDeps(d)
		d.Fields = fingerprintFields(p, d.TaskSpec)
		d.Fingerprint = digestFields(d.Fields)
		l.warn(d)
	}
}

// digestDeps finds the files that a task's body depends on.
func (l *loader) digestDeps(d *draft) {
	if l.options.Digests == nil {
		return
	}
	found := map[string]value.Digest{}
	for _, n := range d.deps {
		deps, err := l.options.Digests.Digest(n.text)
		switch {
		case err != nil:
			l.errorf(n.at, "deps", "", "%s", err)
		case len(deps) == 0:
			l.errorf(n.at, "deps", "", "no file matches `%s`", quotable(n.text))
		}
		for _, dep := range deps {
			found[dep.Path] = dep.SHA256
		}
	}
	d.Deps = nil
	for _, path := range sortedDeps(found) {
		d.Deps = append(d.Deps, Dep{Path: path, SHA256: found[path]})
	}
}
