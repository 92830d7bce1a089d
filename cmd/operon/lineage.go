package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"operon/engine"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
)

func (a *app) lineageCommand() *cli.Command {
	return &cli.Command{
		Name:      "lineage",
		Usage:     "say what values were made from, or what was made from them",
		ArgsUsage: "[FILE] ENTITY",
		Description: "Goes from the values back to the sources, a task at a time: which values its jobs took,\n" +
			"with params, files it depends on, and names and digests of files. --down goes the other\n" +
			"way. Word<i=0,j=0..99> is a run of a hundred values.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "at", Usage: "only of values `AT` these indices, such as i=0,j=2: any of the entity's dimensions"},
			&cli.BoolFlag{Name: "down", Usage: "what was made from the values, and from that"},
			&cli.StringFlag{Name: "format", Value: "text", Usage: "as `FORMAT`: text, json (one object a line, nothing left out) or dot"},
			stateFlag(),
			logFormatFlag(),
		},
		Action: a.lineageAction,
	}
}

func (a *app) lineageAction(c *cli.Context) error {
	file, entity, err := fileAndName(c, "ENTITY")
	if err != nil {
		return err
	}
	at, err := parseAt(c.String("at"))
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(a.results(), 64<<10)
	w, err := lineageWriter(c.String("format"), out)
	if err != nil {
		return err
	}
	t, err := find(c, file)
	if err != nil {
		return err
	}
	s, err := engine.OpenState(t.state)
	if err != nil {
		return t.nothing(err)
	}
	q := engine.LineageQuery{Entity: entity, At: at, Down: c.Bool("down"), Dir: t.dir()}
	err = s.Lineage(c.Context, q, w.step)
	if err == nil {
		err = w.end()
	}
	return errors.Join(err, out.Flush(), s.Close())
}

// lineageView is a way to write a lineage.
type lineageView interface {
	step(*engine.LineageStep) error
	end() error
}

func lineageWriter(format string, out *bufio.Writer) (lineageView, error) {
	switch format {
	case "text":
		return &lineageText{out: out}, nil
	case "json":
		return &lineageJSON{out: out}, nil
	case "dot":
		return &lineageDOT{out: out}, nil
	}
	return nil, usagef("--format is text, json or dot, not %q", format)
}

// How much of a long list text shows.
const (
	runsShown  = 6
	filesShown = 10
)

// lineageText writes a paragraph a step.
type lineageText struct {
	out  *bufio.Writer
	some bool
}

func (w *lineageText) end() error { return nil }

func (w *lineageText) step(s *engine.LineageStep) error {
	if w.some {
		w.out.WriteByte('\n')
	}
	w.some = true
	if s.Values == 0 {
		fmt.Fprintf(w.out, "%s, no values\n", s.Entity)
	} else {
		fmt.Fprintf(w.out, "%s\n", runs(s.Entity, s.Dims, s.Spans, s.Values))
	}
	fmt.Fprintf(w.out, "  task %s (%s), %s\n", s.Task, s.Kind, count(int(s.Jobs), "job"))
	for _, t := range s.Takes {
		what := "from " + t.Ref
		if t.Over {
			what = "over " + t.Ref
		}
		if t.Values > 0 {
			what += ": " + runs(t.Entity, t.Dims, t.Spans, t.Values)
		} else if t.Spans != nil {
			what += ": none"
		}
		fmt.Fprintf(w.out, "  %s\n", what)
	}
	w.facts(s)
	return w.files(s)
}

// facts are what beside its inputs a task was made of.
func (w *lineageText) facts(s *engine.LineageStep) {
	for _, f := range s.Fields {
		kind, name, _ := strings.Cut(f.Name, " ")
		switch {
		case kind == "param" && name != "":
			fmt.Fprintf(w.out, "  param %s = %s\n", name, f.Value)
		case kind == "dep" && name != "":
			fmt.Fprintf(w.out, "  depends on %s  %s\n", name, f.Value)
		case f.Name == "body" && s.Kind == "source":
			fmt.Fprintf(w.out, "  source %s%s\n", clip(f.Value), sourceNote(s.Source))
		}
	}
}

func sourceNote(s engine.SourceState) string {
	switch s {
	case engine.SourceSame:
		return " (it is as it was)"
	case engine.SourceChanged:
		return " (it has changed since)"
	}
	return ""
}

// clip shortens a text to a line.
func clip(text string) string {
	line, _, more := strings.Cut(text, "\n")
	if r := []rune(line); len(r) > 100 {
		line, more = string(r[:100]), true
	}
	if more {
		line += " …"
	}
	return line
}

func (w *lineageText) files(s *engine.LineageStep) error {
	n := 0
	err := s.Files(func(it engine.Item) error {
		if n++; n > filesShown {
			return nil
		}
		f := it.Value.File
		_, err := fmt.Fprintf(w.out, "    %s\t%s\t%d\t%s\n", it.Coord.Format(s.Dims), f.Name, f.Size, f.SHA256)
		return err
	})
	if err == nil && n > filesShown {
		_, err = fmt.Fprintf(w.out, "    … and %s more; --format json lists all\n", count(n-filesShown, "file"))
	}
	return err
}

