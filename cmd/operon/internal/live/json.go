package live

import (
	"encoding/json"
	"io"
	"time"

	"operon/engine"
	"operon/spec/coord"
)

// jsonLines writes one event a line.
type jsonLines struct{ out io.Writer }

// line is an event with its failure.
type line struct {
	engine.Event
	Failed *failed `json:"failed,omitempty"`
}

// failed is a failed attempt as a program reads it.
type failed struct {
	Task     string            `json:"task"`
	Coord    map[string]uint32 `json:"coord"`
	Labels   map[string]string `json:"labels,omitempty"`
	Kind     string            `json:"kind"`
	Message  string            `json:"message"`
	Attempts int               `json:"attempts"`
	Exit     int               `json:"exit,omitempty"`
	Signal   string            `json:"signal,omitempty"`
	Stderr   string            `json:"stderr,omitempty"`
	Log      string            `json:"log,omitempty"`
	Hole     bool              `json:"hole,omitempty"`
}

func failedOf(f *engine.Failed) *failed {
	return &failed{
		Task: f.Task, Coord: Coord(f.Coord, f.Dims), Kind: f.Kind, Message: f.Message, Attempts: f.Attempts,
		Exit: f.Exit, Signal: f.Signal, Stderr: string(f.Stderr), Log: f.Log, Hole: f.Hole, Labels: labels(f),
	}
}

// Document is a run's summary as a program reads it, with what failed.
type Document struct {
	*engine.Summary
	Failures []failureGroup `json:"failures,omitempty"` // most jobs first
}

// failureGroup is what failed for one cause.
type failureGroup struct {
	Task   string  `json:"task"`
	Kind   string  `json:"kind"`
	Cause  string  `json:"cause"`
	Hole   bool    `json:"hole,omitempty"`
	Jobs   int64   `json:"jobs"`
	Sample *failed `json:"sample"`
	Exec   string  `json:"exec"` // the command that runs the sample again by hand
}

// DocumentOf makes a summary's document. exec is the command that runs a failed job
// again by hand.
func DocumentOf(s *engine.Summary, exec func(*engine.Failed) string) Document {
	out := Document{Summary: s}
	for n := range s.Failures {
		g := &s.Failures[n]
		out.Failures = append(out.Failures, failureGroup{g.Task, g.Kind, g.Cause, g.Hole, g.Jobs, failedOf(&g.Sample), exec(&g.Sample)})
	}
	return out
}

func (d jsonLines) event(e engine.Event, _ *task) {
	out := line{Event: e}
	if e.Failed != nil {
		out.Failed = failedOf(e.Failed)
	}
	enc := json.NewEncoder(d.out)
	enc.SetEscapeHTML(false)
	enc.Encode(out) // a reader that went away does not stop the run
}

func (jsonLines) tick(time.Time) {}
func (jsonLines) end(time.Time)  {}

// labels are those of a failed job's indices that have one.
func labels(f *engine.Failed) map[string]string {
	out := map[string]string{}
	for n, label := range f.Labels {
		if label != "" && n < len(f.Dims) {
			out[f.Dims[n]] = label
		}
	}
	return out
}

// Coord is a coordinate as an object, an index for each dimension.
func Coord(c coord.Coord, dims []string) map[string]uint32 {
	out := make(map[string]uint32, len(dims))
	for n, d := range dims {
		if n < c.Len() {
			out[d] = c.At(n)
		}
	}
	return out
}
