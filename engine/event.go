package engine

import "time"

// EventKind names what an event tells.
type EventKind string

const (
	EventRun     EventKind = "run"     // the run's state changed
	EventTask    EventKind = "task"    // a task's counts: now and then, and at every change of its dataflow's state
	EventFailure EventKind = "failure" // a job failed for good
	EventRetry   EventKind = "retry"   // an attempt failed; the job will be tried again
	EventNote    EventKind = "note"    // something a person should know: resumed, adopted, rebuilt
)

// Event is something that happened in a run.
type Event struct {
	Time    time.Time   `json:"time"`
	Kind    EventKind   `json:"event"`
	State   RunState    `json:"state,omitempty"`   // EventRun
	Task    *TaskStatus `json:"task,omitempty"`    // EventTask
	Failed  *Failed     `json:"-"`                 // EventFailure, EventRetry
	Delay   float64     `json:"delay_s,omitempty"` // EventRetry: seconds until the next attempt
	Message string      `json:"message,omitempty"` // EventNote
}
