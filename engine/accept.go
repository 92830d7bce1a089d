package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"operon/engine/worker"
	"operon/meta"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// acceptStep is how many records are taken over in one commit.
const acceptStep = 1000

// AcceptOptions say what Accept accepts.
type AcceptOptions struct {
	Dir     string   // the pipeline file's folder; "": the current one
	State   string   // the state directory; "": Dir/.operon/<pipeline>
	Task    string   // whose results are taken as they are
	Environ []string // nil: os.Environ()
	Build   string   // of the program, for the footprint
	Logger  *slog.Logger
	// Hook is called at every commit point of the stores, for tests that kill
	// the program there.
	Hook func(point string)
}

// AcceptReport is what Accept did, as the history of the state keeps it.
type AcceptReport struct {
	Task string       `json:"task"`
	Old  value.Digest `json:"-"` // fingerprints
	New  value.Digest `json:"-"`
	Why  string       `json:"why"`  // how the definitions differ
	Jobs int64        `json:"jobs"` // whose results were taken as they are
	User string       `json:"user"`
	Host string       `json:"host"`
	Time time.Time    `json:"time"`
	// Unchanged says that there was nothing to accept.
	Unchanged bool `json:"unchanged"`
}

// MarshalJSON writes fingerprints in hexadecimal.
func (r AcceptReport) MarshalJSON() ([]byte, error) {
	type plain AcceptReport
	return json.Marshal(struct {
		plain
		Old string `json:"old"`
		New string `json:"new"`
	}{plain(r), r.Old.String(), r.New.String()})
}

// AcceptError is why results of a task can't be taken as they are.
type AcceptError struct {
	Task   string
	Reason string
	First  []string // tasks to accept, or run, before, upstream first; empty: nothing helps but to run
}

// Error says why, and what to do first.
func (e *AcceptError) Error() string {
	text := fmt.Sprintf("results of task %s can't be taken as they are: %s", e.Task, e.Reason)
	if len(e.First) > 0 {
		text += "; accept or run first: " + strings.Join(e.First, ", ")
	}
	return text
}

// Accept takes the results that a task has for results of the task as the
// pipeline now defines it: after an edit that changes nothing of what the task
// returns, such as that of a comment in its script. Neither it nor what needs it
// runs again; jobs that had not finished run as they are now defined. Who did
// that, and when, is written to the history of the state. What had been made
// under the earlier definition stays as memo, so that the edit can be undone.
//
// Dimensions and entity must be as they were, and all that the task needs as its
// results were made from; otherwise it is an *AcceptError. It needs the state
// directory for itself, and its errors are else those of New; nothing there is
// ErrNoState, an unknown task an *UnknownError. If it is killed, the task is
// either accepted or it is not.
func Accept(ctx context.Context, p *spec.Pipeline, o AcceptOptions) (rep *AcceptReport, err error) {
	t := p.Task(o.Task)
	if t == nil {
		return nil, unknownTask(p, o.Task)
	}
	eo := Options{Dir: o.Dir, State: o.State, Environ: o.Environ, Build: o.Build, Logger: o.Logger, Hook: o.Hook}
	dir, err := StateDirOf(p, eo)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, storage.DataFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoState // which New would make
	}
	e, err := New(p, eo)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if e.stores.rebuild {
		return nil, &AcceptError{Task: t.Name, Reason: "the metadata has to be made again first (" + e.stores.why + "): a run does that"}
	}
	a := &acceptance{e: e, t: t}
	if err := a.look(ctx); err != nil {
		return nil, err
	}
	if a.rep.Unchanged {
		return a.rep, nil
	}
	if err := a.takeOver(ctx); err != nil {
		return nil, err
	}
	return a.rep, a.swap(ctx)
}

// acceptance is the results of one task on their way to another definition. They
// are copied under a new dataflow, retired at first, which takes the place of the
// old one in a single commit of the data: whoever reads the state finds one or the
// other.
type acceptance struct {
	e    *Engine
	t    *spec.TaskSpec
	sv   *survey
	old  storage.Header
	jobs []coord.Coord // with a record
	fail []storage.Failure
	id   uint64 // of the new dataflow
	rep  *AcceptReport
	// behind says that the metadata lacks what a killed run has committed.
	behind bool
}

