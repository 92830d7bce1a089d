package storage

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"

	"operon/spec/coord"
	"operon/storage/boltfile"
)

// overlay is what readers see beside the database: what was submitted and may
// not be in the transaction that they read, and the few things that are always
// in memory.
//
// An entry goes when it is durable and no view is open that began before that;
// so a view that has no entry finds the thing in its transaction.
type overlay struct {
	size atomic.Int64 // entries in instances, to look no further where there are none

	mu        sync.RWMutex
	instances map[uint64]*pendingInstance
	lists     []commitList
	applied   uint64         // lists up to this one are as good as gone
	queue     []entryKey     // entries in the order of their batches
	views     map[uint64]int // open views, by the number that was durable when they began

	headers   map[uint64]Header
	broken    map[uint64]*Damage  // headers that cannot be read; 0: which one is not known
	gone      instances           // that were dropped
	released  map[uint64]struct{} // instances whose values were dropped
	footprint *Footprint          // nil: none
	unread    *Damage             // footprint that cannot be read
}

type pendingInstance struct {
	records  map[coord.Coord]*pendingRecord
	failures map[coord.Coord]*pendingFailure
}

type pendingRecord struct {
	batch  uint64
	record *storedRecord // nil: dropped
	output *Output
}

type pendingFailure struct {
	batch   uint64
	failure *Failure // nil: dropped
}

// entryKey finds an entry that a batch made.
type entryKey struct {
	batch   uint64
	inst    uint64
	coord   coord.Coord
	failure bool
}

// commitList is the list of jobs of a batch that may not be durable.
type commitList struct {
	batch uint64
	jobs  []Ref
}

// load reads what is kept in memory.
func (o *overlay) load(tx *bolt.Tx) {
	o.instances = map[uint64]*pendingInstance{}
	o.views = map[uint64]int{}
	o.headers = map[uint64]Header{}
	o.broken = map[uint64]*Damage{}
	o.gone = instances{}
	o.released = map[uint64]struct{}{}
	o.loadHeaders(tx)
	o.loadDrops(tx)
	o.loadFootprint(tx)
}

func (o *overlay) loadHeaders(tx *bolt.Tx) {
	if d := checkBuckets(tx); d != nil {
		o.broken[0] = d
	}
	b := tx.Bucket([]byte(headersBucket))
	c := b.Cursor()
	n := uint64(0)
	for k, v := c.First(); k != nil; k, v = c.Next() {
		n++
		id := uint64(0)
		if len(k) == 8 {
			id = binary.BigEndian.Uint64(k)
		}
		body, ok := boltfile.Unseal([]byte(headersBucket), k, v)
		if ok {
			var h Header
			if h, ok = decodeHeader(body); ok && h.ID == id {
				o.headers[id] = h
				continue
			}
		}
		o.broken[id] = &Damage{Kind: DamagedHeader, Instance: id, Detail: "its header cannot be read"}
	}
	if n != b.Sequence() && len(o.broken) == 0 {
		o.broken[0] = &Damage{Kind: DamagedHeader, Detail: fmt.Sprintf("there are %d headers of %d", n, b.Sequence())}
	}
}

func (o *overlay) loadDrops(tx *bolt.Tx) {
	b := tx.Bucket([]byte(dropsBucket))
	if counted(b) != b.Sequence() {
		o.broken[0] = &Damage{Detail: "it is not sure what is being dropped"}
	}
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		inst, what, ok := decodeDrop(k, v)
		switch {
		case !ok:
			o.broken[inst] = &Damage{Instance: inst, Detail: "what is being dropped of it cannot be read"}
		case what == dropAll:
			o.gone.add(inst)
			delete(o.headers, inst)
		default:
			o.released[inst] = struct{}{}
		}
	}
}

func (o *overlay) loadFootprint(tx *bolt.Tx) {
	b := tx.Bucket([]byte(stateBucket))
	v := b.Get([]byte(footprintKey))
	if v == nil {
		// It may only seem that there is none: its key may be damaged.
		if counted(b) > stateNumbers {
			o.unread = &Damage{Kind: DamagedFootprint, Detail: "the footprint is not found under its key"}
		}
		return
	}
	body, ok := boltfile.Unseal([]byte(stateBucket), []byte(footprintKey), v)
	if ok {
		var p Footprint
		if p, ok = decodeFootprint(body); ok {
			o.footprint = &p
			return
		}
	}
	o.unread = &Damage{Kind: DamagedFootprint, Detail: "the footprint cannot be read"}
}

// add shows a batch to readers, and completes its state changes.
func (o *overlay) add(batch uint64, b *Batch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.applied = max(o.applied, b.Applied)
	var jobs []Ref
	for i := range b.ops {
		if p := &b.ops[i]; p.kind == opRecord {
			jobs = append(jobs, Ref{Instance: p.inst, Coord: p.coord})
		}
		o.addOp(batch, &b.ops[i])
	}
	if len(jobs) > 0 {
		o.lists = append(o.lists, commitList{batch: batch, jobs: jobs})
	}
}

