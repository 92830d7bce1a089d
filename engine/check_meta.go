package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"operon/engine/ticket"
	"operon/meta"
	"operon/spec"
	"operon/spec/coord"
	"operon/storage"
)

// comparison holds the metadata's image against the data, task by task, and
// replays the image's tickets through the transition function: what follows from
// them is compared with what is stored.
type comparison struct {
	*checker
	r      *storage.Reader
	beyond jobSet
	table  *ticket.Table
	ctx    context.Context
	quiet  bool // an audit says what is damaged, and counts the records
	seen   int

	// The task under way.
	t       *spec.TaskSpec
	id      uint64
	tickets *ticketCursor
	more    bool // tickets stands at one
	failed  []coord.Coord
}

// compare compares, and returns the table as the metadata has it; or, where
// there is no metadata to compare with, as the data has it.
func (c *checker) compare(ctx context.Context, r *storage.Reader) (*ticket.Table, error) {
	m, err := newComparison(ctx, c, r, false)
	if err != nil {
		return nil, err
	}
	for _, t := range c.p.Topo {
		id := c.ids[t.Index]
		if id == 0 {
			continue
		}
		m.begin(t, id)
		if err := r.Scan(id, m.record); err != nil {
			return nil, err
		}
		if err := m.end(); err != nil {
			return nil, err
		}
	}
	m.finish()
	return m.table, nil
}

// newComparison makes a comparison that follows a scan; quiet, if that is an
// audit's.
func newComparison(ctx context.Context, c *checker, r *storage.Reader, quiet bool) (*comparison, error) {
	m := &comparison{checker: c, r: r, ctx: ctx, quiet: quiet, beyond: jobSet{}}
	m.table, _ = ticket.New(c.p)
	if c.img == nil {
		return m, nil
	}
	return m, m.prepare()
}

// finish compares what all tasks together say.
func (m *comparison) finish() {
	if m.img != nil {
		m.shares()
		m.counts()
	}
	for _, t := range m.p.Tasks {
		m.rep.Checked.Tickets += m.table.Counts(t.Index).Tickets
	}
}

// prepare finds out what the metadata need not know, and what it knows of
// dataflows that are no longer current.
func (m *comparison) prepare() (err error) {
	if m.beyond, err = unapplied(m.r, m.img.applied); err != nil {
		var d *storage.Damage
		if !errors.As(err, &d) {
			return err
		}
		if !m.quiet {
			m.damage(d, "")
		}
	}
	current, err := dataflows(m.r)
	if ignoreDamage(err) != nil {
		return err
	}
	ids := map[uint64]bool{}
	for _, h := range current {
		ids[h.ID] = true
	}
	for id := range m.img.flows {
		if !ids[id] {
			m.note(NoteOldDataflows, 1)
		}
	}
	return nil
}

// begin begins with a task. Its records and its tickets both come in the order of
// the coordinates.
func (m *comparison) begin(t *spec.TaskSpec, id uint64) {
	m.t, m.id, m.failed = t, id, nil
	m.tickets = m.ticketsOf(t, id)
	m.more = m.tickets.next()
}

// record compares a record with its ticket.
func (m *comparison) record(rec storage.Record, damage *storage.Damage) error {
	if err := m.tick(); err != nil {
		return err
	}
	if damage != nil && !m.quiet {
		m.damage(damage, m.t.Name)
	}
	for m.more && m.tickets.ticket.at < rec.Coord {
		m.withoutRecord()
	}
	if !m.more || m.tickets.ticket.at != rec.Coord {
		m.recordOnly(m.t, m.id, rec, damage != nil)
		return nil
	}
	m.both(m.t, m.id, m.tickets.ticket, rec, damage != nil)
	m.more = m.tickets.next()
	return nil
}

// end ends a task.
func (m *comparison) end() error {
	for m.more {
		m.withoutRecord()
	}
	var d *meta.Damage
	if errors.As(m.tickets.err, &d) {
		m.fault(m.t, "", FaultMetaDamaged, d.Detail)
	}
	return m.failures(m.t, m.id, m.failed)
}

// withoutRecord takes the next ticket, which has no record.
func (m *comparison) withoutRecord() {
	if m.tickets.ticket.status == ticket.Failed {
		m.failed = append(m.failed, m.tickets.ticket.at)
	}
	m.ticketOnly(m.t, m.tickets.ticket)
	m.more = m.tickets.next()
}