// runs are runs of values in a line: Word<i=0,j=0..99>, Word<i=1,j=0> (101 values).
func runs(entity string, dims []string, spans []engine.Span, values int64) string {
	var parts []string
	for _, sp := range spans[:min(len(spans), runsShown)] {
		parts = append(parts, entity+run(dims, sp))
	}
	text := strings.Join(parts, ", ")
	if n := len(spans) - runsShown; n > 0 {
		text += fmt.Sprintf(" … and %s more", count(n, "run"))
	}
	if values > 1 {
		text += fmt.Sprintf(" (%d values)", values)
	}
	return text
}

// run is a run of values without the entity: <i=0,j=0..99>.
func run(dims []string, sp engine.Span) string {
	if len(dims) == 0 {
		return ""
	}
	text := "<" + sp.Prefix.Format(dims)
	if sp.Prefix != "" {
		text += ","
	}
	text += fmt.Sprintf("%s=%d", dims[len(dims)-1], sp.Lo)
	if sp.Hi > sp.Lo {
		text += fmt.Sprintf("..%d", sp.Hi)
	}
	return text + ">"
}

// lineageJSON writes an object a step, and after it one a file.
type lineageJSON struct {
	out *bufio.Writer
	buf []byte
}

func (w *lineageJSON) end() error { return nil }

func (w *lineageJSON) step(s *engine.LineageStep) error {
	w.text(`{"entity":`, s.Entity)
	w.text(`,"task":`, s.Task)
	w.text(`,"kind":`, string(s.Kind))
	fmt.Fprintf(w.out, `,"values":%d,"jobs":%d`, s.Values, s.Jobs)
	w.spans(s.Dims, s.Spans)
	w.out.WriteString(`,"takes":[`)
	for i, t := range s.Takes {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.text(`{"reference":`, t.Ref)
		w.text(`,"entity":`, t.Entity)
		fmt.Fprintf(w.out, `,"over":%t`, t.Over)
		if t.Spans != nil {
			fmt.Fprintf(w.out, `,"values":%d`, t.Values)
			w.spans(t.Dims, t.Spans)
		}
		w.out.WriteByte('}')
	}
	w.out.WriteByte(']')
	w.fields("param", s.Fields)
	w.fields("dep", s.Fields)
	for _, f := range s.Fields {
		if f.Name == "body" && s.Kind == "source" {
			w.text(`,"source":`, f.Value)
			w.text(`,"source_state":`, string(s.Source))
		}
	}
	w.out.WriteString("}\n")
	return s.Files(func(it engine.Item) error {
		w.text(`{"entity":`, s.Entity)
		w.out.WriteString(`,"coord":`)
		w.coord(s.Dims, it.Coord)
		w.out.WriteString(`,"value":`)
		w.buf = it.Value.AppendJSON(w.buf[:0])
		w.out.Write(w.buf)
		_, err := w.out.WriteString("}\n")
		return err
	})
}

func (w *lineageJSON) text(before, text string) {
	w.out.WriteString(before)
	w.buf = value.AppendString(w.buf[:0], text)
	w.out.Write(w.buf)
}

// fields writes those facts of a kind: params or deps.
func (w *lineageJSON) fields(kind string, fields []spec.Field) {
	fmt.Fprintf(w.out, `,"%ss":{`, kind)
	first := true
	for _, f := range fields {
		name, ok := strings.CutPrefix(f.Name, kind+" ")
		if !ok {
			continue
		}
		if !first {
			w.out.WriteByte(',')
		}
		first = false
		w.text("", name)
		w.text(":", f.Value)
	}
	w.out.WriteByte('}')
}

// spans writes runs of values: of the last dimension first and last index.
func (w *lineageJSON) spans(dims []string, spans []engine.Span) {
	w.out.WriteString(`,"coords":[`)
	for i, sp := range spans {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.out.WriteByte('{')
		for n, d := range dims {
			if n == len(dims)-1 {
				w.text("", d)
				fmt.Fprintf(w.out, `:[%d,%d]`, sp.Lo, sp.Hi)
				break
			}
			w.text("", d)
			fmt.Fprintf(w.out, `:%d,`, sp.Prefix.At(n))
		}
		w.out.WriteByte('}')
	}
	w.out.WriteByte(']')
}

func (w *lineageJSON) coord(dims []string, c coord.Coord) {
	w.out.WriteByte('{')
	for n, d := range dims {
		if n > 0 {
			w.out.WriteByte(',')
		}
		w.text("", d)
		fmt.Fprintf(w.out, `:%d`, c.At(n))
	}
	w.out.WriteByte('}')
}

// lineageDOT writes a graph for Graphviz: a node a step.
type lineageDOT struct {
	out  *bufio.Writer
	some bool
}

func (w *lineageDOT) step(s *engine.LineageStep) error {
	if !w.some {
		w.out.WriteString("digraph lineage {\n  node [shape=box]\n")
		w.some = true
	}
	label := s.Entity + ", no values"
	if s.Values > 0 {
		label = runs(s.Entity, s.Dims, s.Spans, s.Values)
	}
	fmt.Fprintf(w.out, "  %q [label=%q]\n", s.Entity, label+"\n"+s.Task+" ("+string(s.Kind)+")")
	for _, t := range s.Takes {
		style := ""
		if t.Over {
			style = ", style=dashed"
		}
		fmt.Fprintf(w.out, "  %q -> %q [label=%q%s]\n", t.Entity, s.Entity, t.Ref, style)
	}
	return nil
}

func (w *lineageDOT) end() error {
	_, err := io.WriteString(w.out, "}\n")
	return err
}
