package control

import (
	"operon/engine"
	"operon/spec/coord"
)

// event is an engine's event with the failure that its own JSON leaves out.
type event struct {
	engine.Event
	Failed *failed `json:"failed,omitempty"`
}

// failed is a failed job on its way.
type failed struct {
	Task     string   `json:"task"`
	Coord    []uint32 `json:"coord"`
	Dims     []string `json:"dims"`
	Labels   []string `json:"labels,omitempty"`
	Kind     string   `json:"kind"`
	Message  string   `json:"message"`
	Attempts int      `json:"attempts"`
	Exit     int      `json:"exit,omitempty"`
	Signal   string   `json:"signal,omitempty"`
	Stderr   []byte   `json:"stderr,omitempty"`
	Log      string   `json:"log,omitempty"`
	Hole     bool     `json:"hole,omitempty"`
}

// summary is a run's with what its own JSON leaves out.
type summary struct {
	engine.Summary
	Failures []failureGroup `json:"failures,omitempty"`
	LeftOut  []string       `json:"left_out,omitempty"`
	Asked    bool           `json:"asked"`
	Undone   []int64        `json:"undone,omitempty"` // of each task
}

type failureGroup struct {
	Task   string  `json:"task"`
	Kind   string  `json:"kind"`
	Cause  string  `json:"cause"`
	Hole   bool    `json:"hole,omitempty"`
	Jobs   int64   `json:"jobs"`
	Sample *failed `json:"sample"`
}

func eventOf(e engine.Event) *event {
	out := &event{Event: e}
	if e.Failed != nil {
		out.Failed = failedOf(e.Failed)
	}
	return out
}

func (e *event) decode() engine.Event {
	out := e.Event
	if e.Failed != nil {
		out.Failed = e.Failed.decode()
	}
	return out
}

func failedOf(f *engine.Failed) *failed {
	return &failed{
		Task: f.Task, Coord: f.Coord.Indices(), Dims: f.Dims, Labels: f.Labels, Kind: f.Kind, Message: f.Message,
		Attempts: f.Attempts, Exit: f.Exit, Signal: f.Signal, Stderr: f.Stderr, Log: f.Log, Hole: f.Hole,
	}
}

func (f *failed) decode() *engine.Failed {
	return &engine.Failed{
		Task: f.Task, Coord: coord.Of(f.Coord...), Dims: f.Dims, Labels: f.Labels, Kind: f.Kind, Message: f.Message,
		Attempts: f.Attempts, Exit: f.Exit, Signal: f.Signal, Stderr: f.Stderr, Log: f.Log, Hole: f.Hole,
	}
}

func summaryOf(s *engine.Summary) *summary {
	out := &summary{Summary: *s, LeftOut: s.LeftOut, Asked: s.Asked}
	for _, t := range s.Tasks {
		out.Undone = append(out.Undone, t.Undone)
	}
	for _, g := range s.Failures {
		out.Failures = append(out.Failures, failureGroup{g.Task, g.Kind, g.Cause, g.Hole, g.Jobs, failedOf(&g.Sample)})
	}
	return out
}

func (s *summary) decode() *engine.Summary {
	out := s.Summary
	out.LeftOut, out.Asked = s.LeftOut, s.Asked
	for n := range min(len(s.Undone), len(out.Tasks)) {
		out.Tasks[n].Undone = s.Undone[n]
	}
	for _, g := range s.Failures {
		group := engine.FailureGroup{Task: g.Task, Kind: g.Kind, Cause: g.Cause, Hole: g.Hole, Jobs: g.Jobs}
		if g.Sample != nil {
			group.Sample = *g.Sample.decode()
		}
		out.Failures = append(out.Failures, group)
	}
	return &out
}
