package reference

import (
	"fmt"
	"strings"
)

// Decl declares one task.
type Decl struct {
	Task  string
	Out   string // entity
	Spawn string // dimension, or ""
	In    []Ref
	For   []string
	// OnError is what the pipeline file says of a job that fails, "" for
	// nothing. The notation has no word for it.
	OnError string
}

// Ref is one input: an entity and the dimensions it is sliced over.
type Ref struct {
	Entity    string
	Slice     []string
	HolesNull bool // of a slice: its holes are passed on as nulls
}

// Pipeline is a list of declarations; order has no meaning.
type Pipeline []Decl

// Parse reads the notation of a pipeline on few lines, one declaration each:
//
//	A<i> = alpha()
//	D = delta(A, B<j>, C<j>?) for i, k
//
// A question mark says that the holes of a slice are passed on as nulls. Blank lines are skipped. It panics on anything else: it is for literals.
func Parse(text string) Pipeline {
	var p Pipeline
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			p = append(p, parseDecl(line))
		}
	}
	return p
}

func parseDecl(line string) Decl {
	left, right, ok := strings.Cut(line, "=")
	if !ok {
		panic("reference: no = in " + line)
	}
	out := parseRef(left)
	d := Decl{Out: out.Entity}
	if len(out.Slice) > 0 {
		d.Spawn = out.Slice[0]
	}
	call, over, _ := strings.Cut(right, " for ")
	name, args, ok := strings.Cut(strings.TrimSpace(call), "(")
	if !ok {
		panic("reference: no ( in " + line)
	}
	d.Task = strings.TrimSpace(name)
	d.For = fields(over)
	depth, start := 0, 0
	args = strings.TrimSuffix(strings.TrimSpace(args), ")") + ","
	for i, c := range args {
		switch c {
		case '<':
			depth++
		case '>':
			depth--
		case ',':
			if depth == 0 {
				if a := strings.TrimSpace(args[start:i]); a != "" {
					d.In = append(d.In, parseRef(a))
				}
				start = i + 1
			}
		}
	}
	return d
}

func parseRef(text string) Ref {
	text, null := strings.CutSuffix(strings.TrimSpace(text), "?")
	name, dims, _ := strings.Cut(text, "<")
	return Ref{Entity: strings.TrimSpace(name), Slice: fields(strings.TrimSuffix(strings.TrimSpace(dims), ">")), HolesNull: null}
}

func fields(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// YAML is the pipeline as a pipeline file. Every body is the same program, called
// with the task's name and the job's indices: no two jobs are equal.
func (p Pipeline) YAML() string {
	var b strings.Builder
	b.WriteString("pipeline: reference\ntasks:\n")
	for _, d := range p {
		fmt.Fprintf(&b, "  %s:\n    out: %s\n", d.Task, Ref{Entity: d.Out, Slice: nonEmpty(d.Spawn)})
		if len(d.In) > 0 {
			b.WriteString("    in:\n")
			for n, in := range d.In {
				if in.HolesNull {
					fmt.Fprintf(&b, "      arg%d: {from: \"%s\", holes: null}\n", n, in)
					continue
				}
				fmt.Fprintf(&b, "      arg%d: %s\n", n, in)
			}
		}
		if len(d.For) > 0 {
			fmt.Fprintf(&b, "    for: [%s]\n", strings.Join(d.For, ", "))
		}
		if d.OnError != "" {
			fmt.Fprintf(&b, "    on_error: %s\n", d.OnError)
		}
		fmt.Fprintf(&b, "    exec: [\"true\", %s", d.Task)
		for _, x := range d.For {
			fmt.Fprintf(&b, ", \"{%s}\"", x)
		}
		b.WriteString("]\n")
	}
	return b.String()
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// String is the reference as a pipeline file has it.
func (r Ref) String() string {
	if len(r.Slice) == 0 {
		return r.Entity
	}
	return r.Entity + "<" + strings.Join(r.Slice, ", ") + ">"
}

// String is the pipeline in Parse's notation.
func (p Pipeline) String() string {
	var b strings.Builder
	for _, d := range p {
		var in []string
		for _, r := range d.In {
			if in = append(in, r.String()); r.HolesNull {
				in[len(in)-1] += "?"
			}
		}
		fmt.Fprintf(&b, "%s = %s(%s)", Ref{Entity: d.Out, Slice: nonEmpty(d.Spawn)}, d.Task, strings.Join(in, ", "))
		if len(d.For) > 0 {
			fmt.Fprintf(&b, " for %s", strings.Join(d.For, ", "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
