package spec

import (
	"slices"
	"time"

	"operon/spec/value"
)

// Pipeline is a pipeline file that has passed every rule. It does not change
// after Load, and may be read from several goroutines.
type Pipeline struct {
	Name        string
	Description string
	Params      []*Param      // in file order, each with its effective value
	Env         []EnvVar      // in file order: for every body, below the task's own
	Pools       []*SharedPool // in file order
	Dims        []*Dim        // canonical order: fewer dependencies first, then by name
	Tasks       []*TaskSpec   // file order
	Topo        []*TaskSpec   // every task after those it needs; ties in file order
	Warnings    Errors        // what is legal but most likely not meant
	Source      []byte        // the file's bytes, for the snapshot in the state
	File        string        // the name that Load was given

	tasks    map[string]*TaskSpec
	entities map[string]*Entity
	dims     map[string]*Dim
	params   map[string]*Param
	hidden   []placeholder
}

// Task is the task of that name, or nil.
func (p *Pipeline) Task(name string) *TaskSpec { return p.tasks[name] }

// Entity is the entity of that name, or nil.
func (p *Pipeline) Entity(name string) *Entity { return p.entities[name] }

// Param is the param of that name, or nil.
func (p *Pipeline) Param(name string) *Param { return p.params[name] }

// Dim is the dimension of that name, or nil.
func (p *Pipeline) Dim(name string) *Dim { return p.dims[name] }

// Dim is a named axis, spawned by one task.
type Dim struct {
	Name    string
	Index   int       // position in Pipeline.Dims
	Spawner *TaskSpec // the task whose jobs return the lists along it
	Prec    []*Dim    // what it depends on: the spawner's context, canonical order
}

// DependsOn reports whether d's length may differ from index to index of e.
func (d *Dim) DependsOn(e *Dim) bool {
	for _, p := range d.Prec {
		if p == e {
			return true
		}
	}
	return false
}

// Entity is what a task produces.
type Entity struct {
	Name     string
	Producer *TaskSpec
	// Dims are the dimensions of a value's coordinate, in canonical order: the
	// producer's context, then the spawned dimension if there is one (which
	// depends on all of them, and so comes last).
	Dims []*Dim
}

// TaskSpec is one task, compiled.
type TaskSpec struct {
	Name        string
	Index       int // position in Pipeline.Tasks
	Description string
	Out         *Entity
	Spawn       *Dim     // the dimension it spawns, or nil
	In          []*Input // declared order
	Context     []*Dim   // canonical order
	Body        Body
	Stdin       Stdin
	Format      Format
	File        Template // format file: the file's name; nil: the entity in snake_case
	Glob        string   // format files: what to take from the folder; "" means **
	Pool        Pool
	SharedPool  *SharedPool // the pool it shares with other tasks, or nil; Pool is then the zero one
	CPUs        float64     // what one job takes of the machine's; 0: not said
	Mem         int64       // bytes; 0: not said
	GPUs        int
	Order       []OrderKey // which ready jobs go first; empty: first in, first out
	Retry       Retry
	Timeout     time.Duration // 0: none
	Grace       time.Duration // between SIGTERM and SIGKILL
	Shell       []string      // argv that a run script is appended to
	Env         []EnvVar      // the task's own, over the pipeline's; file order
	Workdir     string        // relative to the pipeline file's folder; "" is that folder
	Deps        []Dep         // files whose content the body depends on, sorted by path
	Cache       bool
	OnError     OnError  // what a job that failed for good does
	Save        Template // where each value is linked or copied to, relative to the pipeline file's folder; nil: nowhere
	Keep        bool     // false: its values may go once every consumer is dropped
	KeyFilter   string   // jq: the label of each item of a list, a text; "": none
	Schema      []byte   // compact JSON Schema that every value must satisfy; nil: none
	// Mentions are all arguments, dimensions and params that the body, the
	// environment or the file name mentions, sorted; with format file or files
	// also "out", if the body or the environment does.
	Mentions []string
	Line     int // of the task's name in the file, from 1

	Fingerprint value.Digest // of everything that can change what the body returns
	Fields      []Field      // the same, field by field, for explanations
}

// AllUpstreamTasks are the tasks that t needs, directly or not: the producers
// of its inputs and the spawners of its context's dimensions, and theirs. They
// come in topological order, without t.
func (t *TaskSpec) AllUpstreamTasks() []*TaskSpec {
	// A stack of its own instead of recursion: a chain may be as long as there
	// are tasks.
	type frame struct {
		task *TaskSpec
		ups  []*TaskSpec
	}
	seen := map[*TaskSpec]bool{t: true}
	stack := []frame{{t, t.Upstream()}}
	var out []*TaskSpec
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if len(top.ups) == 0 {
			if top.task != t {
				out = append(out, top.task)
			}
			stack = stack[:len(stack)-1]
			continue
		}
		up := top.ups[0]
		top.ups = top.ups[1:]
		if !seen[up] {
			seen[up] = true
			stack = append(stack, frame{up, up.Upstream()})
		}
	}
	return out
}

