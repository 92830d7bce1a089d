package serve

import (
	"maps"

	"operon/engine"
	"operon/spec"
)

// Version is the version of the submission protocol.
const Version = 1

// The commands of a submission.
const (
	Hello                  = "hello"
	CreateInstance         = "create_instance"
	UpdateConfiguration    = "update_configuration"
	CreateDataflow         = "create_dataflow"
	Schedule               = "schedule"
	InitializationComplete = "initialization_complete"
)

// Command is one step of a submission. Which fields it has follows from its name.
type Command struct {
	Command string `json:"command"`

	Session  string `json:"session,omitempty"`  // hello: a fresh UUID
	Version  int    `json:"version,omitempty"`  // hello
	Pipeline string `json:"pipeline,omitempty"` // hello: its name

	Instance      *Instance      `json:"instance,omitempty"`      // create_instance
	Configuration *Configuration `json:"configuration,omitempty"` // update_configuration
	Dataflow      *Dataflow      `json:"dataflow,omitempty"`      // create_dataflow
	Task          string         `json:"task,omitempty"`          // schedule
}

// Instance is what a client wants to run.
type Instance struct {
	File   string `json:"file"`   // the pipeline file, absolute
	Source string `json:"source"` // its text as the client read it
	// Params are the values that were given, raw text by name, secrets too. Env
	// are the variables that the file takes from the client's environment.
	Params map[string]string `json:"params,omitempty"`
	Env    map[string]string `json:"env,omitempty"`
	Wanted Wanted            `json:"wanted"`
}

// Wanted is what a run is asked for, as engine.Options has them.
type Wanted struct {
	Until            []string            `json:"until,omitempty"`
	KeepGoing        bool                `json:"keep_going,omitempty"`
	MaxFailures      int64               `json:"max_failures,omitempty"`
	Redo             []string            `json:"redo,omitempty"`
	Only             map[string][]string `json:"only,omitempty"`
	Sample           map[string]int      `json:"sample,omitempty"`
	RetryHoles       bool                `json:"retry_holes,omitempty"`
	Fresh            bool                `json:"fresh,omitempty"`
	Rebuild          bool                `json:"rebuild,omitempty"`
	Skip             []string            `json:"skip,omitempty"`
	RedoInconsistent bool                `json:"redo_inconsistent,omitempty"`
	Adopt            bool                `json:"adopt,omitempty"`
}

// Configuration is what may change at any time and changes no result.
type Configuration struct {
	Pools map[string]int `json:"pools,omitempty"` // sizes, of pools and of tasks
}

// merge takes over what another one says.
func (c *Configuration) merge(o *Configuration) {
	if c.Pools == nil {
		c.Pools = map[string]int{}
	}
	maps.Copy(c.Pools, o.Pools)
}

// Dataflow is a task as the client compiled it.
type Dataflow struct {
	Task        string   `json:"task"`
	Fingerprint string   `json:"fingerprint"` // 64 hexadecimal digits
	Dims        []string `json:"dims"`        // canonical order
	Spawn       string   `json:"spawn,omitempty"`
}

// DataflowOf is a task's.
func DataflowOf(t *spec.TaskSpec) Dataflow {
	d := Dataflow{Task: t.Name, Fingerprint: t.Fingerprint.String(), Dims: t.ContextNames()}
	if d.Dims == nil {
		d.Dims = []string{}
	}
	if t.Spawn != nil {
		d.Spawn = t.Spawn.Name
	}
	return d
}

// Answer is the host's to a command that it took.
type Answer struct {
	Command string `json:"command"`
	Session string `json:"session,omitempty"` // hello
	Version int    `json:"version,omitempty"` // hello
	// Of initialization_complete: a run began, or became another one.
	Started    bool               `json:"started,omitempty"`
	Reconciled *engine.Reconciled `json:"reconciled,omitempty"`
}

// Submission is the commands of a whole submission in their order.
func Submission(session string, p *spec.Pipeline, i Instance, c *Configuration) []Command {
	out := []Command{
		{Command: Hello, Session: session, Version: Version, Pipeline: p.Name},
		{Command: CreateInstance, Instance: &i},
	}
	if c != nil {
		out = append(out, Command{Command: UpdateConfiguration, Configuration: c})
	}
	for _, t := range p.Topo {
		d := DataflowOf(t)
		out = append(out, Command{Command: CreateDataflow, Dataflow: &d})
	}
	for _, t := range p.Topo {
		out = append(out, Command{Command: Schedule, Task: t.Name})
	}
	return append(out, Command{Command: InitializationComplete})
}
