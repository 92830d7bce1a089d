package body

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	exitNotFound      = 127 // what shells say of a command that is not there
	exitNotExecutable = 126 // and of one that can't be run
)

// lookPath finds a command as a shell would: a name with a slash as it is, else
// in the folders of path. Relative ones are meant from dir.
func lookPath(command, path, dir string) (string, *Failure) {
	if strings.Contains(command, "/") {
		return command, nil
	}
	found := ""
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		candidate := filepath.Join(folder, command)
		info, err := os.Stat(candidate)
		if err != nil || info.IsDir() {
			continue
		}
		if info.Mode()&0o111 != 0 {
			return candidate, nil
		}
		found = candidate
	}
	if found != "" {
		return "", startFailure(exitNotExecutable, nil, "%s is not executable (chmod +x %s)", found, found)
	}
	return "", startFailure(exitNotFound, nil, "command not found: %s (PATH=%s)", command, path)
}

func startFailure(exit int, err error, format string, args ...any) *Failure {
	return &Failure{Kind: KindExit, Exit: exit, Err: err, Message: fmt.Sprintf(format, args...)}
}

// explainStart says why a program did not start: the kernel's error alone does
// not tell a missing program from a missing folder or interpreter.
func explainStart(err error, path, dir string) *Failure {
	if errors.Is(err, syscall.E2BIG) {
		return &Failure{Kind: KindInput, Err: err, Message: "arguments and environment are too long for the system; hand values over on standard input or as a file"}
	}
	if isShortage(err) {
		return machine("start "+path, err)
	}
	if info, statErr := os.Stat(dir); statErr != nil {
		return startFailure(exitNotFound, err, "the working directory %s is missing: %v", dir, errors.Unwrap(statErr))
	} else if !info.IsDir() {
		return startFailure(exitNotFound, err, "the working directory %s is no folder", dir)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	info, statErr := os.Stat(path)
	switch {
	case statErr != nil:
		return startFailure(exitNotFound, err, "command not found: %s", path)
	case info.IsDir():
		return startFailure(exitNotExecutable, err, "%s is a folder, no program", path)
	case info.Mode()&0o111 == 0:
		return startFailure(exitNotExecutable, err, "%s is not executable (chmod +x %s)", path, path)
	case errors.Is(err, syscall.ENOENT):
		return explainInterpreter(err, path)
	case errors.Is(err, syscall.ENOEXEC):
		return startFailure(exitNotExecutable, err, "%s is no program that this system can run; a script needs a first line such as #!/bin/sh", path)
	}
	return startFailure(exitNotExecutable, err, "can't run %s: %v (working directory %s)", path, err, dir)
}

// explainInterpreter is for a script that is there, but the program of whose
// first line is not.
func explainInterpreter(err error, path string) *Failure {
	line := firstLine(path)
	interpreter, found := bytes.CutPrefix(line, []byte("#!"))
	if !found {
		return startFailure(exitNotFound, err, "can't run %s: the loader that it asks for is missing", path)
	}
	if bytes.HasSuffix(interpreter, []byte("\r")) {
		return startFailure(exitNotFound, err, "the interpreter of %s is missing: its first line %q ends in CR LF; save the script with LF line ends (sed -i 's/\\r$//' %s)", path, line, path)
	}
	return startFailure(exitNotFound, err, "the interpreter of %s is missing: its first line is %q", path, line)
}

func firstLine(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := f.Read(head) // what could be read is shown
	line, _, _ := bytes.Cut(head[:n], []byte("\n"))
	return line
}