// tick counts a record, and says now and then how far it is.
func (m *comparison) tick() error {
	if m.quiet {
		return nil
	}
	m.rep.Checked.Records++
	if m.seen++; m.seen%1024 != 0 {
		return nil
	}
	m.o.Progress(Progress{Phase: "tickets of " + m.t.Name, Done: uint64(m.seen)})
	return m.ctx.Err()
}

// ticketsOf are a task's tickets as the metadata has them, none if it does not
// know the dataflow.
func (m *comparison) ticketsOf(t *spec.TaskSpec, id uint64) *ticketCursor {
	var f *flowImage
	if m.img != nil {
		f = m.img.flows[id]
	}
	if f != nil {
		m.dataflow(t, f)
	}
	return f.cursor(len(t.Context))
}

func (m *comparison) dataflow(t *spec.TaskSpec, f *flowImage) {
	d := f.flow
	if d.Task != t.Name || d.Fingerprint != t.Fingerprint || !slices.Equal(d.Dims, t.ContextNames()) || d.Spawn != spawnName(t) {
		m.fault(t, "", FaultDataflow, fmt.Sprintf("dataflow %d is noted as of task %s over (%s), with another definition", d.ID, d.Task, strings.Join(d.Dims, ", ")))
	}
}

// ticketOnly looks at a ticket without a record.
func (m *comparison) ticketOnly(t *spec.TaskSpec, tk ticketImage) {
	switch {
	case tk.ended():
		m.fault(t, tk.at, FaultRecordMissing, fmt.Sprintf("its ticket is %s, and there is no record", tk.status))
		m.replay(t, tk, tk.extent)
	case tk.known:
		m.fault(t, tk.at, FaultExtent, fmt.Sprintf("the length of its list is noted as %d, and it is not done", tk.extent))
	}
}

// recordOnly looks at a record whose ticket says nothing.
func (m *comparison) recordOnly(t *spec.TaskSpec, id uint64, rec storage.Record, damaged bool) {
	switch {
	case m.img == nil:
		if !damaged {
			m.replay(t, ticketImage{at: rec.Coord, status: endOf(rec)}, rec.Extent)
		}
	case m.beyond.has(id, rec.Coord):
		m.note(NoteUnappliedRecords, 1)
	case !damaged:
		m.fault(t, rec.Coord, FaultTicketMissing, "it has a record, and its ticket is not done")
	}
}

// both looks at a ticket and the record of the same job.
func (m *comparison) both(t *spec.TaskSpec, id uint64, tk ticketImage, rec storage.Record, damaged bool) {
	want := endOf(rec)
	switch {
	case damaged: // said already
		if tk.ended() {
			m.replay(t, tk, tk.extent)
		}
		return
	case !tk.ended() && m.beyond.has(id, rec.Coord):
		m.note(NoteUnappliedRecords, 1)
		return
	case tk.status == ticket.Waiting:
		m.fault(t, rec.Coord, FaultTicketMissing, "it has a record, and its ticket is not done")
		return
	case tk.status != want:
		m.fault(t, rec.Coord, FaultTicketWrong, fmt.Sprintf("its ticket is %s, and by its record it is %s", tk.status, want))
		if !tk.ended() {
			return
		}
	}
	extent := rec.Extent
	if want == ticket.Hole {
		extent = 0
	}
	switch {
	case t.Spawn == nil:
	case !tk.known:
		m.fault(t, rec.Coord, FaultExtent, fmt.Sprintf("its list has %d items by its record, and the length is not noted", extent))
	case tk.extent != extent:
		m.fault(t, rec.Coord, FaultExtent, fmt.Sprintf("its list has %d items by its record, and %d are noted", extent, tk.extent))
	}
	m.replay(t, tk, extent)
}

func endOf(rec storage.Record) ticket.Status {
	if rec.Hole {
		return ticket.Hole
	}
	return ticket.Done
}

// replay applies the end of a ticket's job.
func (m *comparison) replay(t *spec.TaskSpec, tk ticketImage, extent uint32) {
	if _, err := replay(m.table, t.Index, tk.at, extent, tk.status == ticket.Hole, false); err != nil {
		m.fault(t, tk.at, FaultTicketWrong, fmt.Sprintf("it is %s, and can't be: %v", tk.status, err))
	}
}

