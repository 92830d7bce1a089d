package worker

import (
	"errors"
	"maps"
	"sync"

	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// Memo finds results by job key: of earlier dataflows with the same
// fingerprint, and of jobs of this one that have ended. The job records are the
// memo; this is the table over them, read once, when the first job asks.
//
// Two jobs with one key are one execution: the key is claimed by the first, and
// the second is told to wait until the claim is settled.
type Memo struct {
	mu      sync.Mutex
	earlier []uint64 // dataflows whose records are still to be read
	places  map[memoKey]place
	claimed map[memoKey]uint64 // by which command
}

// memoKey is the front of a job key: 128 bits tell any jobs apart.
type memoKey [16]byte

// place is where a result lies.
type place struct {
	dataflow uint64
	job      coord.Coord
}

// NewMemo makes the memo of a dataflow; earlier are the dataflows whose records
// it may take results from.
func NewMemo(earlier []uint64) *Memo {
	return &Memo{earlier: earlier, places: map[memoKey]place{}, claimed: map[memoKey]uint64{}}
}

// Done says that the job with the key has a record that readers see.
func (m *Memo) Done(key value.Digest, dataflow uint64, job coord.Coord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := memoKey(key[:16])
	delete(m.claimed, k)
	if m.places != nil {
		m.places[k] = place{dataflow, job}
	}
}

// Release says that the job that claimed the key ended without a record.
func (m *Memo) Release(key value.Digest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.claimed, memoKey(key[:16]))
}

// Abandon gives up what a command claimed that nobody will answer.
func (m *Memo) Abandon(command uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.claimed, func(_ memoKey, by uint64) bool { return by == command })
}

// Claimed reports whether a job with the key is under way.
func (m *Memo) Claimed(key value.Digest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, claimed := m.claimed[memoKey(key[:16])]
	return claimed
}

// Drop lets go of the table: nobody will ask any more.
func (m *Memo) Drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.earlier, m.places, m.claimed = nil, nil, nil
}

// Lookup is where the result of the key lies, if there is one.
func (m *Memo) Lookup(r *storage.Reader, key value.Digest) (dataflow uint64, job coord.Coord, found bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.load(r); err != nil {
		return 0, "", false, err
	}
	p, found := m.places[memoKey(key[:16])]
	return p.dataflow, p.job, found, nil
}

// claim finds the result of a key, or claims it; wait says that somebody else
// has claimed it.
func (m *Memo) claim(r *storage.Reader, key value.Digest, command uint64) (p place, found, wait bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.load(r); err != nil {
		return p, false, false, err
	}
	k := memoKey(key[:16])
	if p, found = m.places[k]; found {
		return p, true, false, nil
	}
	if _, wait = m.claimed[k]; !wait && m.claimed != nil {
		m.claimed[k] = command
	}
	return p, false, wait, nil
}

// lost claims a key whose result turned out to be gone.
func (m *Memo) lost(key value.Digest, command uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := memoKey(key[:16])
	delete(m.places, k)
	if m.claimed != nil {
		m.claimed[k] = command
	}
}

// Released reports whether the values of a job's record were deleted.
func Released(r *storage.Reader, dataflow uint64, job coord.Coord) bool {
	err := r.Values(dataflow, job, 0, 0, func(uint32, value.Value) error { return nil })
	return errors.Is(err, storage.ErrReleased)
}

// load reads the keys of the earlier dataflows, the first time. Of several jobs
// with one key the last is taken. What can't be read is no memo.
func (m *Memo) load(r *storage.Reader) error {
	for _, id := range m.earlier {
		first, gone := true, false // the values of a dataflow go together
		err := r.Records(id, "", func(rec storage.Record) error {
			if first {
				first, gone = false, Released(r, id, rec.Coord)
			}
			if !rec.Hole && !gone {
				m.places[memoKey(rec.Key[:16])] = place{id, rec.Coord}
			}
			return nil
		})
		var damage *storage.Damage
		if err != nil && !errors.As(err, &damage) {
			return err
		}
	}
	m.earlier = nil
	return nil
}

// reuse is the result of another job with the same key, put at this one's
// coordinate; ok is false if it is gone, and then the key is claimed.
func (m *Memo) reuse(r *storage.Reader, p place, job Job, key value.Digest, command uint64) (res Result, ok bool, err error) {
	rec, found, err := r.Record(p.dataflow, p.job)
	if err == nil && !found {
		err = storage.ErrNoRecord
	}
	var out *storage.Output
	if err == nil {
		out, err = r.Output(p.dataflow, p.job)
	}
	var damage *storage.Damage
	if errors.As(err, &damage) || errors.Is(err, storage.ErrNoRecord) || errors.Is(err, storage.ErrReleased) {
		m.lost(key, command)
		return res, false, nil
	}
	if err != nil {
		return res, false, err
	}
	rec.Coord, rec.Logged = job.Coord, 0
	return Result{Job: job, Key: key, Record: rec, Output: out, Reused: true}, true, nil
}
