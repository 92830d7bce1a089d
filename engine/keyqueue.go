package engine

import (
	"context"

	"operon/spec/coord"
	"operon/spec/value"
)

// keyQueue hands jobs from the scan of an audit to who verifies their keys, in
// batches, a few at a time. One goroutine puts, another takes from full.
type keyQueue struct {
	full   chan keyBatch
	used   chan keyBatch // to be filled again
	filled keyBatch
}

// keyBatch is some jobs of one task.
type keyBatch struct {
	task int
	jobs []keyedJob
}

// keyedJob is a job and the key that its record tells.
type keyedJob struct {
	at  coord.Coord
	key value.Digest
}

const (
	keyBatchSize = 512
	keyBatches   = 8 // on their way
)

func newKeyQueue() *keyQueue {
	return &keyQueue{full: make(chan keyBatch, keyBatches), used: make(chan keyBatch, keyBatches)}
}

// put adds a job, and waits where the other is far behind. flush has to be called
// between two tasks.
func (q *keyQueue) put(ctx context.Context, task int, at coord.Coord, key value.Digest) error {
	q.filled.task = task
	q.filled.jobs = append(q.filled.jobs, keyedJob{at, key})
	if len(q.filled.jobs) < keyBatchSize {
		return nil
	}
	return q.flush(ctx)
}

// flush hands over what was put.
func (q *keyQueue) flush(ctx context.Context) error {
	if len(q.filled.jobs) == 0 {
		return nil
	}
	select {
	case q.full <- q.filled:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case q.filled = <-q.used:
	default:
		q.filled = keyBatch{jobs: make([]keyedJob, 0, keyBatchSize)}
	}
	return nil
}

// spare gives a batch back.
func (q *keyQueue) spare(b keyBatch) {
	b.jobs = b.jobs[:0]
	select {
	case q.used <- b:
	default:
	}
}

// end says that nothing more comes.
func (q *keyQueue) end() { close(q.full) }