// look finds out whether the task may be accepted.
func (a *acceptance) look(ctx context.Context) error {
	e := a.e
	err := e.stores.data.View(func(r *storage.Reader) (err error) {
		if a.sv, err = look(ctx, e.p, e.bodies, r, e.stores.last, e.stores.found); err != nil {
			return err
		}
		if a.old, err = currentOf(r, a.t.Name); err != nil {
			return err
		}
		return a.readJobs(r)
	})
	if err != nil {
		return stateError(e.dir, "read what is there", err)
	}
	now := a.sv.decisions[a.t.Index]
	a.rep = &AcceptReport{
		Task: a.t.Name, Old: a.old.Fingerprint, New: a.t.Fingerprint, Why: now.Reason, Jobs: int64(len(a.jobs)),
		User: userName(), Time: time.Now(),
	}
	a.rep.Host, _ = os.Hostname() // who did it is worth knowing without
	a.rep.Unchanged = now.Action == actionKeep
	if a.rep.Unchanged {
		return nil
	}
	return a.refuse()
}

// refuse is why the task may not be accepted, nil if it may.
func (a *acceptance) refuse() error {
	refused := func(reason string, first ...string) error {
		return &AcceptError{Task: a.t.Name, Reason: reason, First: first}
	}
	if a.old.ID == 0 {
		return refused("it never ran")
	}
	if !slices.Equal(a.old.Dims, a.t.ContextNames()) || a.old.Spawn != spawnName(a.t) || a.old.Entity != a.t.Out.Name {
		return refused(fmt.Sprintf("it made %s, and now makes %s", shapeText(a.old.Entity, a.old.Spawn, a.old.Dims), shapeText(a.t.Out.Name, spawnName(a.t), a.t.ContextNames())))
	}
	now := a.sv.decisions[a.t.Index]
	if now.Cause == nil && a.old.Fingerprint == a.t.Fingerprint && a.t.Body.Kind != spec.BodySource {
		return refused(now.Reason)
	}
	var first, reasons []string
	for _, up := range a.t.AllUpstreamTasks() {
		d := a.sv.decisions[up.Index]
		if d.Action == actionKeep || d.Cause != nil {
			continue
		}
		first = append(first, up.Name)
		reasons = append(reasons, up.Name+": "+d.Reason)
	}
	if len(first) > 0 {
		return refused("what it needs has changed too ("+strings.Join(reasons, "; ")+")", first...)
	}
	return nil
}

func shapeText(entity, spawn string, dims []string) string {
	text := entity
	if spawn != "" {
		text += "<" + spawn + ">"
	}
	if len(dims) > 0 {
		text += " for " + strings.Join(dims, ", ")
	}
	return text
}

// currentOf is the header of a task's dataflow; its ID is 0 if there is none.
func currentOf(r *storage.Reader, task string) (storage.Header, error) {
	headers, err := r.Headers()
	for _, h := range headers {
		if h.Task == task && h.State != storage.Retired {
			return h, err
		}
	}
	return storage.Header{}, err
}

// readJobs lists the jobs that have ended. Values are read later, a step at a
// time.
func (a *acceptance) readJobs(r *storage.Reader) error {
	err := r.Records(a.old.ID, "", func(rec storage.Record) error {
		a.jobs = append(a.jobs, rec.Coord)
		return nil
	})
	if err != nil {
		return err
	}
	return r.Failures(a.old.ID, func(f storage.Failure) error {
		a.fail = append(a.fail, f)
		return nil
	})
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}

// takeOver copies the records under the new dataflow, each with the key that its
// job has by the new definition.
func (a *acceptance) takeOver(ctx context.Context) error {
	data := a.e.stores.data
	a.id = data.AllocateInstance()
	first := &storage.Batch{}
	first.PutHeader(a.header(storage.Retired))
	for _, f := range a.fail {
		first.PutFailure(a.id, f)
	}
	data.Submit(first)
	flow, keys := a.flow(), worker.NewVerifier(ctx.Err)
	for at := 0; at < len(a.jobs); at += acceptStep {
		b := &storage.Batch{}
		err := data.View(func(r *storage.Reader) error {
			for _, c := range a.jobs[at:min(at+acceptStep, len(a.jobs))] {
				if err := a.copyJob(r, b, flow, keys, c); err != nil {
					return err
				}
			}
			return nil
		})
		data.Submit(b) // also after an error: it holds blobs
		if err == nil {
			err = data.Flush(ctx)
		}
		if errors.Is(err, storage.ErrReleased) {
			if err := dropInstances(ctx, data, []uint64{a.id}); err != nil {
				return stateError(a.e.dir, "drop what was taken over", err)
			}
			return &AcceptError{Task: a.t.Name, Reason: "what it took was deleted (keep: false)"}
		}
		if err != nil {
			return stateError(a.e.dir, "take over the results of task "+a.t.Name, err)
		}
	}
	return stateError(a.e.dir, "take over the results of task "+a.t.Name, data.Flush(ctx))
}

