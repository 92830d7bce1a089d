package ticket

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"operon/spec/coord"
)

// PageSize is how many neighbouring tickets a page holds.
const PageSize = 1024

// Changes are what has changed since the last call of Table.Changes, as images
// of what is to be stored. They stay as they are when the table goes on. A
// resolution stands for the explosions it causes: which tickets explode follows
// from it, and counting them would depend on the order of events.
type Changes struct {
	Tickets     []Page
	Resolutions []Page
	Shares      []Share
}

// Page is a page of a task's tickets, or of the lengths that they returned: of
// those behind Prefix whose last index lies in [Number·PageSize, …+PageSize).
type Page struct {
	Task   int
	Prefix coord.Coord
	Number uint32
	Data   []byte // see DecodeTickets and DecodeExtents
}

// Share is one quota share.
type Share struct {
	Task, Ref   int // the consumer, and which of its inputs
	Pins        coord.Coord
	Done, Quota uint64
}

type place struct {
	task *task
	row  *row
}

type dirty struct {
	rows    []place
	resRows []place
	shares  []*share
}

func (t *Table) touchTicket(tk *task, r *row, last uint32) {
	if len(r.pages) == 0 {
		t.dirty.rows = append(t.dirty.rows, place{tk, r})
	}
	r.pages.add(last / PageSize)
}

func (t *Table) touchExtent(tk *task, r *row, last uint32) {
	if len(r.resPages) == 0 {
		t.dirty.resRows = append(t.dirty.resRows, place{tk, r})
	}
	r.resPages.add(last / PageSize)
}

func (t *Table) touch(s *share) {
	if !s.dirty {
		s.dirty = true
		t.dirty.shares = append(t.dirty.shares, s)
	}
}

// Changes takes what has changed. Pages and shares come in key order: by task,
// then coordinate.
func (t *Table) Changes() Changes {
	var c Changes
	for _, p := range t.dirty.rows {
		p.row.pages.each(func(n uint32) {
			c.Tickets = append(c.Tickets, Page{p.task.index, p.row.prefix, n, p.row.encodeTickets(n)})
		})
		p.row.pages = nil
	}
	for _, p := range t.dirty.resRows {
		p.row.resPages.each(func(n uint32) {
			c.Resolutions = append(c.Resolutions, Page{p.task.index, p.row.prefix, n, p.row.encodeExtents(n)})
		})
		p.row.resPages = nil
	}
	for _, s := range t.dirty.shares {
		s.dirty = false
		c.Shares = append(c.Shares, Share{s.ref.task.index, s.ref.index, s.pins, s.done, s.quota})
	}
	t.dirty = dirty{}
	c.sort()
	return c
}

func (c *Changes) sort() {
	pages := func(a, b Page) int {
		if a.Task != b.Task {
			return a.Task - b.Task
		}
		if n := strings.Compare(string(a.Prefix), string(b.Prefix)); n != 0 {
			return n
		}
		return int(a.Number) - int(b.Number)
	}
	slices.SortFunc(c.Tickets, pages)
	slices.SortFunc(c.Resolutions, pages)
	slices.SortFunc(c.Shares, func(a, b Share) int {
		if a.Task != b.Task {
			return a.Task - b.Task
		}
		if a.Ref != b.Ref {
			return a.Ref - b.Ref
		}
		return strings.Compare(string(a.Pins), string(b.Pins))
	})
}

// encodeTickets writes a page of statuses as runs: a length, then a status. A
// last run of Waiting is left out.
func (r *row) encodeTickets(page uint32) []byte {
	lo := page * PageSize
	hi := min(lo+PageSize, r.n)
	var b []byte
	for i := lo; i < hi; {
		s := r.stored(i)
		j := i + 1
		for j < hi && r.stored(j) == s {
			j++
		}
		if s == Waiting && j == hi {
			break
		}
		b = binary.AppendUvarint(b, uint64(j-i))
		b = append(b, byte(s))
		i = j
	}
	return b
}

func (r *row) stored(i uint32) Status {
	switch {
	case r.done.has(i):
		return Done
	case r.holes.has(i):
		return Hole
	case r.failed.has(i):
		return Failed
	}
	return Waiting
}

var errPage = errors.New("malformed page")

// DecodeTickets calls fn for each stored status of a page, by its index on the
// last dimension.
func DecodeTickets(number uint32, data []byte, fn func(i uint32, s Status) error) error {
	i, end := uint64(number)*PageSize, uint64(number)*PageSize+PageSize
	for len(data) > 0 {
		n, used := binary.Uvarint(data)
		if used <= 0 || used >= len(data) || n == 0 || n > end-i || data[used] > byte(Hole) || end > coord.MaxExtent+PageSize {
			return errPage
		}
		s := Status(data[used])
		data = data[used+1:]
		for ; n > 0; n-- {
			if s != Waiting {
				if err := fn(uint32(i), s); err != nil {
					return err
				}
			}
			i++
		}
	}
	return nil
}

// encodeExtents writes a page of lengths: for each ticket 1 + the length, or 0
// if it is not known. Unknown ones at the end are left out.
func (r *row) encodeExtents(page uint32) []byte {
	lo := int(page) * PageSize
	hi := min(lo+PageSize, len(r.extents))
	for hi > lo && r.extents[hi-1] == 0 {
		hi--
	}
	var b []byte
	for i := lo; i < hi; i++ {
		b = binary.AppendUvarint(b, uint64(r.extents[i]))
	}
	return b
}

// DecodeExtents calls fn for each length of a page, by the index of the ticket
// that returned it.
func DecodeExtents(number uint32, data []byte, fn func(i uint32, n uint32) error) error {
	i, end := uint64(number)*PageSize, uint64(number)*PageSize+PageSize
	for ; len(data) > 0; i++ {
		n, used := binary.Uvarint(data)
		if used <= 0 || i >= end || i >= coord.MaxExtent || n > coord.MaxExtent {
			return errPage
		}
		data = data[used:]
		if n > 0 {
			if err := fn(uint32(i), uint32(n-1)); err != nil {
				return err
			}
		}
	}
	return nil
}
