package control

import (
	"encoding/json"
	"fmt"
	"time"

	"operon/engine"
	"operon/engine/serve"
	"operon/spec/coord"
	"operon/spec/value"
)

// Version is the protocol's version. A server answers requests of its own
// version alone, and says so.
const Version = 1

// What a server allows a client.
const (
	MaxRequest   = 1 << 20         // bytes of one request
	MaxConns     = 64              // connections at a time
	IdleTimeout  = time.Minute     // without a request
	WriteTimeout = 5 * time.Minute // without reading what was written
	MaxReply     = 1 << 30         // bytes of one line that a client reads
)

const (
	methodHello  = "hello"
	methodStatus = "status"
	methodValues = "values"
	methodLogs   = "logs"
	methodPause  = "pause"
	methodResume = "resume"
	methodQuit   = "quit"
	methodPool   = "pool"
	methodPlan   = "plan"
	methodDrop   = "drop"

	// Of a server of many pipelines.
	methodPipelines = "pipelines"
	methodSession   = "session"
)

// request is one line from a client.
type request struct {
	V      int    `json:"v"`
	Method string `json:"method"`
	// Pipeline names one to a server of many; an engine's own socket has one.
	Pipeline string        `json:"pipeline,omitempty"`
	Entity   string        `json:"entity,omitempty"` // values
	Task     string        `json:"task,omitempty"`   // logs
	At       coord.Binding `json:"at,omitempty"`     // values, logs
	// Labels are of values and logs: dimension to label.
	Labels  map[string]string `json:"labels,omitempty"`
	Name    string            `json:"name,omitempty"`    // pool
	Size    int               `json:"size,omitempty"`    // pool
	Failed  bool              `json:"failed,omitempty"`  // logs
	Tasks   []string          `json:"tasks,omitempty"`   // pause, resume, drop
	Cascade bool              `json:"cascade,omitempty"` // pause
	Force   bool              `json:"force,omitempty"`   // quit
	Plan    *engine.PlanQuery `json:"plan,omitempty"`    // plan
}

// reply is one line from a server. Done or Error closes an answer.
type reply struct {
	V      int            `json:"v,omitempty"` // hello
	Status *engine.Status `json:"status,omitempty"`
	Dims   *[]string      `json:"dims,omitempty"` // values: before the first item
	Item   *item          `json:"item,omitempty"`
	Log    *logLine       `json:"log,omitempty"`
	Found  *found         `json:"found,omitempty"`
	Plan   []taskPlan     `json:"plan,omitempty"`

	Pipelines []serve.Info  `json:"pipelines,omitempty"`
	Answer    *serve.Answer `json:"answer,omitempty"` // session: to a command
	Event     *event        `json:"event,omitempty"`  // session
	Gap       int64         `json:"gap,omitempty"`    // session: events that were left out here
	Summary   *summary      `json:"summary,omitempty"`

	Error *problem `json:"error,omitempty"`
	Done  bool     `json:"done,omitempty"`
}

// taskPlan is a task's plan with what its own JSON leaves out.
type taskPlan struct {
	engine.TaskPlan
	Size   string `json:"size,omitempty"`
	AtMost bool   `json:"at_most,omitempty"`
}

func planOf(p *engine.Plan) []taskPlan {
	var out []taskPlan
	for _, t := range p.Tasks {
		out = append(out, taskPlan{t, t.Size, t.AtMost})
	}
	return out
}

func decodePlan(tasks []taskPlan) *engine.Plan {
	p := &engine.Plan{}
	for _, t := range tasks {
		t.TaskPlan.Size, t.TaskPlan.AtMost = t.Size, t.AtMost
		p.Tasks = append(p.Tasks, t.TaskPlan)
	}
	return p
}

// item is a value on its way. Exactly one of JSON, Hole and File is set.
type item struct {
	Coord []uint32        `json:"coord"`
	JSON  json.RawMessage `json:"json,omitempty"`
	Hole  *string         `json:"hole,omitempty"`
	File  *file           `json:"file,omitempty"`
}

type file struct {
	Name   string `json:"name"`
	Exec   bool   `json:"exec,omitempty"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Path   string `json:"path"`
	Ref    bool   `json:"ref,omitempty"`
}

type found struct {
	Dims  []string `json:"dims"`
	Have  int64    `json:"have"`
	Want  int64    `json:"want"`
	Known bool     `json:"known"`
}

type logLine struct {
	Task   string   `json:"task"`
	Coord  []uint32 `json:"coord"`
	Dims   []string `json:"dims"`
	Labels []string `json:"labels,omitempty"`
	Path   string   `json:"path"`
}

func itemOf(it engine.Item) *item {
	out := &item{Coord: it.Coord.Indices()}
	switch it.Value.Kind {
	case value.File:
		f := it.Value.File
		out.File = &file{Name: f.Name, Exec: f.Exec, Size: f.Size, SHA256: f.SHA256.String(), Path: f.Path, Ref: f.Ref}
	case value.Hole:
		reason := it.Value.Reason()
		out.Hole = &reason
	default:
		out.JSON = it.Value.JSON
	}
	return out
}

func (it *item) decode() (engine.Item, error) {
	out := engine.Item{Coord: coord.Of(it.Coord...)}
	switch {
	case it.File != nil:
		sum, err := value.ParseDigest(it.File.SHA256)
		if err != nil {
			return out, fmt.Errorf("read a value from the engine: %w", err)
		}
		f := it.File
		out.Value = value.FromFile(value.FileInfo{Name: f.Name, Exec: f.Exec, Size: f.Size, SHA256: sum, Path: f.Path, Ref: f.Ref})
	case it.Hole != nil:
		out.Value = value.NewHole(*it.Hole)
	default:
		// A JSON null decodes into no RawMessage at all.
		text := []byte(it.JSON)
		if text == nil {
			text = []byte("null")
		}
		out.Value = value.FromJSON(text)
	}
	return out, nil
}

func foundOf(f engine.Found) *found {
	return &found{Dims: notNil(f.Dims), Have: f.Have, Want: f.Want, Known: f.Known}
}

func (f *found) decode() engine.Found {
	return engine.Found{Dims: f.Dims, Have: f.Have, Want: f.Want, Known: f.Known}
}

func logOf(l engine.Log) *logLine {
	return &logLine{Task: l.Task, Coord: l.Coord.Indices(), Dims: notNil(l.Dims), Labels: l.Labels, Path: l.Path}
}

func (l *logLine) decode() engine.Log {
	return engine.Log{Task: l.Task, Coord: coord.Of(l.Coord...), Dims: l.Dims, Labels: l.Labels, Path: l.Path}
}

func notNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
