package spec

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"strconv"
	"strings"

	"operon/spec/coord"
	"operon/spec/value"
)

// The versions of what fingerprints and job keys are made of. A change to what
// a field says, or to how a body gets its inputs, must raise the first: else
// results of the old meaning are taken for results of the new.
const (
	fingerprintVersion = "operon-task/1"
	jobKeyVersion      = "operon-job/1"
)

// fingerprintFields are all that can change what a body returns, in a fixed
// order. The digest is made of these and of nothing else, so the explanation of
// a difference can't leave anything out. What is not here on purpose: the
// task's name and place in the file, description, pool, order, retry, timeout,
// grace, resources, on_error, key, save, keep, cache, how many requests a worker
// is given at once, and secret params.
func fingerprintFields(p *Pipeline, t *TaskSpec) []Field {
	fields := []Field{
		{"kind", string(t.Body.Kind)},
		{"body", bodyText(&t.Body)},
		{"out", outText(t)},
		{"for", strings.Join(t.ContextNames(), ", ")},
	}
	fields = append(fields, inputFields(t)...)
	switch t.Body.Kind {
	case BodyRun, BodyExec:
		fields = append(fields, processFields(p, t)...)
	case BodyWorker:
		fields = append(fields, Field{"workdir", cmp.Or(t.Workdir, ".")})
		fields = append(fields, envFields(p, t)...)
	}
	if t.Schema != nil {
		fields = append(fields, Field{"schema", string(t.Schema)})
	}
	for _, name := range t.Mentions { // sorted: the order of params in the file means nothing
		if param := p.Param(name); param != nil && !param.Secret {
			fields = append(fields, Field{"param " + name, string(param.Value.JSON)})
		}
	}
	for _, dep := range t.Deps {
		fields = append(fields, Field{"dep " + dep.Path, dep.SHA256.String()})
	}
	return fields
}

// bodyText is the body's text; lists are written as JSON, so that no two read
// the same.
func bodyText(b *Body) string {
	switch b.Kind {
	case BodyExec, BodyWorker:
		argv := make([]string, len(b.Argv))
		for i, a := range b.Argv {
			argv[i] = a.String()
		}
		return jsonList(argv)
	case BodySource:
		return sourceText(b.Source)
	case BodyFunc:
		return b.Func
	}
	return b.Script
}

func sourceText(s *Source) string {
	switch s.Kind {
	case SourceGlob:
		text := "glob: " + jsonList(s.Globs)
		if s.Copy {
			text += ", copy"
		}
		return text
	case SourceValues:
		b := []byte("values: [")
		for i, v := range s.Values {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, v...)
		}
		return string(append(b, ']'))
	case SourceCount:
		return "count: " + strconv.FormatUint(uint64(s.Count), 10)
	}
	return string(s.Kind) + ": " + s.Path
}

func outText(t *TaskSpec) string {
	if t.Spawn == nil {
		return t.Out.Name
	}
	return t.Out.Name + "<" + t.Spawn.Name + ">"
}

// inputFields are the references, in the order of the arguments' names: the
// order of `in` changes nothing.
func inputFields(t *TaskSpec) []Field {
	var fields []Field
	for _, in := range byArg(t.In) {
		ref := in.String()
		if in.HolesNull {
			ref += ", holes: null"
		}
		fields = append(fields, Field{"input " + in.Arg, ref})
	}
	return fields
}

func byArg(in []*Input) []*Input {
	sorted := slices.Clone(in)
	slices.SortFunc(sorted, func(a, b *Input) int { return cmp.Compare(a.Arg, b.Arg) })
	return sorted
}

// processFields are what only a body that is a process has.
func processFields(p *Pipeline, t *TaskSpec) []Field {
	fields := []Field{
		{"stdin", stdinText(t)},
		{"format", string(t.Format)},
	}
	switch t.Format {
	case FormatFile:
		name := t.File.String()
		if t.File == nil {
			name = SnakeCase(t.Out.Name)
		}
		fields = append(fields, Field{"file", name})
	case FormatFiles:
		fields = append(fields, Field{"file", cmp.Or(t.Glob, "**")})
	}
	if t.Body.Kind == BodyRun {
		fields = append(fields, Field{"shell", jsonList(t.Shell)})
	}
	fields = append(fields, Field{"workdir", cmp.Or(t.Workdir, ".")})
	return append(fields, envFields(p, t)...)
}

