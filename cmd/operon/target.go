package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"

	"operon/engine"
	"operon/spec"
)

// target is what a command is about: a pipeline file and its state directory.
type target struct {
	given string // the argument FILE; "" if it was left out
	file  string // as it was given, or found; "" if there is only a state
	state string // the state directory
	asked string // --state; "" if it was not given
	// server and tokenFile are --server and --token-file, "" if they were not given.
	server, tokenFile string
}

// dir is the folder that paths in the pipeline file start from.
func (t target) dir() string {
	if t.file != "" {
		return filepath.Dir(t.file)
	}
	return filepath.Dir(filepath.Dir(t.state)) // of DIR/.operon/NAME
}

// atServer are the commands that take --server.
var atServer = map[string]bool{"run": true, "plan": true, "status": true, "get": true, "logs": true, "pause": true, "resume": true, "pool": true, "quit": true, "drop": true}

// command is what a person types to do something with the target: the program,
// the command, then --state and FILE where they were given now.
func (t target) command(words ...string) string {
	line := "operon " + words[0]
	if t.asked != "" {
		line += " --state " + quote(t.asked)
	}
	if t.given != "" {
		line += " " + quote(t.given)
	}
	if t.server != "" && atServer[words[0]] {
		line += " --server"
		if t.server != ownServer {
			line += " " + quote(t.server)
		}
	}
	for _, w := range words[1:] {
		line += " " + w
	}
	return line
}

func stateFlag() cli.Flag {
	return &cli.StringFlag{Name: "state", Usage: "the state directory is `DIR` (default: .operon/PIPELINE beside FILE)", EnvVars: []string{"OPERON_STATE"}}
}

func logFormatFlag() cli.Flag {
	return &cli.StringFlag{Name: "log-format", Usage: "log as `FORMAT`: console or json", DefaultText: "console"}
}

func jsonFlag(usage string) cli.Flag { return &cli.BoolFlag{Name: "json", Usage: usage} }

// find finds the target that file names, the one of this folder if it is "".
func find(c *cli.Context, file string) (target, error) {
	t := target{given: file, asked: c.String("state"), server: c.String("server"), tokenFile: c.String("token-file")}
	var err error
	t.file, err = pipelineFile(file)
	none, nothing := errors.AsType[*nothingHere](err)
	switch {
	case nothing && t.asked != "":
		t.state = t.asked
		return t, nil
	case nothing:
		if t.state, err = onlyState(none.dir); err != nil {
			return t, err
		}
		return t, nil
	case err != nil:
		return t, err
	}
	if t.state = t.asked; t.state != "" {
		return t, nil
	}
	name, err := pipelineName(t.file)
	if err != nil {
		return t, err
	}
	t.state = filepath.Join(filepath.Dir(t.file), ".operon", name)
	return t, nil
}

// nothingHere is a folder without a pipeline file.
type nothingHere struct{ dir string }

// Error says what was looked for.
func (e *nothingHere) Error() string {
	return fmt.Sprintf("no FILE given, and no operon.yaml or *.operon.yaml in %s; operon init writes one", e.dir)
}

// pipelineFile is the file that was given, or the only one of the folder that
// was given, or of this one.
func pipelineFile(given string) (string, error) {
	if given == "" {
		return onlyFile(".")
	}
	info, err := os.Stat(given)
	if errors.Is(err, fs.ErrNotExist) {
		return "", usagef("no such file: %s", given)
	}
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return onlyFile(given)
	}
	return given, nil
}

func onlyFile(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var found []string
	for _, e := range entries {
		name := e.Name()
		if !e.IsDir() && (name == "operon.yaml" || strings.HasSuffix(name, ".operon.yaml") && name[0] != '.') {
			found = append(found, filepath.Join(dir, name))
		}
	}
	switch len(found) {
	case 0:
		return "", &nothingHere{dir}
	case 1:
		return found[0], nil
	}
	return "", usagef("no FILE given, and there are several: %s", strings.Join(found, ", "))
}

func onlyState(dir string) (string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, ".operon"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var found []string
	for _, e := range entries {
		if e.IsDir() && spec.IsName(e.Name()) {
			found = append(found, filepath.Join(dir, ".operon", e.Name()))
		}
	}
	switch len(found) {
	case 0:
		return "", &usageError{(&nothingHere{dir}).Error()}
	case 1:
		return found[0], nil
	}
	return "", usagef("no FILE given, and there are several states: %s", strings.Join(found, ", "))
}

// nameLine is the line that names the pipeline as it is nearly always written.
// At the start of a line it can't stand inside of a text.
var nameLine = regexp.MustCompile(`(?m)^(?:\x{feff})?pipeline:[ \t]+["']?([a-z][a-z0-9_]*)["']?[ \t]*(?:#.*)?\r?$`)

// pipelineName is the name of a file's pipeline. Where it can, it does not
// care about the rest of the file, which somebody may be editing while a run
// goes on.
func pipelineName(file string) (string, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the pipeline file: %w", err)
	}
	if m := nameLine.FindSubmatch(src); m != nil {
		return string(m[1]), nil
	}
	p, err := engine.LoadFile(file, engine.LoadOptions{})
	if err != nil {
		return "", err
	}
	return p.Name, nil
}

// isFile reports whether a first argument names a pipeline file or its folder,
// and not a task or an entity of the one in this folder.
func isFile(arg string) bool {
	if strings.ContainsAny(arg, "./\\") {
		return true
	}
	_, err := os.Stat(arg)
	return err == nil
}

// fileFirst splits arguments of the form [FILE] [NAME…].
func fileFirst(args []string) (file string, names []string) {
	if len(args) > 0 && isFile(args[0]) {
		return args[0], args[1:]
	}
	return "", args
}

// atMostFile is the only argument, which may be left out.
func atMostFile(c *cli.Context) (string, error) {
	if c.NArg() > 1 {
		return "", usagef("%s takes one FILE, not %d arguments: %s", c.Command.Name, c.NArg(), strings.Join(c.Args().Slice(), " "))
	}
	return c.Args().First(), nil
}

// quote is text as a shell takes it for one word.
func quote(text string) string {
	safe := strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+,@%:") == ""
	if text != "" && safe {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
