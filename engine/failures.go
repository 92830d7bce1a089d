package engine

import (
	"cmp"
	"path/filepath"
	"slices"

	"operon/engine/worker"
	"operon/storage"
)

// failures groups failed jobs by cause.
type failures struct {
	groups []*FailureGroup // by first appearance
	byKey  map[string]*FailureGroup
	causes map[string]int // of each task and kind
	jobs   int64
}

// maxCauses is how many causes of one task and kind are told apart. The rest is
// one group: messages may differ in more than normalise knows.
const (
	maxCauses   = 1000
	otherCauses = "other causes"
)

func (f *failures) add(failed *Failed) {
	cause := normalise(failed)
	f.jobs++
	of := failed.Task + "\x00" + failed.Kind + "\x00"
	key := of + cause
	if f.byKey[key] == nil && f.causes[of] >= maxCauses {
		cause = otherCauses
		key = of + cause
	}
	if g := f.byKey[key]; g != nil {
		g.Jobs++
		if failed.Coord < g.Sample.Coord {
			g.Sample = *failed // the same one in every run
		}
		return
	}
	if f.byKey == nil {
		f.byKey, f.causes = map[string]*FailureGroup{}, map[string]int{}
	}
	f.causes[of]++
	g := &FailureGroup{Task: failed.Task, Kind: failed.Kind, Cause: cause, Hole: failed.Hole, Jobs: 1, Sample: *failed}
	f.byKey[key] = g
	f.groups = append(f.groups, g)
}

// list is the groups, most jobs first.
func (f *failures) list() []FailureGroup {
	var out []FailureGroup
	for _, g := range f.groups {
		out = append(out, *g)
	}
	slices.SortStableFunc(out, func(a, b FailureGroup) int {
		// Which of two came first is chance.
		return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Sample.Coord, b.Sample.Coord), cmp.Compare(a.Cause, b.Cause))
	})
	return out
}

// describe is a failed attempt for a person.
func (l *loop) describe(f *flow, r *worker.Result) *Failed {
	out := &Failed{
		Task:     f.task.Name,
		Coord:    r.Job.Coord,
		Dims:     f.task.ContextNames(),
		Labels:   l.labelsAt(f.task, r.Job.Coord),
		Kind:     string(r.Failure.Kind),
		Message:  r.Failure.Message,
		Attempts: r.Job.Attempt,
		Exit:     r.Failure.Exit,
		Signal:   r.Failure.Signal,
		Stderr:   r.Failure.Stderr,
	}
	if r.Log != "" {
		out.Log = filepath.Join(l.logs, r.Log)
	}
	return out
}

// failureRecord is what the store keeps of a failed job.
func failureRecord(r *worker.Result) storage.Failure {
	u := r.Failure.Usage
	return storage.Failure{
		Coord:    r.Job.Coord,
		Kind:     string(r.Failure.Kind),
		Message:  r.Failure.Message,
		Exit:     r.Failure.Exit,
		Signal:   r.Failure.Signal,
		Attempts: uint32(r.Job.Attempt),
		Start:    u.Start.UnixNano(),
		End:      u.Start.Add(u.Wall).UnixNano(),
		Log:      r.Log,
		Stderr:   r.Failure.Stderr,
	}
}