func stdinText(t *TaskSpec) string {
	if len(t.Stdin.From) == 0 {
		return "none"
	}
	args := make([]string, len(t.Stdin.From))
	for i, in := range t.Stdin.From {
		args[i] = in.Arg
	}
	text := strings.Join(args, ", ")
	if t.Stdin.As != AsDefault {
		text += " as " + string(t.Stdin.As)
	}
	return text
}

// envFields are the variables that the pipeline file sets, the task's own before
// the pipeline's, by name.
func envFields(p *Pipeline, t *TaskSpec) []Field {
	effective := map[string]string{}
	for _, env := range [][]EnvVar{p.Env, t.Env} {
		for _, v := range env {
			effective[v.Name] = v.Value.String()
		}
	}
	names := make(map[string]bool, len(effective))
	for name := range effective {
		names[name] = true
	}
	var fields []Field
	for _, name := range sortedKeys(names) {
		fields = append(fields, Field{"env " + name, effective[name]})
	}
	return fields
}

// digestFields is the fingerprint: the digest of the version, then of each field
// with the lengths of its name and value before them.
func digestFields(fields []Field) value.Digest {
	h := newDigest(fingerprintVersion)
	for _, f := range fields {
		h.text(f.Name)
		h.text(f.Value)
	}
	return h.sum()
}

// JobKey is what makes a job of t the job it is: two jobs with one key return
// the same, whatever their tasks are called and wherever they stand. It is made
// of the task's fingerprint, of each input's identity (inputs has one an input,
// in the order of t.In: that of the value or of the slice), of the indices that
// the body mentions, picked from at, which is the job's coordinate of t.Context,
// and of extra: the content's digest of a source, else zero.
func JobKey(t *TaskSpec, inputs []value.Digest, at coord.Coord, extra value.Digest) value.Digest {
	// Written out before it is hashed: a state has a key for every job, and a
	// check computes them all.
	var room [512]byte
	b := appendText(room[:0], jobKeyVersion)
	b = append(b, t.Fingerprint[:]...)
	var few [8]int
	order := few[:0]
	for i := range t.In {
		order = append(order, i)
	}
	if len(order) > 1 {
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(t.In[a].Arg, t.In[b].Arg) })
	}
	b = appendCount(b, len(order))
	for _, i := range order {
		b = appendText(b, t.In[i].Arg)
		b = append(b, inputs[i][:]...)
	}
	for i, d := range t.Context {
		if t.Mentioned(d.Name) {
			b = appendText(b, d.Name)
			b = appendCount(b, int(at.At(i)))
		}
	}
	b = appendText(b, "extra")
	return sha256.Sum256(append(b, extra[:]...))
}

func appendCount(b []byte, n int) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) }

func appendText(b []byte, s string) []byte { return append(appendCount(b, len(s)), s...) }

// digest is a hash of texts and numbers, framed.
type digest struct{ hash.Hash }

func newDigest(version string) digest {
	h := digest{sha256.New()}
	h.text(version)
	return h
}

func (h digest) count(n int) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
}

func (h digest) text(s string) {
	h.count(len(s))
	h.Write([]byte(s))
}

func (h digest) sum() value.Digest { return value.Digest(h.Sum(nil)) }

func jsonList(texts []string) string {
	b := []byte{'['}
	for i, s := range texts {
		if i > 0 {
			b = append(b, ',', ' ')
		}
		b = value.AppendString(b, s)
	}
	return string(append(b, ']'))
}

// sortedDeps are the paths of deps, byte-wise.
func sortedDeps(found map[string]value.Digest) []string {
	paths := make([]string, 0, len(found))
	for path := range found {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}