func (o *overlay) addOp(batch uint64, p *op) {
	if o.gone.has(p.inst) && p.kind != opFootprint {
		return
	}
	switch p.kind {
	case opHeader:
		o.headers[p.inst] = *p.header
		delete(o.broken, p.inst)
	case opState:
		o.setState(p, p.state)
	case opFootprint:
		o.footprint, o.unread = p.footprint, nil
	case opRecord, opDropRecord:
		o.instance(p.inst).records[p.coord] = &pendingRecord{batch: batch, record: p.record, output: p.output}
		o.note(batch, p, false)
	case opFailure, opDropFailure:
		o.instance(p.inst).failures[p.coord] = &pendingFailure{batch: batch, failure: p.failure}
		o.note(batch, p, true)
	case opDropValues:
		o.setState(p, Released)
		o.released[p.inst] = struct{}{}
	case opDropInstance:
		o.gone.add(p.inst)
		delete(o.headers, p.inst)
		delete(o.broken, p.inst)
	}
}

// setState changes a header, and gives it to the change that is to store it.
func (o *overlay) setState(p *op, state State) {
	h, ok := o.headers[p.inst]
	if !ok {
		return
	}
	h.State = state
	o.headers[p.inst] = h
	p.header = &h
}

func (o *overlay) instance(inst uint64) *pendingInstance {
	in := o.instances[inst]
	if in == nil {
		in = &pendingInstance{records: map[coord.Coord]*pendingRecord{}, failures: map[coord.Coord]*pendingFailure{}}
		o.instances[inst] = in
	}
	return in
}

func (o *overlay) note(batch uint64, p *op, failure bool) {
	o.queue = append(o.queue, entryKey{batch: batch, inst: p.inst, coord: p.coord, failure: failure})
	o.size.Add(1)
}

// begin registers a view, before its transaction begins.
func (o *overlay) begin(durable *atomic.Uint64) (since uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	since = durable.Load()
	o.views[since]++
	return since
}

// end takes a view back.
func (o *overlay) end(since, durable uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.views[since]--; o.views[since] == 0 {
		delete(o.views, since)
	}
	o.purge(durable)
}

// settle lets go of what is durable now.
func (o *overlay) settle(durable uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.purge(durable)
}

func (o *overlay) purge(durable uint64) {
	if len(o.queue) == 0 && len(o.lists) == 0 {
		return
	}
	for since := range o.views {
		durable = min(durable, since)
	}
	n := 0
	for ; n < len(o.queue) && o.queue[n].batch <= durable; n++ {
		o.forget(&o.queue[n])
	}
	o.size.Add(int64(-n))
	if o.queue = o.queue[n:]; len(o.queue) == 0 {
		o.queue = nil
	}
	n = 0
	for n < len(o.lists) && o.lists[n].batch <= durable {
		n++
	}
	if o.lists = o.lists[n:]; len(o.lists) == 0 {
		o.lists = nil
	}
}

// forget removes an entry, unless a later batch has replaced it.
func (o *overlay) forget(k *entryKey) {
	in := o.instances[k.inst]
	if in == nil {
		return
	}
	if k.failure {
		if e := in.failures[k.coord]; e != nil && e.batch == k.batch {
			delete(in.failures, k.coord)
		}
	} else if e := in.records[k.coord]; e != nil && e.batch == k.batch {
		delete(in.records, k.coord)
	}
	if len(in.records) == 0 && len(in.failures) == 0 {
		delete(o.instances, k.inst)
	}
}

// record is the entry of a job, nil if there is none. gone says that the whole
// instance was dropped.
func (o *overlay) record(inst uint64, c coord.Coord) (e *pendingRecord, gone bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if o.gone.has(inst) {
		return nil, true
	}
	if in := o.instances[inst]; in != nil {
		return in.records[c], false
	}
	return nil, false
}

// failure is like record.
func (o *overlay) failure(inst uint64, c coord.Coord) (e *pendingFailure, gone bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if o.gone.has(inst) {
		return nil, true
	}
	if in := o.instances[inst]; in != nil {
		return in.failures[c], false
	}
	return nil, false
}

// under are the entries of jobs under a prefix, in order.
func under[E any](of map[coord.Coord]E, prefix coord.Coord) (jobs []coord.Coord, entries map[coord.Coord]E) {
	for c := range of {
		if strings.HasPrefix(string(c), string(prefix)) {
			jobs = append(jobs, c)
		}
	}
	slices.Sort(jobs)
	if len(jobs) == len(of) {
		return jobs, maps.Clone(of)
	}
	entries = make(map[coord.Coord]E, len(jobs))
	for _, c := range jobs {
		entries[c] = of[c]
	}
	return jobs, entries
}

func (o *overlay) recordsUnder(inst uint64, prefix coord.Coord) (jobs []coord.Coord, entries map[coord.Coord]*pendingRecord, gone bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if o.gone.has(inst) {
		return nil, nil, true
	}
	if in := o.instances[inst]; in != nil {
		jobs, entries = under(in.records, prefix)
	}
	return jobs, entries, false
}

func (o *overlay) failuresOf(inst uint64) (jobs []coord.Coord, entries map[coord.Coord]*pendingFailure, gone bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if o.gone.has(inst) {
		return nil, nil, true
	}
	if in := o.instances[inst]; in != nil {
		jobs, entries = under(in.failures, "")
	}
	return jobs, entries, false
}

// valuesGone reports whether the values of an instance were dropped.
func (o *overlay) valuesGone(inst uint64) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	_, gone := o.released[inst]
	return gone
}

// dropped reports whether an instance was dropped.
func (o *overlay) dropped(inst uint64) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.gone.has(inst)
}
