package engine

import (
	"log/slog"
	"time"

	"operon/engine/body"
	"operon/spec"
)

// Options are what a run is asked for. The zero value runs everything.
type Options struct {
	Dir   string // the pipeline file's folder; "": the current one
	State string // the state directory; "": Dir/.operon/<pipeline>
	Jobs  int    // jobs at once over all tasks; 0: the number of CPUs
	// Workers is how many workers share the jobs; 0: one. Results do not depend on
	// it.
	Workers int
	// StallLimit is how long a worker may take no command before it is taken for
	// dead, and replaced; 0: a minute.
	StallLimit time.Duration
	KeepGoing  bool // a failed job stops only what depends on it
	// Only names coordinates: of some dimensions, by name, the indices that are
	// run, or labels with an @ before them. Of Sample's dimensions these many
	// indices from 0 on are, "" standing for every list that a root makes. What
	// takes more than these is left out.
	Only   map[string][]string
	Sample map[string]int
	// CPUs, Mem (bytes) and GPUs are what the jobs may take of the machine; 0: all
	// that it has. GPUs below 0: none.
	CPUs float64
	Mem  int64
	GPUs int
	// MaxFailures is how many jobs may fail for good, holes too, before no new
	// job starts. 0: any number; otherwise KeepGoing is implied.
	MaxFailures int64
	// RetryHoles tries the holes of earlier runs again; what rests on them runs where
	// it takes something else than before.
	RetryHoles bool
	Until      []string // run these tasks and what they need, nothing else; empty: all
	Fresh      bool     // ignore everything that is there
	// Redo names tasks that run again, without looking whether their results are
	// there; what hangs on them runs where it comes out that the bytes differ.
	Redo []string
	// Rebuild first makes the metadata again, as the function of that name does;
	// Skip names tasks whose results it throws away. RedoInconsistent does so
	// too, and keeps aside what hangs on damaged results, to be taken back if
	// these come out as they were.
	Rebuild          bool
	Skip             []string
	RedoInconsistent bool
	Adopt            bool     // take over a state that another pipeline file left
	Environ          []string // what jobs inherit; nil: os.Environ()
	MaxOutput        int64    // bytes of output a job; 0: body.DefaultMaxOutput
	LogLimit         int64    // bytes of standard error kept a job; 0: body.DefaultLogLimit
	// MemoLimit is how many bytes results of replaced and removed tasks may take
	// up after a complete run; the oldest go first. 0: any number; negative: none.
	MemoLimit int64
	Build     string // of the program, for the footprint
	Socket    string // where the program answers while the engine runs, for the owner file

	// Events hears what happens, in order, from one goroutine at a time. It
	// must return quickly: the loop waits for it.
	Events func(Event)
	Logger *slog.Logger

	Funcs []Function // what `func` bodies name

	// Bodies makes the body of a task; nil: body.New. It is for programs and
	// tests that bring their own.
	Bodies func(t *spec.TaskSpec) (body.Runner, error)

	// Fault is called at points in the life of a worker, for tests that stall or
	// break it there; see worker.Config.
	Fault func(worker int, incarnation uint64, point string)

	// Hook is called at every commit point of the stores, for tests that kill
	// the program there.
	Hook func(point string)
}

// LoadOptions are what a pipeline file is loaded with.
type LoadOptions struct {
	Params     map[string]string // name to text, as from -p
	ParamsFile string            // a YAML or JSON file of the same; "" for none
	LookupEnv  func(string) (string, bool)
	// State is the state directory; "" is the pipeline's own. Remember takes the
	// params of a run there that did not get to its end, if none are given; Last, if
	// not nil, is asked for them instead, with the pipeline's name.
	State    string
	Remember bool
	Last     func(pipeline string) map[string]string
}