func (a *acceptance) header(state storage.State) storage.Header {
	return storage.Header{
		ID: a.id, Task: a.t.Name, Entity: a.t.Out.Name, Fingerprint: a.t.Fingerprint, Dims: a.t.ContextNames(),
		Spawn: spawnName(a.t), State: state, Created: a.rep.Time,
	}
}

// flow is the dataflow as the keys of its jobs are made.
func (a *acceptance) flow() *worker.Dataflow {
	p, id := a.e.p, func(t *spec.TaskSpec) uint64 { return a.sv.decisions[t.Index].Old }
	f := &worker.Dataflow{ID: a.id, Task: a.t, Content: a.sv.content[a.t.Index], Spawners: make([]uint64, len(p.Dims))}
	for _, d := range p.Dims {
		f.Spawners[d.Index] = id(d.Spawner)
	}
	for _, in := range a.t.In {
		f.Producers = append(f.Producers, id(in.Entity.Producer))
	}
	return f
}

func (a *acceptance) copyJob(r *storage.Reader, b *storage.Batch, flow *worker.Dataflow, keys *worker.Verifier, c coord.Coord) error {
	rec, ok, err := r.Record(a.old.ID, c)
	if err != nil || !ok {
		return err
	}
	if rec.Key != (value.Digest{}) { // else it never ran, for want of an input
		if rec.Key, err = keys.Key(r, flow, c); err != nil {
			return err
		}
	}
	out, err := r.Output(a.old.ID, c)
	if errors.Is(err, storage.ErrReleased) && a.old.State == storage.Released {
		out, err = nil, nil
	}
	if err != nil {
		return err
	}
	b.PutRecord(a.id, rec, out)
	return nil
}

// swap puts the new dataflow in the place of the old one. First the metadata gets
// all of it, then one commit of the data makes it current, and then the old one
// goes from the metadata: in between, the two never contradict each other.
func (a *acceptance) swap(ctx context.Context) error {
	e, doing := a.e, "accept task "+a.t.Name
	m := &meta.Batch{Urgent: true}
	if err := a.metadata(m); err != nil {
		return stateError(e.dir, doing, err)
	}
	if err := a.writeMeta(ctx, m); err != nil {
		return stateError(e.dir, doing, err)
	}
	d, m := &storage.Batch{Urgent: true}, &meta.Batch{Urgent: true}
	d.SetState(a.old.ID, storage.Retired)
	d.PutHeader(a.header(a.old.State))
	footprints(a.footprint(), d, m)
	m.DropDataflow(a.old.ID)
	text, err := json.Marshal(map[string]any{"accepted": a.rep})
	if err != nil {
		return fmt.Errorf("this is a bug: %w", err)
	}
	m.PutHistory(e.stores.last.RunID, text)
	e.stores.data.Submit(d)
	if err := e.stores.data.Flush(ctx); err != nil {
		return stateError(e.dir, doing, err)
	}
	return stateError(e.dir, doing, a.writeMeta(ctx, m))
}

// writeMeta commits a batch of metadata that rests on all that the data has.
func (a *acceptance) writeMeta(ctx context.Context, m *meta.Batch) error {
	if !a.behind {
		m.Applied = a.e.stores.data.LastCommit()
	}
	a.e.stores.meta.Submit(m)
	return a.e.stores.meta.Flush(ctx)
}

