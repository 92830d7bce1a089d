package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"

	"operon/spec"
	"operon/spec/coord"
)

// CheckMode says how closely a check looks.
type CheckMode string

const (
	// TrustAll looks at nothing.
	TrustAll CheckMode = "trust-all"
	// MetadataOnly recomputes every counter, status and length from the pipeline
	// and the job records, and compares.
	MetadataOnly CheckMode = "metadata-only"
	// Quick adds existence and shape of the values at every boundary: of tasks
	// whose values an unfinished task, or the user, will read.
	Quick CheckMode = "quick"
	// Exhaustive reads every value and blob, verifies digests and job keys, and
	// holds every record against its ticket and back.
	Exhaustive CheckMode = "exhaustive"
)

// CheckModes are all modes, the least first.
func CheckModes() []CheckMode { return []CheckMode{TrustAll, MetadataOnly, Quick, Exhaustive} }

// CheckOptions say what a check looks at, and how closely. The zero value makes
// a quick check of the state beside the pipeline file in this folder.
type CheckOptions struct {
	Dir     string    // the pipeline file's folder; "": the current one
	State   string    // the state directory; "": Dir/.operon/<pipeline>
	Mode    CheckMode // "": Quick
	Environ []string  // see Options
	Logger  *slog.Logger
	// Progress, if not nil, hears now and then how far it is. It must return
	// quickly.
	Progress func(Progress)
}

// Progress is how far a check or a rebuild is.
type Progress struct {
	Phase string // such as "values"
	Done  uint64 // records
	Total uint64 // records, as far as it is known
}

// CheckReport is what a check found.
type CheckReport struct {
	Mode       CheckMode        `json:"mode"`
	Consistent bool             `json:"consistent"` // there are no faults
	Checked    Checked          `json:"checked"`
	Notes      map[string]int64 `json:"notes"`  // what is no fault, by kind, counted
	Faults     []Fault          `json:"faults"` // of the state as a whole first, then by task, coordinate, kind
}

// Checked counts what a check has looked at.
type Checked struct {
	Tickets int64 `json:"tickets"` // families that wait for a length count 1
	Records int64 `json:"records"`
	Values  int64 `json:"values"`
	Blobs   int64 `json:"blobs"`
}

// Fault is something in a state that is not as it must be.
type Fault struct {
	Task   string      // "" where it is not of one task
	Coord  coord.Coord // of the job; "" also where it is not of one job
	Dims   []string    // names of the coordinate's dimensions
	Kind   FaultKind
	Detail string
	Mend   string // what to do
}

// MarshalJSON writes {"task","coord":{…},"kind","detail","mend"}.
func (f Fault) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	text := func(name, s string) {
		b.WriteString(name)
		_ = enc.Encode(s) // a string can be encoded
		b.Truncate(b.Len() - 1)
	}
	text(`{"task":`, f.Task)
	b.WriteString(`,"coord":{`)
	for n := range f.Coord.Len() {
		if n > 0 {
			b.WriteByte(',')
		}
		name := "?" + strconv.Itoa(n)
		if n < len(f.Dims) {
			name = f.Dims[n]
		}
		text("", name)
		fmt.Fprintf(&b, ":%d", f.Coord.At(n))
	}
	text(`},"kind":`, string(f.Kind))
	text(`,"detail":`, f.Detail)
	text(`,"mend":`, f.Mend)
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *Fault) UnmarshalJSON(text []byte) error {
	var raw struct {
		Task, Detail, Mend string
		Kind               FaultKind
		Coord              json.RawMessage
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	*f = Fault{Task: raw.Task, Kind: raw.Kind, Detail: raw.Detail, Mend: raw.Mend}
	dec := json.NewDecoder(bytes.NewReader(raw.Coord))
	var name string
	for {
		tok, err := dec.Token()
		if err != nil {
			return nil // the end: its syntax has been looked at
		}
		switch tok := tok.(type) {
		case string:
			name = tok
		case float64:
			f.Dims = append(f.Dims, name)
			f.Coord = f.Coord.Append(uint32(tok))
		}
	}
}

// Where is the fault's place: "task at i=0,j=2", or "" where it has none.
func (f Fault) Where() string {
	if f.Task == "" || f.Coord == "" {
		return f.Task
	}
	return f.Task + " at " + f.Coord.Format(f.Dims)
}

// Check holds the metadata of a state against its data, and the data against
// itself, as closely as asked for. It changes nothing. Faults are no error: the
// report lists them. Nothing there is ErrNoState, an engine there an
// *InUseError, a state of a newer operon a *NewerError, one of another pipeline
// a *ForeignError.
//
// Tasks whose definition has changed since they ran, and what hangs on them,
// are left out of the comparison with the pipeline, and noted.
func Check(ctx context.Context, p *spec.Pipeline, o CheckOptions) (*CheckReport, error) {
	if o.Mode == "" {
		o.Mode = Quick
	}
	if !slices.Contains(CheckModes(), o.Mode) {
		return nil, fmt.Errorf("no such mode of a check: %q", o.Mode)
	}
	c, err := newChecker(p, o)
	if err != nil {
		return nil, err
	}
	err = c.run(ctx)
	if closed := c.close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	return c.report(), nil
}
