package engine

import (
	"operon/engine/ticket"
	"operon/meta"
	"operon/spec/coord"
	"operon/storage"
)

// A damaged page may hide the records behind it: nothing that is read is wrong,
// and there is less of it. Of a whole task the count of its records tells; of a
// part of it the tickets do, since metadata never claims what the data lacks.

// doneJobs calls fn with the jobs under a coordinate of a dataflow's first
// dimensions that must have records.
type doneJobs func(h storage.Header, under coord.Coord, fn func(coord.Coord) error) error

// done are the jobs that the metadata has as done.
func (s *State) done(h storage.Header, under coord.Coord, fn func(coord.Coord) error) error {
	dims := len(h.Dims)
	var failed error // fn
	page := func(prefix coord.Coord, page uint32, data []byte) error {
		err := ticket.DecodeTickets(page, data, func(i uint32, status ticket.Status) error {
			if c := ticket.At(dims, prefix, i); status == ticket.Done || status == ticket.Hole {
				failed = fn(c)
			}
			return failed
		})
		if err != nil && failed == nil {
			return &meta.Damage{Dataflow: h.ID, Detail: "a page of tickets makes no sense"}
		}
		return err
	}
	err := s.meta.View(func(r *meta.Reader) error {
		if last := under.Len() - 1; last == dims-1 {
			return r.TicketPage(h.ID, under.Prefix(last), under.At(last)/ticket.PageSize, page)
		}
		return r.TicketsUnder(h.ID, under, page)
	})
	if failed != nil {
		return failed
	}
	return stateError(s.dir, "read the tickets", err)
}

// noneHidden sees whether all jobs at the given indices that must have a record
// were met: so many were. It costs no more than what was read.
func noneHidden(r *storage.Reader, h storage.Header, at coord.Binding, met int64, done doneJobs) error {
	under := prefixOf(at, h.Dims)
	if under.Len() == 0 {
		return nil // all were read, and counted
	}
	must := int64(0)
	err := done(h, under, func(c coord.Coord) error {
		if at.Match(c, h.Dims) {
			must++
		}
		return nil
	})
	if err != nil || must <= met {
		return err
	}
	return firstHidden(r, h, at, under, done)
}

// firstHidden is the error that the first job without a record has none.
func firstHidden(r *storage.Reader, h storage.Header, at coord.Binding, under coord.Coord, done doneJobs) error {
	hidden := &InconsistentError{Task: h.Task, Coord: under.Format(h.Dims), Detail: "records are missing", Mend: mendJob}
	err := done(h, under, func(c coord.Coord) error {
		if !at.Match(c, h.Dims) {
			return nil
		}
		if _, ok, err := r.Record(h.ID, c); ok || err != nil {
			return err
		}
		hidden.Coord, hidden.Detail = c.Format(h.Dims), "its record is missing"
		return hidden
	})
	if err != nil {
		return err
	}
	return hidden
}