// metadata copies what there is of the old dataflow for the new one.
func (a *acceptance) metadata(m *meta.Batch) error {
	id := a.id
	return a.e.stores.meta.View(func(r *meta.Reader) error {
		err := a.e.stores.data.View(func(d *storage.Reader) error { return a.compare(r, d) })
		if err != nil {
			return err
		}
		list, err := r.Dataflows()
		if err != nil {
			return err
		}
		for _, flow := range list {
			if flow.ID == a.old.ID {
				flow.ID, flow.Fingerprint = id, a.t.Fingerprint
				m.PutDataflow(flow)
			}
		}
		return errors.Join(
			r.Tickets(a.old.ID, func(prefix coord.Coord, page uint32, data []byte) error {
				m.PutTickets(id, prefix, page, slices.Clone(data))
				return nil
			}),
			r.Resolutions(a.old.ID, func(prefix coord.Coord, page uint32, data []byte) error {
				m.PutResolutions(id, prefix, page, slices.Clone(data))
				return nil
			}),
			r.Shares(a.old.ID, func(ref int, pins coord.Coord, done, quota uint64) error {
				m.PutShare(id, ref, pins, done, quota)
				return nil
			}),
		)
	})
}

// compare finds out whether the metadata has all records that were there before:
// if not, they are adopted by the next run, and so are those of the new dataflow.
func (a *acceptance) compare(m *meta.Reader, d *storage.Reader) error {
	return d.Commits(m.Applied(), func(_ uint64, jobs []storage.Ref) error {
		for _, ref := range jobs {
			a.behind = a.behind || ref.Instance != a.id
		}
		return nil
	})
}

// footprint is that of the last run, of the new definition as far as it holds.
func (a *acceptance) footprint() meta.Footprint {
	foot := a.e.stores.last
	foot.Updated = a.rep.Time
	was := decodeAsked(foot.Asked)
	if was.Fields == nil {
		was.Fields = map[string][]spec.Field{}
	}
	was.Fields[a.t.Name] = a.t.Fields
	if a.whole() {
		foot.Source = a.e.p.Snapshot()
		was.Params = givenParams(a.e.p)
	}
	foot.Asked = was.encode()
	var s Summary
	if json.Unmarshal(foot.Summary, &s) == nil {
		for n := range s.Tasks {
			if s.Tasks[n].Task == a.t.Name {
				s.Tasks[n].Dataflow = a.id
			}
		}
		if text, err := json.Marshal(&s); err == nil {
			foot.Summary = text
		}
	}
	return foot
}

// whole reports whether, with this task, all of the pipeline is as it ran.
func (a *acceptance) whole() bool {
	for _, t := range a.e.p.Tasks {
		d := a.sv.decisions[t.Index]
		for d.Cause != nil {
			t, d = d.Cause, a.sv.decisions[d.Cause.Index]
		}
		if t != a.t && d.Action != actionKeep {
			return false
		}
	}
	return len(a.sv.orphans) == 0
}

// Accepted are the acceptances that hold: of each task whose results are those
// that were accepted last, in file order.
func (s *State) Accepted() ([]AcceptReport, error) {
	last := map[string]AcceptReport{}
	err := s.meta.View(func(r *meta.Reader) error {
		return r.History(func(_ string, data []byte) error {
			var entry struct{ Accepted *acceptEntry }
			if json.Unmarshal(data, &entry) == nil && entry.Accepted != nil {
				last[entry.Accepted.Task] = entry.Accepted.report()
			}
			return nil
		})
	})
	if err != nil {
		return nil, stateError(s.dir, "read the history", err)
	}
	var out []AcceptReport
	err = s.data.View(func(r *storage.Reader) error {
		for _, t := range s.p.Tasks {
			rep, accepted := last[t.Name]
			if !accepted {
				continue
			}
			h, err := currentOf(r, t.Name)
			if err != nil {
				return err
			}
			if h.Fingerprint == rep.New {
				out = append(out, rep)
			}
		}
		return nil
	})
	return out, stateError(s.dir, "read what is there", err)
}

// acceptEntry is an AcceptReport as it lies in the history.
type acceptEntry struct {
	Task, Why, User, Host string
	Old, New              string
	Jobs                  int64
	Time                  time.Time
}

func (a *acceptEntry) report() AcceptReport {
	r := AcceptReport{Task: a.Task, Why: a.Why, User: a.User, Host: a.Host, Jobs: a.Jobs, Time: a.Time}
	r.Old, _ = value.ParseDigest(a.Old) // zero is as good as no digest
	r.New, _ = value.ParseDigest(a.New)
	return r
}
