package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"operon/cmd/operon/internal/term"
	"operon/engine"
	"operon/engine/control"
	"operon/spec"
	"operon/spec/coord"
)

func (a *app) getCommand() *cli.Command {
	return &cli.Command{
		Name:      "get",
		Usage:     "print the values of an entity",
		ArgsUsage: "[FILE] ENTITY",
		Description: "Values come as text, each with one line end, in coordinate order. What is not there yet\n" +
			"is left out, and standard error says how much that is. What is damaged or was lost ends it\n" +
			"with an error, after what could be read.",
		Flags: append(serverFlags(),
			&cli.StringFlag{Name: "at", Usage: "only those `AT` these indices, such as i=0,j=2: any of the entity's dimensions; @x is the one with the label x"},
			jsonFlag("write one JSON object a value, a line each"),
			&cli.StringFlag{Name: "out", Usage: "write each value to a file of its own in `DIR`"},
			stateFlag(),
			logFormatFlag(),
		),
		Action: a.getAction,
	}
}

func (a *app) getAction(c *cli.Context) error {
	file, entity, err := fileAndEntity(c.Args().Slice())
	if err != nil {
		return err
	}
	if c.Bool("json") && c.String("out") != "" {
		return usagef("get: --json and --out are two ways to write the values; choose one")
	}
	at, labels, err := parsePlace(c.String("at"))
	if err != nil {
		return err
	}
	t, err := find(c, file)
	if err != nil {
		return err
	}
	src, err := t.open(c.Context)
	if err != nil {
		return err
	}
	q := engine.Query{Entity: entity, At: at, Labels: labels}
	return errors.Join(a.get(c.Context, t, src, q, c.Bool("json"), c.String("out")), src.close())
}

func fileAndEntity(args []string) (file, entity string, err error) {
	switch len(args) {
	case 1:
		if strings.ContainsAny(args[0], "./") {
			return "", "", usagef("get wants an entity: operon get %s ENTITY", quote(args[0]))
		}
		return "", args[0], nil
	case 2:
		return args[0], args[1], nil
	}
	return "", "", usagef("get wants a FILE, which may be left out, and one ENTITY; there are %d arguments", len(args))
}

// parseAt reads --at of a command that takes indices alone.
func parseAt(text string) (coord.Binding, error) {
	at, labels, err := parsePlace(text)
	if len(labels) > 0 {
		return nil, usagef("--at: labels are for get, logs and exec; give the index")
	}
	return at, err
}

// parsePlace reads --at: indices, and labels with an @ before them. Which
// dimensions there are is for who answers to say.
func parsePlace(text string) (at coord.Binding, labels map[string]string, err error) {
	var names, indices []string
	for _, part := range atParts(text) {
		name, index, _ := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		if label, ok := strings.CutPrefix(strings.TrimSpace(index), "@"); ok {
			if _, twice := labels[name]; twice || !spec.IsName(name) {
				return nil, nil, usagef("--at: %s: a label is given for one dimension, once", quote(part))
			}
			if labels == nil {
				labels = map[string]string{}
			}
			labels[name] = label
			continue
		}
		names, indices = append(names, name), append(indices, part)
	}
	if at, err = coord.Parse(strings.Join(indices, ","), names); err != nil {
		return nil, nil, usagef("--at: %v", err)
	}
	for name := range at {
		if _, both := labels[name]; both {
			return nil, nil, usagef("--at: %s is given by index and by label; choose one", name)
		}
	}
	return at, labels, nil
}

// atParts splits a coordinate at its commas, but for those of a label: what
// follows a comma begins with a name and an equals sign.
func atParts(text string) []string {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		name, _, isPart := strings.Cut(part, "=")
		if n := len(out) - 1; n >= 0 && strings.Contains(out[n], "=@") && !(isPart && spec.IsName(strings.TrimSpace(name))) {
			out[n] += "," + part
			continue
		}
		out = append(out, part)
	}
	return out
}

// get writes the values that a query names, one after another.
func (a *app) get(ctx context.Context, t target, src *source, q engine.Query, asJSON bool, out string) error {
	dims, err := control.Dims(ctx, src, q)
	if err != nil {
		return err
	}
	facts := term.Of(a.stdout, a.getenv)
	buf := bufio.NewWriterSize(a.results(), 64<<10)
	var w valueWriter
	switch {
	case out != "":
		w = &folderWriter{dir: out, entity: q.Entity, dims: dims, base: t.dir()}
	case asJSON:
		w = &jsonWriter{out: buf, entity: q.Entity, dims: dims}
	default:
		w = &textWriter{out: buf, entity: q.Entity, dims: dims, base: t.dir(), alone: len(q.At)+len(q.Labels) == len(dims), facts: facts}
	}
	found, err := src.Values(ctx, q, func(it engine.Item) error {
		if err := w.write(it); err != nil {
			return err
		}
		if facts.Terminal { // somebody waits for each
			return buf.Flush()
		}
		return nil
	})
	if flushErr := buf.Flush(); err == nil {
		err = flushErr
	}
	if err != nil {
		return err
	}
	a.sayFound(found, w.holes())
	return nil
}

// sayFound says what is not there yet.
func (a *app) sayFound(f engine.Found, holes int64) {
	switch {
	case f.Known && f.Have >= f.Want:
	case f.Known || f.Want > f.Have:
		a.say("%d of %d so far", f.Have, f.Want)
	default:
		a.say("%d so far", f.Have)
	}
	if holes > 0 {
		a.say("%s left out; --json shows them", count(int(holes), "hole"))
	}
}

// valueWriter is a way to write values.
type valueWriter interface {
	write(engine.Item) error
	holes() int64 // that were left out
}

func at(it engine.Item, dims []string) string {
	if text := it.Coord.Format(dims); text != "" {
		return " at " + text
	}
	return ""
}

func inconsistent(entity string, it engine.Item, dims []string, format string, args ...any) error {
	return &engine.InconsistentError{Task: "of " + entity, Coord: it.Coord.Format(dims), Detail: fmt.Sprintf(format, args...)}
}
