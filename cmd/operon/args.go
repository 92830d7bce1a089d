package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"operon/spec"
)

// arrange puts arguments into the order that the cli library wants: the
// command, its flags, "--", the rest. The library takes a flag behind the first
// other argument for an argument, silently; here a flag may stand anywhere, and
// what looks like one and is none is an error. "--" ends the flags.
//
// Flags come out as --name=value. Letters may be put together, the last with
// its value: -kj4.
func arrange(root *cli.App, args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, usagef("no command given; there are: %s", strings.Join(commandNames(root), ", "))
	}
	switch name := args[0]; {
	case name == "-h" || name == "-help" || name == "--help":
		return []string{"help"}, nil
	case name == "--version" || name == "-version":
		return []string{"version"}, nil
	case strings.HasPrefix(name, "-"):
		return nil, usagef("the command comes before its flags: operon COMMAND %s", name)
	}
	command := root.Command(args[0])
	if command == nil {
		return nil, unknownCommand(root, args[0])
	}
	a := arranger{command: command.Name, flags: flagTable(command)}
	if err := a.take(args[1:]); err != nil {
		return nil, err
	}
	if a.help {
		return []string{"help", "--", command.Name}, nil
	}
	out := append([]string{command.Name}, a.given...)
	return append(append(out, "--"), a.rest...), nil
}

func commandNames(root *cli.App) []string {
	var names []string
	for _, c := range root.Commands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return names
}

func unknownCommand(root *cli.App, name string) error {
	names := commandNames(root)
	if near := spec.Nearest(name, names); near != "" {
		return usagef("unknown command %q; did you mean %s?", name, near)
	}
	return usagef("unknown command %q; there are: %s", name, strings.Join(names, ", "))
}

// flagTable says of each flag's name whether it takes a value.
func flagTable(command *cli.Command) map[string]bool {
	table := map[string]bool{"help": false, "h": false}
	for _, f := range command.Flags {
		valued, ok := f.(cli.DocGenerationFlag)
		for _, name := range f.Names() {
			table[name] = ok && valued.TakesValue()
		}
	}
	return table
}

type arranger struct {
	command     string
	flags       map[string]bool
	given, rest []string
	help        bool
}

func (a *arranger) take(args []string) error {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			a.rest = append(a.rest, args...)
			return nil
		case !strings.HasPrefix(arg, "-") || arg == "-":
			a.rest = append(a.rest, arg)
			continue
		}
		left, err := a.flag(arg, args)
		if err != nil {
			return err
		}
		args = left
	}
	return nil
}

// flag takes one flag, or letters put together, with its value from args where
// it has none of its own, and returns what is left of args.
func (a *arranger) flag(arg string, args []string) ([]string, error) {
	name, value, attached := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	valued, known := a.flags[name]
	switch {
	case name == "h" || name == "help":
		a.help = true
		return args, nil
	case known && attached:
		a.given = append(a.given, "--"+name+"="+value)
		return args, nil
	case known:
		return a.add(arg, name, valued, args)
	case !strings.HasPrefix(arg, "--"):
		return a.letters(arg, args)
	}
	return nil, a.unknown("--" + name)
}

func (a *arranger) add(arg, name string, valued bool, args []string) ([]string, error) {
	if o, ok := optional[name]; ok && (len(args) == 0 || !o.value.MatchString(args[0])) {
		a.given = append(a.given, "--"+name+"="+o.without)
		return args, nil
	}
	if !valued {
		a.given = append(a.given, "--"+name)
		return args, nil
	}
	if len(args) == 0 {
		return nil, usagef("%s needs a value; see operon help %s", arg, a.command)
	}
	a.given = append(a.given, "--"+name+"="+args[0])
	return args[1:], nil
}

func (a *arranger) letters(arg string, args []string) ([]string, error) {
	for text := arg[1:]; text != ""; text = text[1:] {
		name := text[:1]
		valued, known := a.flags[name]
		if !known {
			return nil, a.unknown(arg)
		}
		if !valued {
			a.given = append(a.given, "--"+name)
			continue
		}
		if value := strings.TrimPrefix(text[1:], "="); value != "" {
			a.given = append(a.given, "--"+name+"="+value)
			return args, nil
		}
		return a.add("-"+name, name, true, args)
	}
	return args, nil
}

func (a *arranger) unknown(arg string) error {
	name := strings.TrimLeft(arg, "-")
	if text, later := laterFlags[a.command][name]; later {
		return notYet(arg+" of "+a.command, text)
	}
	var names []string
	for n := range a.flags {
		if len(n) > 1 {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	if near := nearFlag(name, names); near != "" {
		return usagef("%s has no flag %s; did you mean --%s?", a.command, arg, near)
	}
	return usagef("%s has no flag %s; there are: --%s. An argument that begins with - goes behind --", a.command, arg, strings.Join(names, ", --"))
}

// nearFlag is the flag that was most likely meant, "" if none was: the only one
// that begins so, or one that is off by a slip.
func nearFlag(name string, names []string) string {
	var begin []string
	for _, n := range names {
		if len(name) > 1 && strings.HasPrefix(n, name) {
			begin = append(begin, n)
		}
	}
	if len(begin) == 1 {
		return begin[0]
	}
	return spec.Nearest(name, names)
}
