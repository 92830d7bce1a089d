package engine

import (
	"operon/engine/ticket"
	"operon/meta"
	"operon/spec/coord"
	"operon/storage"
)

// image is what the metadata says, read into memory: pages are small, and who
// reads both stores at once could not tell whose damage it met.
type image struct {
	applied uint64
	foot    meta.Footprint
	found   bool                  // there is a footprint
	flows   map[uint64]*flowImage // by dataflow
}

// flowImage is what the metadata says of one dataflow.
type flowImage struct {
	flow    meta.Dataflow
	tickets []pageImage // by prefix, then number
	extents []pageImage
	shares  []shareImage // by reference, then pins; only if asked for
}

// pageImage is a page of tickets or of lengths; see ticket.Page.
type pageImage struct {
	prefix coord.Coord
	number uint32
	data   []byte
}

// shareImage is a quota share; see ticket.Share.
type shareImage struct {
	ref         int
	pins        coord.Coord
	done, quota uint64
}

// readImage reads the metadata; shares only if asked for.
func readImage(s *meta.Store, shares bool) (*image, error) {
	img := &image{flows: map[uint64]*flowImage{}}
	err := s.View(func(r *meta.Reader) (err error) {
		img.applied = r.Applied()
		if img.foot, img.found, err = r.Footprint(); err != nil {
			return err
		}
		flows, err := r.Dataflows()
		if err == nil {
			err = r.History(func(string, []byte) error { return nil }) // whether it can be read
		}
		if err != nil {
			return err
		}
		for _, d := range flows {
			f := &flowImage{flow: d}
			img.flows[d.ID] = f
			if err := f.read(r, shares); err != nil {
				return err
			}
		}
		return nil
	})
	return img, err
}

func (f *flowImage) read(r *meta.Reader, shares bool) error {
	page := func(into *[]pageImage) func(coord.Coord, uint32, []byte) error {
		return func(prefix coord.Coord, number uint32, data []byte) error {
			*into = append(*into, pageImage{prefix, number, append([]byte(nil), data...)})
			return nil
		}
	}
	if err := r.Tickets(f.flow.ID, page(&f.tickets)); err != nil {
		return err
	}
	if err := r.Resolutions(f.flow.ID, page(&f.extents)); err != nil {
		return err
	}
	if !shares {
		return nil
	}
	return r.Shares(f.flow.ID, func(ref int, pins coord.Coord, done, quota uint64) error {
		f.shares = append(f.shares, shareImage{ref, pins, done, quota})
		return nil
	})
}

// ticketImage is a ticket as the metadata has it.
type ticketImage struct {
	at     coord.Coord
	status ticket.Status // Waiting if there is only a length
	extent uint32
	known  bool // there is a length
}

// ended reports whether the ticket says that its job has ended.
func (t ticketImage) ended() bool { return t.status == ticket.Done || t.status == ticket.Hole }

// each calls fn with every ticket that is not just waiting, in the order of the
// coordinates, until it returns an error. dims is the number of dimensions of
// its task's context. A malformed page is an error.
func (f *flowImage) each(dims int, fn func(ticketImage) error) error {
	c := f.cursor(dims)
	for c.next() {
		if err := fn(c.ticket); err != nil {
			return err
		}
	}
	return c.err
}

// ticketCursor goes through the tickets of a flowImage.
type ticketCursor struct {
	id               uint64
	dims             int
	tickets, extents []pageImage // those to come
	ticket           ticketImage // where it stands, after next
	err              error

	page     pageImage
	at       uint32 // of the page: the next one
	statuses [ticket.PageSize]ticket.Status
	lengths  [ticket.PageSize]uint32 // 1 + length
}

// cursor stands before the first ticket of a dataflow whose task's context has
// dims dimensions. f may be nil: then there is none.
func (f *flowImage) cursor(dims int) *ticketCursor {
	c := &ticketCursor{dims: dims, at: ticket.PageSize}
	if f != nil {
		c.id, c.tickets, c.extents = f.flow.ID, f.tickets, f.extents
	}
	return c
}

