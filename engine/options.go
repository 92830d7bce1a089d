package engine

import (
	"log/slog"

	"operon/engine/body"
	"operon/spec"
)

// Options are what a run is asked for. The zero value runs everything.
type Options struct {
	Dir       string // the pipeline file's folder; "": the current one
	State     string // the state directory; "": Dir/.operon/<pipeline>
	Jobs      int    // jobs at once over all tasks; 0: the number of CPUs
	KeepGoing bool   // a failed job stops only what depends on it
	// MaxFailures is how many jobs may fail for good, holes too, before no new
	// job starts. 0: any number; otherwise KeepGoing is implied.
	MaxFailures int64
	// RetryHoles drops the holes of earlier runs and what rests on them.
	RetryHoles bool
	Until      []string // run these tasks and what they need, nothing else; empty: all
	Fresh      bool     // ignore everything that is there
	Adopt      bool     // take over a state that another pipeline file left
	Environ    []string // what jobs inherit; nil: os.Environ()
	MaxOutput  int64    // bytes of output a job; 0: body.DefaultMaxOutput
	LogLimit   int64    // bytes of standard error kept a job; 0: body.DefaultLogLimit
	Build      string   // of the program, for the footprint
	Socket     string   // where the program answers while the engine runs, for the owner file

	// Events hears what happens, in order, from one goroutine at a time. It
	// must return quickly: the loop waits for it.
	Events func(Event)
	Logger *slog.Logger

	// Bodies makes the body of a task; nil: body.New. It is for programs and
	// tests that bring their own.
	Bodies func(t *spec.TaskSpec) (body.Runner, error)

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
	// params of a run there that did not get to its end, if none are given.
	State    string
	Remember bool
}
