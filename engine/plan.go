package engine

import (
	"fmt"
	"strings"

	"operon/spec"
)

// Action names what a run would do about a task.
type Action string

const (
	ActionKeep    Action = "keep"    // everything is done, and stays
	ActionRun     Action = "run"     // it never ran, or not to its end
	ActionReplace Action = "replace" // something changed: its results are looked up anew
	ActionDrop    Action = "drop"    // the pipeline has it no more
	ActionUnknown Action = "unknown" // how many jobs there are is known only when an upstream has run
)

// Plan is what a run would do.
type Plan struct {
	Tasks []TaskPlan `json:"tasks"` // file order, then what is dropped
}

// TaskPlan is what a run would do about a task.
type TaskPlan struct {
	Task   string    `json:"task"`
	Action Action    `json:"action"`
	Reason string    `json:"reason"` // the first cause, with old and new value where there are some
	Jobs   *PlanJobs `json:"jobs"`   // nil where unknown

	// Size is the number of jobs where it is not known, in symbols: "lines × ?".
	Size string `json:"-"`
	// AtMost says that jobs among Run may turn out to be done: what they take is
	// made anew, perhaps with the same bytes.
	AtMost bool `json:"-"`
}

// PlanJobs are jobs that would run, and jobs whose result is there.
type PlanJobs struct {
	Run   int64 `json:"run"`
	Reuse int64 `json:"reuse"`
}

// Run is how many jobs would run, as far as it is known.
func (p *Plan) Run() (jobs int64, known bool) {
	known = true
	for _, t := range p.Tasks {
		if t.Jobs == nil {
			known = false
			continue
		}
		jobs += t.Jobs.Run
	}
	return jobs, known
}

// tally is what the simulation of a run counted for one task.
type tally struct {
	run, reuse int64
	waiting    int64 // tickets whose inputs are made anew
	open       bool  // some of them are families of unknown size
	failed     int64 // of run: jobs that the last run gave up
}

// planTask words what becomes of a task.
func planTask(t *spec.TaskSpec, d decision, c tally, above func(*spec.TaskSpec) string) TaskPlan {
	out := TaskPlan{Task: t.Name, Reason: d.Reason}
	if d.Cause != nil {
		if chain := above(d.Cause); chain != "" {
			out.Reason += " (" + chain + ")"
		}
	}
	if !c.open {
		out.Jobs = &PlanJobs{Run: c.run + c.waiting, Reuse: c.reuse}
		out.AtMost = c.waiting > 0
	} else {
		out.Size = size(t)
	}
	switch {
	case d.Action == actionReplace:
		out.Action = ActionReplace
	case d.Action == actionCreate:
		out.Action = ActionRun
	case c.run == 0 && c.waiting == 0 && !c.open:
		out.Action = ActionKeep
	default:
		out.Action = ActionRun
		if c.failed > 0 {
			out.Reason = fmt.Sprintf("%d failed in the last run", c.failed)
		} else {
			out.Reason = "the last run did not get to its end"
		}
	}
	if c.open {
		out.Action = ActionUnknown
	}
	return out
}

// size is a task's number of jobs in symbols.
func size(t *spec.TaskSpec) string {
	var parts []string
	for _, d := range t.Context {
		parts = append(parts, d.Name)
	}
	if len(parts) == 0 {
		return "1"
	}
	return strings.Join(parts, " × ")
}
