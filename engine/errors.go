package engine

import (
	"errors"
	"fmt"
	"strings"
)

// While a state directory is opened.
var (
	// ErrNoState: there is nothing there yet.
	ErrNoState = errors.New("no state there yet")
)

// InUseError is a state directory that another engine holds.
type InUseError struct {
	Dir    string
	Owner  string // such as "process 4711 on host alpha since 12:03"
	Socket string // where that engine answers, or ""
}

// Error names the holder.
func (e *InUseError) Error() string {
	return fmt.Sprintf("state directory %s is in use by %s", e.Dir, e.Owner)
}

// DamagedError is a state that can't be read as it is.
type DamagedError struct {
	Path   string
	Detail string
	Mend   string // what to do
}

// Error says what is damaged and what to do.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("damaged: %s: %s; %s", e.Path, e.Detail, e.Mend)
}

// InconsistentError is data that does not hold what a record says.
type InconsistentError struct {
	Task, Coord string // where, as far as it is known
	Detail      string
	Mend        string // what to do, if that is known
}

// Error says where and what, and what to do.
func (e *InconsistentError) Error() string {
	text := "inconsistent data: "
	if e.Task != "" {
		text += "task " + e.Task
		if e.Coord != "" {
			text += fmt.Sprintf(" at %q", e.Coord)
		}
		text += ": "
	}
	text += e.Detail
	if e.Mend != "" {
		text += "; " + e.Mend
	}
	return text
}

// ForeignError is a state that belongs to another pipeline file.
type ForeignError struct{ Dir, Pipeline, File string }

// Error says whose it is and the ways out.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("state directory %s belongs to pipeline %s of %s; give this one another with --state, or take it over with --adopt if the file was moved", e.Dir, e.Pipeline, e.File)
}

// NewerError is a state that a newer operon wrote.
type NewerError struct {
	Dir        string
	Have, Know int
}

// Error says which format is there and which is known.
func (e *NewerError) Error() string {
	return fmt.Sprintf("state directory %s has format %d, and this operon knows up to %d; use a newer operon, or --fresh to start over", e.Dir, e.Have, e.Know)
}

// MachineError is the machine's fault: disk full, no permission. What was
// committed stays.
type MachineError struct {
	Doing string
	Err   error
}

// Error says what was being done and why it could not be.
func (e *MachineError) Error() string { return e.Doing + ": " + e.Err.Error() }

// Unwrap is the cause.
func (e *MachineError) Unwrap() error { return e.Err }

// UnknownError is a name that the pipeline does not have.
type UnknownError struct {
	What    string // "task", "entity", "dimension"
	Name    string
	Nearest string // "" if none is near
	Known   []string
}

// Error says what is unknown and what there is.
func (e *UnknownError) Error() string {
	s := fmt.Sprintf("unknown %s %q", e.What, e.Name)
	if e.Nearest != "" {
		return s + fmt.Sprintf("; did you mean %q?", e.Nearest)
	}
	if len(e.Known) > 0 && len(e.Known) <= 12 {
		return s + "; there are: " + strings.Join(e.Known, ", ")
	}
	return s
}

// NotOursError is a folder given as a state directory that is none, and holds
// something.
type NotOursError struct{ Dir, Holds string }

// Error says so, and what would do.
func (e *NotOursError) Error() string {
	return fmt.Sprintf("%s is no state directory, and holds something else (%q); give --state a new or an empty folder", e.Dir, e.Holds)
}
