package body

import (
	"strconv"
	"strings"

	"operon/spec"
	"operon/spec/value"
)

const (
	maxNamed = 64 << 10 // bytes of one text that travels by name
	maxExec  = 1 << 20  // bytes of arguments and environment together
)

// attempt is one attempt of a job while it is being prepared and read.
type attempt struct {
	*common
	job   *Job
	dir   folder
	out   string      // path that $out stands for, or ""
	paths [][]string  // by argument and item: where its files lie, "" if not yet put there
	texts []namedText // names resolved so far, few
	bare  bool        // a file reads as its path alone, where JSON is written
}

type namedText struct{ name, text string }

func (c *common) attempt(job *Job) *attempt {
	return &attempt{common: c, job: job, dir: folder{path: job.Dir}}
}

// text is the text that a mentioned name stands for.
func (a *attempt) text(name string) (string, error) {
	for _, t := range a.texts {
		if t.name == name {
			return t.text, nil
		}
	}
	text, err := a.resolve(name)
	if err != nil {
		return "", err
	}
	if err := checkText(name, text); err != nil {
		return "", err
	}
	a.texts = append(a.texts, namedText{name, text})
	return text, nil
}

func (a *attempt) resolve(name string) (string, error) {
	if name == outName && a.out != "" {
		return a.out, nil
	}
	n, ok := a.names[name]
	switch {
	case !ok:
		return "", failf(KindInternal, "the body mentions %q, which stands for nothing (this is a bug)", name)
	case n.param != nil:
		return n.param.Text(), nil
	case n.dim >= 0:
		return strconv.FormatUint(uint64(a.job.Coord.At(n.dim)), 10), nil
	}
	arg := a.job.Args[n.arg]
	if arg.Slice == nil {
		return a.itemText(n.arg, 0, arg.Value)
	}
	return a.sliceText(name, n.arg, arg.Slice)
}

// sliceText is the values of a slice joined by line ends.
func (a *attempt) sliceText(name string, arg int, s *value.Slice) (string, error) {
	var b strings.Builder
	for i, v := range s.Items {
		text, err := a.itemText(arg, i, v)
		if err != nil {
			return "", err
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(text)
		if b.Len() > maxNamed {
			return "", tooLong(name, b.Len())
		}
	}
	return b.String(), nil
}

// itemText is one value as text: a string as it is, a file as its path, any
// other value as compact JSON.
func (a *attempt) itemText(arg, item int, v value.Value) (string, error) {
	switch v.Kind {
	case value.File:
		return a.filePath(arg, item, v.File)
	case value.Hole:
		return "null", nil
	}
	if text, ok := v.Text(); ok {
		return text, nil
	}
	return string(v.JSON), nil
}

// checkText refuses what the kernel could not hand over.
func checkText(name, text string) error {
	if len(text) > maxNamed {
		return tooLong(name, len(text))
	}
	if at := strings.IndexByte(text, 0); at >= 0 {
		return failf(KindInput, "%s holds a NUL byte (byte %d) and can't be handed over by name; do not mention it, so that it arrives on standard input, or hand over a file", name, at+1)
	}
	return nil
}

func tooLong(name string, size int) *Failure {
	return failf(KindInput, "%s is too long to be handed over by name (at least %d bytes; the limit is %d); do not mention it, so that it arrives on standard input, or hand over a file", name, size, maxNamed)
}

// expand fills in a template.
func (a *attempt) expand(t spec.Template) (string, error) { return t.Expand(a.text) }