// Upstream are the tasks that t needs directly, each once: the producers of its
// inputs in declared order, then the spawners of its context's dimensions.
func (t *TaskSpec) Upstream() []*TaskSpec {
	var out []*TaskSpec
	seen := make(map[*TaskSpec]bool, len(t.In)+len(t.Context))
	add := func(up *TaskSpec) {
		if !seen[up] {
			seen[up] = true
			out = append(out, up)
		}
	}
	for _, in := range t.In {
		add(in.Entity.Producer)
	}
	for _, d := range t.Context {
		add(d.Spawner)
	}
	return out
}

// Mentioned reports whether the task's body, environment or file name mentions
// name: an argument, a dimension, a param, or "out".
func (t *TaskSpec) Mentioned(name string) bool {
	_, found := slices.BinarySearch(t.Mentions, name)
	return found
}

// PoolSize is how many of the task's jobs may run at once; 0 leaves it to the
// engine's own limit.
func (t *TaskSpec) PoolSize() int { return t.Pool.Size }

// ContextNames are the names of the context's dimensions, canonical order.
func (t *TaskSpec) ContextNames() []string { return dimNames(t.Context) }

// DimNames are the names of the entity's dimensions, canonical order.
func (e *Entity) DimNames() []string { return dimNames(e.Dims) }

func dimNames(dims []*Dim) []string {
	out := make([]string, len(dims))
	for i, d := range dims {
		out[i] = d.Name
	}
	return out
}

// Input is one reference of a task: an argument.
type Input struct {
	Arg    string // the argument's name
	Entity *Entity
	Slice  []*Dim // written order; empty: the value itself
	Free   []*Dim // the entity's dimensions that are not sliced, canonical order
	// HolesNull: of a slice, a hole is null in the list, and does not make the
	// consumer a hole.
	HolesNull bool
	Line      int
}

// Sliced reports whether the reference slices over d.
func (in *Input) Sliced(d *Dim) bool {
	for _, s := range in.Slice {
		if s == d {
			return true
		}
	}
	return false
}

// String is the reference as it is written: Entity<d1, d2>.
func (in *Input) String() string {
	s := in.Entity.Name
	for i, d := range in.Slice {
		if i == 0 {
			s += "<"
		} else {
			s += ", "
		}
		s += d.Name
	}
	if len(in.Slice) > 0 {
		s += ">"
	}
	return s
}

// BodyKind names a kind of body.
type BodyKind string

const (
	BodyRun    BodyKind = "run"    // a script under Shell
	BodyExec   BodyKind = "exec"   // an argv, no shell
	BodyJQ     BodyKind = "jq"     // a jq filter, in process
	BodySource BodyKind = "source" // a source of values, in process
	BodyWorker BodyKind = "worker" // a persistent process that serves many jobs
	BodyFunc   BodyKind = "func"   // a Go function of the program that embeds the engine
)

// Body is what a task's jobs do.
type Body struct {
	Kind   BodyKind
	Script string     // run: the script; jq: the filter
	Argv   []Template // exec; worker: params only
	Source *Source    // source
	// Concurrency is how many requests a worker process may have in flight, from 1.
	Concurrency int
	Func        string // func: the name it is registered under
	Line        int    // of the script's, filter's, argv's or name's first character
	Column      int
}

// SourceKind names a kind of source.
type SourceKind string

const (
	SourceGlob   SourceKind = "glob"   // files
	SourceLines  SourceKind = "lines"  // the lines of a text file
	SourceJSONL  SourceKind = "jsonl"  // a JSON value a line
	SourceJSON   SourceKind = "json"   // the items of a JSON array
	SourceCSV    SourceKind = "csv"    // objects keyed by the header
	SourceTSV    SourceKind = "tsv"    // the same, separated by tabs
	SourceValues SourceKind = "values" // values written in the pipeline file
	SourceCount  SourceKind = "count"  // the integers 0 to n − 1
)

// Source is where a root's values come from.
type Source struct {
	Kind   SourceKind
	Globs  []string // glob: patterns relative to the pipeline file's folder
	Copy   bool     // glob: store the files instead of taking them by reference
	Path   string   // lines, jsonl, json, csv, tsv: relative to the pipeline file's folder
	Values [][]byte // values: compact JSON, one an item
	Count  uint32   // count
}