// next goes to the next ticket, and reports false at the end or after an error.
func (c *ticketCursor) next() bool {
	for {
		for ; c.at < ticket.PageSize; c.at++ {
			i := c.at
			if c.statuses[i] == ticket.Waiting && c.lengths[i] == 0 {
				continue
			}
			c.ticket = ticketImage{at: ticket.At(c.dims, c.page.prefix, c.page.number*ticket.PageSize+i), status: c.statuses[i], known: c.lengths[i] > 0}
			if c.ticket.known {
				c.ticket.extent = c.lengths[i] - 1
			}
			c.at++
			return true
		}
		if len(c.tickets)+len(c.extents) == 0 || c.err != nil {
			return false
		}
		c.err = c.turn()
	}
}

// turn reads the next page.
func (c *ticketCursor) turn() error {
	damage := func(detail string) error { return &meta.Damage{Dataflow: c.id, Detail: detail} }
	c.page, c.at = firstPage(c.tickets, c.extents), 0
	clear(c.statuses[:])
	clear(c.lengths[:])
	if c.page.prefix.Len() != max(c.dims-1, 0) || c.dims == 0 && c.page.number > 0 {
		c.at = ticket.PageSize
		return damage("a page lies at a coordinate of other dimensions than its task has")
	}
	if len(c.tickets) > 0 && c.tickets[0].same(c.page) {
		err := ticket.DecodeTickets(c.page.number, c.tickets[0].data, func(i uint32, s ticket.Status) error {
			c.statuses[i%ticket.PageSize] = s
			return nil
		})
		if err != nil {
			return damage("a page of tickets makes no sense")
		}
		c.tickets = c.tickets[1:]
	}
	if len(c.extents) > 0 && c.extents[0].same(c.page) {
		err := ticket.DecodeExtents(c.page.number, c.extents[0].data, func(i, n uint32) error {
			c.lengths[i%ticket.PageSize] = n + 1
			return nil
		})
		if err != nil {
			return damage("a page of resolutions makes no sense")
		}
		c.extents = c.extents[1:]
	}
	return nil
}

func (p pageImage) same(q pageImage) bool { return p.prefix == q.prefix && p.number == q.number }

// firstPage is the first of the first pages of two lists, which are not both
// empty.
func firstPage(a, b []pageImage) pageImage {
	switch {
	case len(a) == 0:
		return b[0]
	case len(b) == 0:
		return a[0]
	case a[0].prefix < b[0].prefix || a[0].prefix == b[0].prefix && a[0].number <= b[0].number:
		return a[0]
	}
	return b[0]
}

// jobSet is a set of jobs by dataflow.
type jobSet map[uint64]map[coord.Coord]bool

func (s jobSet) has(dataflow uint64, c coord.Coord) bool { return s[dataflow][c] }

// unapplied are the jobs whose records were committed after what the metadata
// has applied.
func unapplied(r *storage.Reader, applied uint64) (jobSet, error) {
	out := jobSet{}
	err := r.Commits(applied, func(_ uint64, jobs []storage.Ref) error {
		for _, ref := range jobs {
			of := out[ref.Instance]
			if of == nil {
				of = map[coord.Coord]bool{}
				out[ref.Instance] = of
			}
			of[ref.Coord] = true
		}
		return nil
	})
	return out, err
}

// mismatch names a current dataflow of which the metadata does not know just the
// records that the data has, or "": then an old copy of one of the two was put
// back, or something was lost.
func (img *image) mismatch(r *storage.Reader) (task string, err error) {
	beyond, err := unapplied(r, img.applied)
	if err != nil {
		return "", err
	}
	headers, err := r.Headers()
	if err != nil {
		return "", err
	}
	for _, h := range headers {
		if h.State == storage.Retired {
			continue
		}
		n := uint64(0)
		known := jobSet{}
		if f := img.flows[h.ID]; f != nil {
			err := f.each(len(h.Dims), func(t ticketImage) error {
				if !t.ended() {
					return nil
				}
				if n++; beyond.has(h.ID, t.at) {
					if known[h.ID] == nil {
						known[h.ID] = map[coord.Coord]bool{}
					}
					known[h.ID][t.at] = true
				}
				return nil
			})
			if err != nil {
				return "", err
			}
		}
		for c := range beyond[h.ID] {
			if known.has(h.ID, c) {
				continue
			}
			if _, ok, err := r.Record(h.ID, c); err == nil && ok || storage.IsDamage(err) {
				n++
			} else if err != nil {
				return "", err
			}
		}
		if n != r.Number(h.ID) {
			return h.Task, nil
		}
	}
	return "", nil
}
