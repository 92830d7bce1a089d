package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"operon/engine"
	"operon/spec"
)

// completionScripts ask the program itself what may come next, so that they
// need no change when it does. They are not to be changed.
var completionScripts = map[string]string{
	"bash": `_operon() {
    local IFS=$'\n'
    COMPREPLY=($(operon __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _operon operon
`,
	"zsh": `#compdef operon
_operon() {
    local -a found
    found=("${(@f)$(operon __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=(${found:#})
    (( $#found )) && compadd -- $found || _files
}
if [ "$funcstack[1]" = "_operon" ]; then _operon "$@"; else compdef _operon operon; fi
`,
	"fish": `function __operon_complete
    set -l words (commandline -opc) (commandline -ct)
    operon __complete -- $words[2..-1] 2>/dev/null
end
complete -c operon -a '(__operon_complete)'
`,
}

func (a *app) completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "write a script that lets a shell complete operon's commands",
		ArgsUsage: "bash|zsh|fish",
		Description: "bash: source <(operon completion bash)\n" +
			"zsh: operon completion zsh > a folder of $fpath as _operon\n" +
			"fish: operon completion fish > ~/.config/fish/completions/operon.fish",
		Flags: []cli.Flag{logFormatFlag()},
		Action: func(c *cli.Context) error {
			script, known := completionScripts[c.Args().First()]
			if !known || c.NArg() != 1 {
				return usagef("completion wants one of bash, zsh, fish")
			}
			_, err := io.WriteString(a.results(), script)
			return err
		},
	}
}

// completeCommand prints what may stand in the place of the last of the words,
// one a line. It is for the scripts.
func (a *app) completeCommand() *cli.Command {
	return &cli.Command{
		Name:   "__complete",
		Hidden: true,
		Action: func(c *cli.Context) error {
			words := c.Args().Slice()
			if len(words) == 0 {
				words = []string{""}
			}
			last := words[len(words)-1]
			for _, w := range complete(c.App, words) {
				if strings.HasPrefix(w, last) {
					if _, err := fmt.Fprintln(a.results(), w); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
}

// complete is what may stand in the place of the last of the words.
func complete(root *cli.App, words []string) []string {
	if len(words) == 1 {
		return commandNames(root)
	}
	command := root.Command(words[0])
	last := words[len(words)-1]
	before := words[1 : len(words)-1]
	switch {
	case command == nil:
		return nil
	case command.Name == "help":
		return commandNames(root)
	case command.Name == "completion":
		return []string{"bash", "fish", "zsh"}
	}
	if len(before) > 0 && strings.HasPrefix(before[len(before)-1], "-") {
		name := strings.TrimLeft(before[len(before)-1], "-")
		if flagTable(command)[name] {
			return flagValues(command.Name, name, firstFile(before))
		}
	}
	if strings.HasPrefix(last, "-") {
		return flagNames(command)
	}
	return names(command.Name, firstFile(before))
}

func flagNames(command *cli.Command) []string {
	var out []string
	for name := range flagTable(command) {
		if len(name) > 1 {
			out = append(out, "--"+name)
		} else {
			out = append(out, "-"+name)
		}
	}
	slices.Sort(out)
	return out
}

func flagValues(command, flag, file string) []string {
	switch flag {
	case "ui":
		return []string{"auto", "plain", "json", "quiet"}
	case "log-format":
		return []string{"console", "json"}
	case "format":
		if command == "lineage" {
			return []string{"text", "json", "dot"}
		}
		return []string{"text", "dot", "mermaid", "svg"}
	case "until":
		return tasksOf(file)
	case "p":
		var out []string
		if p := look(file); p != nil {
			for _, param := range p.Params {
				out = append(out, param.Name+"=")
			}
		}
		return out
	}
	return nil // a file or a number: the shell's own business
}

// names are the tasks or entities that a command takes.
func names(command, file string) []string {
	switch command {
	case "get", "lineage":
		var out []string
		if p := look(file); p != nil {
			for _, t := range p.Tasks {
				out = append(out, t.Out.Name)
			}
		}
		return out
	case "accept", "exec", "logs", "pause", "pool", "resume":
		return tasksOf(file)
	}
	return nil
}

func tasksOf(file string) []string {
	if p := look(file); p != nil {
		return taskNames(p)
	}
	return nil
}

// firstFile is the pipeline file among words, "" if none is there.
func firstFile(words []string) string {
	for _, w := range words {
		if strings.HasSuffix(w, ".yaml") || strings.HasSuffix(w, ".yml") {
			return w
		}
	}
	return ""
}

// look loads a pipeline file if that can be done.
func look(file string) *spec.Pipeline {
	file, err := pipelineFile(file)
	if err != nil {
		return nil
	}
	p, err := engine.LoadFile(file, engine.LoadOptions{})
	if err != nil {
		return nil
	}
	return p
}