// Format tells how a body's output is read.
type Format string

const (
	FormatText  Format = "text"  // one value: standard output less one final line end
	FormatJSON  Format = "json"  // one value, or a list: an array
	FormatFile  Format = "file"  // one value: a file
	FormatLines Format = "lines" // a list: its lines
	FormatJSONL Format = "jsonl" // a list: a JSON value a line
	FormatNul   Format = "nul"   // a list: strings ended by NUL
	FormatFiles Format = "files" // a list: files
)

// StdinAs names a form of standard input.
type StdinAs string

const (
	AsDefault StdinAs = ""      // the form that follows from the value
	AsText    StdinAs = "text"  // a string as it is
	AsLines   StdinAs = "lines" // value by value, each with one line end
	AsNul     StdinAs = "nul"   // value by value, each with one NUL
	AsJSON    StdinAs = "json"  // one JSON value, nesting kept
	AsJSONL   StdinAs = "jsonl" // value by value as compact JSON, each with one line end
)

// Stdin says what a body's standard input carries, compiled: by default the
// inputs that the body does not mention.
type Stdin struct {
	None bool     // said by the user: nothing at all
	From []*Input // what it carries: none, one, or several as one object; by argument name. Of a jq body all inputs
	As   StdinAs
	Set  bool // said by the user
}

// Template is text with names to fill in.
type Template []Piece

// Piece is a literal, or a name to fill in if Name is set.
type Piece struct {
	Text string
	Name string
}

// Names are the names that t mentions, in order of appearance.
func (t Template) Names() []string {
	var out []string
	for _, p := range t {
		if p.Name != "" {
			out = append(out, p.Name)
		}
	}
	return out
}

// Expand fills t in with what value returns for each name.
func (t Template) Expand(value func(name string) (string, error)) (string, error) {
	var out []byte
	for _, p := range t {
		if p.Name == "" {
			out = append(out, p.Text...)
			continue
		}
		text, err := value(p.Name)
		if err != nil {
			return "", err
		}
		out = append(out, text...)
	}
	return string(out), nil
}

// EnvVar is one environment variable.
type EnvVar struct {
	Name  string
	Value Template
}

// ParamType names the type of a param.
type ParamType string

const (
	ParamString ParamType = "string"
	ParamInt    ParamType = "int"
	ParamFloat  ParamType = "float"
	ParamBool   ParamType = "bool"
	ParamJSON   ParamType = "json"
)

// Param is one param with its effective value.
type Param struct {
	Name        string
	Type        ParamType
	Description string
	Choices     []string
	EnvName     string // environment variable it may come from; "" for none
	HasDefault  bool
	Given       bool        // the command line or the params file gave the value
	Secret      bool        // never printed or stored, and no part of any fingerprint
	Value       value.Value // a JSON value of the type; numbers keep their source text
}

// Text is the param's value as text: a string as it is, any other compact JSON.
func (p *Param) Text() string {
	if text, ok := p.Value.Text(); ok {
		return text
	}
	return string(p.Value.JSON)
}

// Pool is how many jobs of a task run at once.
type Pool struct {
	Size int    // 0: not limited by the task
	Env  string // the environment variable that Size came from, or ""
}

// SharedPool is a named pool, which the jobs of several tasks share.
type SharedPool struct {
	Name string
	Size int  // how many jobs at once; 0: not limited
	Rate Rate // how many may start in a length of time; zero: any
	Line int
}

// Rate is a number of starts in a length of time. The zero Rate is no limit.
type Rate struct {
	N   float64
	Per time.Duration // a second, a minute or an hour
}

// OnError says what becomes of a run when a job has failed for good.
type OnError string

const (
	OnErrorStop     OnError = "stop"     // no new job starts
	OnErrorContinue OnError = "continue" // what does not need it goes on
	OnErrorHole     OnError = "hole"     // its value is a hole, and the run goes on
)

// OrderKey is one dimension of a task's order.
type OrderKey struct {
	Position   int // in the task's context
	Descending bool
}

// Retry says when a failed job is tried again.
type Retry struct {
	Times      int // further attempts after the first
	Backoff    time.Duration
	Factor     float64
	MaxBackoff time.Duration
	Jitter     float64
	OnExit     bool  // any exit status
	Exits      []int // these exit statuses
	OnSignal   bool
	OnTimeout  bool
	OnOutput   bool
}

// Dep is a file whose content a body depends on.
type Dep struct {
	Path   string // relative to the pipeline file's folder
	SHA256 value.Digest
}

// Field is one thing that a task's fingerprint covers.
type Field struct {
	Name  string // such as "body", "param n", "dep script.py"
	Value string // as it is to be shown to a person
}
