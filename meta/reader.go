package meta

import (
	"bytes"
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"operon/spec/coord"
	"operon/storage/boltfile"
)

// Reader reads the metadata in one View, as it was when that began. It must not
// be used after it, nor by two goroutines at once. What it hands out stays
// valid, but for the data of pages, which ends with the call it is given to.
type Reader struct {
	tx      *bolt.Tx
	applied uint64
}

// View calls fn with a reader. fn must not wait for a commit, nor call View.
func (s *Store) View(fn func(*Reader) error) error {
	return s.file.View(func(tx *bolt.Tx) error {
		applied, err := number(tx, appliedKey)
		if err != nil {
			return err
		}
		return fn(&Reader{tx: tx, applied: applied})
	})
}

// Applied is the number of the last commit of the data that the metadata
// contains, 0 if none.
func (r *Reader) Applied() uint64 { return r.applied }

// Footprint is the footprint; ok is false if there is none.
func (r *Reader) Footprint() (p Footprint, ok bool, err error) {
	b := r.tx.Bucket([]byte(stateBucket))
	v := b.Get([]byte(footprintKey))
	if v == nil {
		return Footprint{}, false, onlyNumbers(b)
	}
	body, ok := boltfile.Unseal([]byte(stateBucket), []byte(footprintKey), v)
	if ok {
		p, ok = decodeFootprint(body)
	}
	if !ok {
		return Footprint{}, false, &Damage{Detail: "the footprint cannot be read"}
	}
	return p, true, nil
}

// onlyNumbers is an error if the state has a key beside its numbers: that there
// is no footprint then only seems so.
func onlyNumbers(b *bolt.Bucket) error {
	c := b.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		if string(k) != formatKey && string(k) != appliedKey && string(k) != bucketsKey {
			return &Damage{Detail: "the footprint is not found under its key"}
		}
	}
	return nil
}

// Dataflows are all dataflows, in the order of their ids.
func (r *Reader) Dataflows() ([]Dataflow, error) {
	b := r.tx.Bucket([]byte(dataflowsBucket))
	var list []Dataflow
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		body, ok := boltfile.Unseal([]byte(dataflowsBucket), k, v)
		var d Dataflow
		if ok {
			d, ok = decodeDataflow(body)
		}
		if !ok || !bytes.Equal(k, dataflowKey(d.ID)) {
			return nil, &Damage{Detail: fmt.Sprintf("a dataflow cannot be read (%x)", k)}
		}
		list = append(list, d)
	}
	if uint64(len(list)) != b.Sequence() {
		return nil, &Damage{Detail: fmt.Sprintf("there are %d dataflows of %d", len(list), b.Sequence())}
	}
	return list, nil
}

// Tickets calls fn with the pages of tickets of a dataflow, in the order of
// prefix and page, until it returns an error.
func (r *Reader) Tickets(id uint64, fn func(prefix coord.Coord, page uint32, data []byte) error) error {
	return r.pages(id, []byte{ticketsKind}, fn)
}

// TicketsUnder is Tickets of the pages whose prefix begins with a coordinate.
func (r *Reader) TicketsUnder(id uint64, under coord.Coord, fn func(prefix coord.Coord, page uint32, data []byte) error) error {
	return r.pages(id, append([]byte{ticketsKind}, under...), fn)
}

// TicketPage is Tickets of one page, if it is there.
func (r *Reader) TicketPage(id uint64, prefix coord.Coord, page uint32, fn func(prefix coord.Coord, page uint32, data []byte) error) error {
	return r.pages(id, pageKey(ticketsKind, prefix, page), fn)
}

// Resolutions calls fn with the pages of resolutions of a dataflow, in the order
// of prefix and page, until it returns an error.
func (r *Reader) Resolutions(id uint64, fn func(prefix coord.Coord, page uint32, data []byte) error) error {
	return r.pages(id, []byte{resolutionsKind}, fn)
}

func (r *Reader) pages(id uint64, begin []byte, fn func(prefix coord.Coord, page uint32, data []byte) error) error {
	return r.each(id, begin, func(key, body []byte) (bool, error) {
		prefix, page, ok := pageOf(key)
		if !ok {
			return false, nil
		}
		return true, fn(prefix, page, body)
	})
}

// Shares calls fn with the shares of a dataflow, in the order of reference and
// pins, until it returns an error.
func (r *Reader) Shares(id uint64, fn func(ref int, pins coord.Coord, done, quota uint64) error) error {
	return r.each(id, []byte{sharesKind}, func(key, body []byte) (bool, error) {
		ref, pins, ok := shareOf(key)
		done, quota, whole := decodePair(body)
		if !ok || !whole {
			return false, nil
		}
		return true, fn(int(ref), pins, done, quota)
	})
}

// each calls fn with the keys of a dataflow that begin with the given bytes, their
// kind first, and with their bodies. fn reports false for what makes no sense.
func (r *Reader) each(id uint64, begin []byte, fn func(key, body []byte) (bool, error)) error {
	name := bucketOf(id)
	b := r.tx.Bucket(name)
	if b == nil {
		return nil
	}
	c := b.Cursor()
	for k, v := c.Seek(begin); hasPrefix(k, begin); k, v = c.Next() {
		body, ok := boltfile.Unseal(name, k, v)
		if ok {
			var err error
			if ok, err = fn(k, body); err != nil {
				return err
			}
		}
		if !ok {
			return &Damage{Dataflow: id, Detail: fmt.Sprintf("a value cannot be read (%x)", k)}
		}
	}
	return nil
}

// History calls fn with the entries of the history, oldest first, until it
// returns an error.
func (r *Reader) History(fn func(runID string, data []byte) error) error {
	c := r.tx.Bucket([]byte(historyBucket)).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		body, ok := boltfile.Unseal([]byte(historyBucket), k, v)
		if !ok || len(k) != 8 || binary.BigEndian.Uint64(k) == 0 {
			return &Damage{Detail: fmt.Sprintf("an entry of the history cannot be read (%x)", k)}
		}
		runID, data, ok := decodeRun(body)
		if !ok {
			return &Damage{Detail: fmt.Sprintf("an entry of the history makes no sense (%x)", k)}
		}
		if err := fn(runID, data); err != nil {
			return err
		}
	}
	return nil
}

func hasPrefix(k, prefix []byte) bool { return k != nil && bytes.HasPrefix(k, prefix) }
