package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"operon/engine"
	"operon/engine/serve"
	"operon/spec"
)

func TestExitCode(t *testing.T) {
	tests := []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errUnfinished, 1},
		{errors.New("whatever"), 1},
		{usagef("x"), 2},
		{spec.Errors{{Message: "x"}}, 2},
		{told{spec.Errors{{Message: "x"}}}, 2},
		{&engine.UnknownError{What: "task"}, 2},
		{fmt.Errorf("%w: there", engine.ErrNoState), 2},
		{&engine.ForeignError{}, 2},
		{&serve.ElsewhereError{}, 2},
		{&engine.NewerError{}, 2},
		{&engine.UnsavedError{}, 2},
		{fmt.Errorf("read: %w", &fs.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}), 2},
		{&engine.InconsistentError{}, 3},
		{fmt.Errorf("%w, which does not answer", &engine.InUseError{}), 4},
		{&engine.MachineError{Doing: "x", Err: errors.New("y")}, 5},
		{&engine.MachineError{Doing: "x", Err: fs.ErrNotExist}, 5},
		{&engine.DamagedError{}, 5},
		{fmt.Errorf("write: %w", &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}), 5},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, 5},
		{&os.SyscallError{Syscall: "write", Err: syscall.EROFS}, 5},
		{errors.Join(&engine.InUseError{}, &engine.MachineError{Err: errors.New("y")}), 5},
		{told{&stopped{syscall.SIGINT}}, 130},
		{errors.Join(&engine.MachineError{Err: errors.New("y")}, &stopped{syscall.SIGTERM}), 143},
	}
	for _, tt := range tests {
		if got := ExitCode(tt.err); got != tt.want {
			t.Errorf("%T %v: %d, want %d", tt.err, tt.err, got, tt.want)
		}
	}
}

func TestExitTableHasEveryCode(t *testing.T) {
	table := ExitTable()
	for _, r := range exitRules {
		if row := fmt.Sprintf("| %d | %s |\n", r.code, r.means); strings.Count(table, row) != 1 {
			t.Errorf("no row, or several, for %d in\n%s", r.code, table)
		}
	}
	if got := strings.Count(table, "\n"); got != len(exitRules)+2 {
		t.Errorf("%d lines", got)
	}
}
