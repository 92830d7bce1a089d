package storagetest

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// Twin is a store and its model.
type Twin struct {
	Store *storage.Store
	Model *Model

	mu      sync.Mutex
	history map[uint64]*Model // after each batch, by its number
	durable uint64            // last batch that was said to be durable
}

// NewTwin makes a twin of a store that holds what the model does.
func NewTwin(s *storage.Store, m *Model) *Twin {
	return &Twin{Store: s, Model: m, history: map[uint64]*Model{m.Commit: m.Clone()}, durable: m.Commit}
}

// Durable is the number of the last batch whose Done was called.
func (t *Twin) Durable() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.durable
}

// At is what the store holds after a batch, nil if there was none.
func (t *Twin) At(commit uint64) *Model {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.history[commit]
}

// Last is the number of the last batch submitted.
func (t *Twin) Last() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Model.Commit
}

// Compare compares the store as its readers see it with the model.
func (t *Twin) Compare() error {
	return t.Store.View(t.Model.Compare)
}

// Check compares, and has the store check itself.
func (t *Twin) Check() error {
	if err := t.Compare(); err != nil {
		return err
	}
	return t.Store.View(func(r *storage.Reader) error {
		_, err := r.Check(true, func(d *storage.Damage) error { return d })
		return err
	})
}

// Batch is a batch for both.
type Batch struct {
	Real  storage.Batch
	twin  *Twin
	apply []func(*Model)
	jobs  []storage.Ref
}

// Batch begins a batch.
func (t *Twin) Batch() *Batch { return &Batch{twin: t} }

// PutHeader is storage.Batch's.
func (b *Batch) PutHeader(h storage.Header) {
	b.Real.PutHeader(h)
	b.apply = append(b.apply, func(m *Model) {
		if !m.Gone[h.ID] {
			m.Headers[h.ID] = h
		}
	})
}

// SetState is storage.Batch's.
func (b *Batch) SetState(inst uint64, state storage.State) {
	b.Real.SetState(inst, state)
	b.apply = append(b.apply, func(m *Model) { m.setState(inst, state) })
}

// PutFootprint is storage.Batch's.
func (b *Batch) PutFootprint(p storage.Footprint) {
	b.Real.PutFootprint(p)
	b.apply = append(b.apply, func(m *Model) { m.Footprint = &p })
}

// PutValues prepares values and puts them with a record.
func (b *Batch) PutValues(inst uint64, r storage.Record, values []value.Value, spawning bool) error {
	o, err := b.twin.Store.Prepare(values, spawning)
	if err != nil {
		return err
	}
	stored := make([]value.Value, len(values))
	for i, v := range values {
		stored[i] = v
		if v.Kind == value.File && !v.File.Ref {
			// The store finds size and digest out; the model believes what the
			// test has put there.
			f := *v.File
			f.Path = ""
			stored[i] = value.FromFile(f)
		}
	}
	r.Spawning, r.Digest, r.Extent = spawning, storage.DigestOf(stored), 0
	if spawning {
		r.Extent = uint32(len(values))
	}
	if o.Digest() != r.Digest {
		return fmt.Errorf("prepared output has the digest %v, its values %v", o.Digest(), r.Digest)
	}
	b.putOutput(inst, r, o, stored)
	return nil
}

func (b *Batch) putOutput(inst uint64, r storage.Record, o *storage.Output, values []value.Value) {
	b.Real.PutRecord(inst, r, o)
	b.jobs = append(b.jobs, storage.Ref{Instance: inst, Coord: r.Coord})
	b.apply = append(b.apply, func(m *Model) { m.putRecord(inst, r, values) })
}

// Copy puts the output of another job under the coordinate of r. It reports
// false if there is none to copy.
func (b *Batch) Copy(from Job, inst uint64, r storage.Record) (bool, error) {
	source, ok := b.twin.Model.Records[from]
	if !ok || source.Values == nil || b.twin.Model.Released[from.Instance] {
		return false, nil
	}
	var o *storage.Output
	err := b.twin.Store.View(func(reader *storage.Reader) (err error) {
		o, err = reader.Output(from.Instance, from.Coord)
		return err
	})
	if err != nil {
		return false, err
	}
	r.Spawning, r.Digest, r.Extent = source.Record.Spawning, source.Record.Digest, source.Record.Extent
	b.putOutput(inst, r, o, source.Values)
	return true, nil
}

// DropRecord is storage.Batch's.
func (b *Batch) DropRecord(inst uint64, c coord.Coord) {
	b.Real.DropRecord(inst, c)
	b.apply = append(b.apply, func(m *Model) { delete(m.Records, Job{inst, c}) })
}

// PutFailure is storage.Batch's.
func (b *Batch) PutFailure(inst uint64, f storage.Failure) {
	b.Real.PutFailure(inst, f)
	b.apply = append(b.apply, func(m *Model) {
		if !m.Gone[inst] {
			m.Failures[Job{inst, f.Coord}] = f
		}
	})
}

// DropFailure is storage.Batch's.
func (b *Batch) DropFailure(inst uint64, c coord.Coord) {
	b.Real.DropFailure(inst, c)
	b.apply = append(b.apply, func(m *Model) { delete(m.Failures, Job{inst, c}) })
}

// DropValues is storage.Batch's.
func (b *Batch) DropValues(inst uint64) {
	b.Real.DropValues(inst)
	b.apply = append(b.apply, func(m *Model) {
		m.setState(inst, storage.Released)
		m.Released[inst] = true
	})
}

// DropInstance is storage.Batch's.
func (b *Batch) DropInstance(inst uint64) {
	b.Real.DropInstance(inst)
	b.apply = append(b.apply, func(m *Model) { m.dropInstance(inst) })
}

// Submit submits the batch to both. Done, if not nil, is called as
// storage.Batch.Done is.
func (b *Batch) Submit(done func(commit uint64, err error)) {
	t := b.twin
	t.mu.Lock()
	m := t.Model
	m.Commit++
	for _, apply := range b.apply {
		apply(m)
	}
	if len(b.jobs) > 0 {
		m.Lists[m.Commit] = b.jobs
	}
	applied := b.Real.Applied
	maps.DeleteFunc(m.Lists, func(commit uint64, _ []storage.Ref) bool { return commit <= applied })
	t.history[m.Commit] = m.Clone()
	t.mu.Unlock()

	b.Real.Done = func(commit uint64, err error) {
		if err == nil {
			t.mu.Lock()
			t.durable = commit
			t.mu.Unlock()
		}
		if done != nil {
			done(commit, err)
		}
	}
	t.Store.Submit(&b.Real)
}

// Flush waits for all batches.
func (t *Twin) Flush(ctx context.Context) error { return t.Store.Flush(ctx) }
