package engine

import (
	"fmt"
	"strings"
	"time"

	"operon/engine/ticket"
	"operon/engine/worker"
	"operon/spec"
	"operon/spec/coord"
	"operon/storage"
)

// holesATurn is how many jobs become holes in one turn of the loop, so that a
// million of them keep nobody waiting.
const holesATurn = 4 << 10

// pushHole takes in jobs that take a hole. Those of tasks that nobody asked for
// are left to a run that does.
func (l *loop) pushHole(f *flow, r ticket.Range) {
	if f.wanted {
		l.holed = append(l.holed, r)
	}
}

// makeHoles makes holes of the jobs that take one.
func (l *loop) makeHoles() {
	now := time.Now().UnixNano()
	for n := 0; n < holesATurn && len(l.holed) > 0 && l.sick == nil && l.aheadJobs <= maxAhead; n++ {
		r := &l.holed[0]
		f := l.flows[r.Task]
		c := ticket.At(len(f.task.Context), r.Prefix, r.Lo)
		if r.Lo++; r.Lo == r.Hi {
			l.holed = l.holed[1:]
		}
		l.hole(f, storage.Record{Coord: c, Start: now, End: now}, l.whyHole(f, c))
	}
}

// whyHole is the reason of a job that takes a hole: the job that has failed.
func (l *loop) whyHole(f *flow, c coord.Coord) string {
	task, at := l.table.Cause(f.task.Index, c)
	t := l.p.Tasks[task]
	if at == "" {
		return "rests on " + t.Name + ", which failed"
	}
	return "rests on " + t.Name + " at " + FormatAt(at, t.ContextNames(), l.labelsAt(t, at)) + ", which failed"
}

// hole records that a job has no value.
func (l *loop) hole(f *flow, rec storage.Record, reason string) {
	ranges, err := l.table.OnHole(f.task.Index, rec.Coord)
	if err != nil {
		l.fault(fmt.Errorf("this is a bug: %w", err))
		return
	}
	l.data.PutRecord(f.id, rec, l.commits.data.PrepareHole(reason, f.task.Spawn != nil))
	l.puts++
	l.total(f.task.Name).Holes++
	f.changed = true
	l.push(ranges)
	l.conclude(f)
}

// holeRecord is the record of a job that has failed and is a hole.
func holeRecord(r *worker.Result) storage.Record {
	u := r.Failure.Usage
	logged := r.Failure.Logged
	if number, shared := worker.SharedNumber(r.Log); shared {
		logged = -1 - int64(number)
	}
	return storage.Record{
		Coord: r.Job.Coord, Key: r.Key, Attempts: uint32(r.Job.Attempt),
		Start: u.Start.UnixNano(), End: u.Start.Add(u.Wall).UnixNano(),
		CPU: int64(u.CPU), MaxRSS: u.MaxRSS, Logged: logged,
	}
}

// logOf is the path of the log of a finished job below the logs folder, "" if it
// wrote none.
func logOf(t *spec.TaskSpec, rec storage.Record) string {
	switch {
	case rec.Logged > 0:
		return worker.LogName(t, worker.Job{Coord: rec.Coord})
	case rec.Logged < 0:
		return worker.SharedLog(t.Name, int(-1-rec.Logged))
	}
	return ""
}

// maxReason is how long the reason of a hole may be, in bytes.
const maxReason = 500

// reason is why the job is a hole: what happened, and the last line of standard
// error.
func (f *Failed) reason() string {
	reason := f.Message
	lines := strings.Split(strings.TrimSpace(string(f.Stderr)), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		reason += ": " + last
	}
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	return reason
}