// failures holds failed tickets against the records of failures. One of the two
// may be missing after a kill; but a ticket can't have failed before it could
// run.
func (m *comparison) failures(t *spec.TaskSpec, id uint64, failed []coord.Coord) error {
	for _, at := range failed {
		if err := m.table.OnFailed(t.Index, at); err != nil {
			m.fault(t, at, FaultTicketWrong, fmt.Sprintf("it is failed, and can't be: %v", err))
		}
	}
	if m.img == nil {
		return nil
	}
	tickets := map[coord.Coord]bool{}
	for _, at := range failed {
		tickets[at] = true
	}
	alone := int64(0)
	err := m.r.Failures(id, func(f storage.Failure) error {
		if tickets[f.Coord] {
			delete(tickets, f.Coord)
		} else {
			alone++
		}
		return nil
	})
	var d *storage.Damage
	if errors.As(err, &d) && !m.quiet {
		m.damage(d, t.Name)
	}
	m.note(NoteUnappliedFailure, alone+int64(len(tickets)))
	return ignoreDamage(err)
}

// shares compares the counters that were stored with those of the replay. A
// share is made when somebody asks for it, so one that has counted nothing may
// be missing on either side.
func (m *comparison) shares() {
	changes := m.table.Changes()
	recomputed := make([][]ticket.Share, len(m.p.Tasks))
	for _, s := range changes.Shares {
		recomputed[s.Task] = append(recomputed[s.Task], s)
	}
	for _, t := range m.p.Tasks {
		f := m.img.flows[m.ids[t.Index]]
		if m.ids[t.Index] == 0 || f == nil {
			continue
		}
		stored, want := f.shares, recomputed[t.Index]
		for len(stored)+len(want) > 0 {
			order := 0
			switch {
			case len(stored) == 0:
				order = 1
			case len(want) == 0:
				order = -1
			default:
				order = cmp.Or(cmp.Compare(stored[0].ref, want[0].Ref), cmp.Compare(stored[0].pins, want[0].Pins))
			}
			switch {
			case order > 0:
				m.share(t, shareImage{want[0].Ref, want[0].Pins, 0, want[0].Quota}, want[0].Done, want[0].Quota)
			case order < 0:
				done, quota, ok := m.table.Share(t.Index, stored[0].ref, stored[0].pins)
				if !ok {
					m.fault(t, "", FaultShare, fmt.Sprintf("a counter is of an input that the task does not have (%d)", stored[0].ref))
				} else {
					m.share(t, stored[0], done, quota)
				}
			default:
				m.share(t, stored[0], want[0].Done, want[0].Quota)
			}
			if order >= 0 {
				want = want[1:]
			}
			if order <= 0 {
				stored = stored[1:]
			}
		}
	}
}

// share compares one share.
func (m *comparison) share(t *spec.TaskSpec, s shareImage, done, quota uint64) {
	if s.done == done && s.quota == quota {
		return
	}
	in := t.In[s.ref]
	at := s.pins.Format(dimNames(in.Free))
	if at != "" {
		at = " at " + at
	}
	m.fault(t, "", FaultShare, fmt.Sprintf("of input %s%s, %d of %d are noted as done, and it is %d of %d", in, at, s.done, s.quota, done, quota))
}

// counts compares what the last run said at its end with the replay. A run that
// was cut short said nothing.
func (m *comparison) counts() {
	var sum Summary
	behind := m.rep.Notes[NoteUnappliedRecords]+m.rep.Notes[NoteOldDataflows] > 0
	if !m.said || behind || m.img.foot.State == string(StateRunning) || json.Unmarshal(m.img.foot.Summary, &sum) != nil {
		return
	}
	blocked := m.table.Blocked()
	for _, t := range m.p.Tasks {
		if m.ids[t.Index] == 0 {
			continue
		}
		c := m.table.Counts(t.Index)
		if f := m.img.flows[m.ids[t.Index]]; f != nil && f.flow.State != string(dataflowState(c, 0)) {
			m.fault(t, "", FaultDataflow, fmt.Sprintf("it is noted as %s, and is %s", f.flow.State, dataflowState(c, 0)))
		}
		for _, said := range sum.Tasks {
			if said.Task != t.Name {
				continue
			}
			left := c.Tickets - c.Done - c.Failed - c.Holes - blocked[t.Index]
			if said.Done != c.Done || said.Failed != c.Failed || said.Holes != c.Holes || said.Blocked != blocked[t.Index] || said.Waiting+said.Queued+said.Running != left {
				m.fault(t, "", FaultCount, fmt.Sprintf("the last run ended with %d done, %d failed, %d blocked, %d holes, %d left; it is %d, %d, %d, %d, %d",
					said.Done, said.Failed, said.Blocked, said.Holes, said.Waiting+said.Queued+said.Running, c.Done, c.Failed, blocked[t.Index], c.Holes, left))
			}
		}
	}
}
