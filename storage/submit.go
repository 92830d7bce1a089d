package storage

import (
	"encoding/binary"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"operon/storage/boltfile"
)

// Submit gives a batch to the writer and returns at once. Readers see it from
// now on, although it is not durable yet. Batches get rising numbers in the
// order of the calls.
func (s *Store) Submit(b *Batch) {
	if s.file.ReadOnly() {
		if b.Done != nil {
			b.Done(0, ErrReadOnly)
		}
		return
	}
	pins := b.pins()
	s.blobs.pin(pins)
	s.submit.Lock()
	defer s.submit.Unlock()
	s.number++
	n := s.number
	s.pending.add(n, b)
	s.file.Submit(boltfile.Commit{
		Urgent: b.Urgent,
		Apply:  func(tx *bolt.Tx) error { return s.apply(tx, n, b) },
		Done:   func(err error) { s.done(n, b, pins, err) },
	})
}

// pins are the blobs that the batch names.
func (b *Batch) pins() (ids []blobID) {
	for i := range b.ops {
		if o := b.ops[i].output; o != nil {
			ids = append(ids, o.blobs...)
		}
	}
	return ids
}

// done is called after the transaction that held batch n.
func (s *Store) done(n uint64, b *Batch, pins []blobID, err error) {
	if err == nil {
		s.durable.Store(n)
		s.pending.settle(n)
	}
	s.blobs.unpin(pins)
	for i := range b.ops {
		if o := b.ops[i].output; o != nil {
			o.Discard() // the records hold the blobs now
		}
	}
	if err == nil {
		s.removeFreed()
		for i := range b.ops {
			s.startDrop(&b.ops[i])
		}
	}
	if b.Done != nil {
		b.Done(n, err)
	}
}

// removeFreed removes the blobs that no record names any more. One that is
// pinned stays on the list: its record may come yet.
func (s *Store) removeFreed() {
	freed := s.writer.freed
	if len(freed) == 0 {
		return
	}
	s.hook("before:drop")
	for id := range freed {
		removed, err := s.blobs.remove(id)
		if err != nil {
			s.log.Warn("remove blob that nothing names", "error", err)
		}
		if removed {
			delete(freed, id)
		}
	}
	s.hook("after:drop")
}

// apply writes batch n.
func (s *Store) apply(tx *bolt.Tx, n uint64, b *Batch) error {
	w := s.writerOf(tx)
	sortRecords(b.ops)
	var jobs []Ref
	for i := range b.ops {
		p := &b.ops[i]
		if err := w.apply(p); err != nil {
			return err
		}
		if p.kind == opRecord {
			jobs = append(jobs, Ref{Instance: p.inst, Coord: p.coord})
		}
	}
	if err := w.list(n, jobs, b.Applied); err != nil {
		return err
	}
	return w.putState(commitKey, binary.BigEndian.AppendUint64(nil, n))
}

// sortRecords brings neighbouring record changes in the order of their keys,
// which is the order that costs bbolt least. Two of one job keep theirs.
func sortRecords(ops []op) {
	byKey := func(a, b op) int {
		if a.inst != b.inst {
			if a.inst < b.inst {
				return -1
			}
			return 1
		}
		return strings.Compare(string(a.coord), string(b.coord))
	}
	for len(ops) > 0 {
		n := 0
		for n < len(ops) && ops[n].kind == opRecord {
			n++
		}
		if !slices.IsSortedFunc(ops[:n], byKey) {
			slices.SortStableFunc(ops[:n], byKey)
		}
		ops = ops[max(n, 1):]
	}
}
