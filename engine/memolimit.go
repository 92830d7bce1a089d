package engine

import (
	"context"
	"fmt"

	"operon/storage"
)

// trimMemo drops retired dataflows, the one made first first, until what they
// take up is within the limit that the run was given. It is for runs that are
// complete: others may still reuse what they hold.
func (e *Engine) trimMemo(ctx context.Context) error {
	if e.o.MemoLimit == 0 {
		return nil
	}
	var drop []uint64
	var freed int64
	err := e.stores.data.View(func(r *storage.Reader) error {
		headers, err := r.Headers()
		if err != nil {
			return err
		}
		var retired []storage.Header // in the order of their ids, which rise
		for _, h := range headers {
			if h.State == storage.Retired {
				retired = append(retired, h)
			}
		}
		ids := idsOf(retired)
		usage, err := r.Usage(ids)
		if err != nil {
			return err
		}
		var n int
		n, freed = beyondLimit(usage, e.o.MemoLimit)
		drop = ids[:n]
		return nil
	})
	if err == nil && len(drop) > 0 {
		err = dropInstances(ctx, e.stores.data, drop)
	}
	if err != nil {
		return stateError(e.dir, "keep the memo within its limit", err)
	}
	if len(drop) > 0 {
		e.note(fmt.Sprintf("dropped old results of %d replaced tasks, %d bytes, to keep within --memo-limit", len(drop), freed))
	}
	return nil
}

// beyondLimit is how many dataflows, oldest first, have to go so that the others
// take up no more than limit bytes, and what that frees.
func beyondLimit(usage []storage.Usage, limit int64) (n int, freed int64) {
	total := int64(0)
	for _, u := range usage {
		total += u.Bytes + u.BlobBytes
	}
	for n < len(usage) && total-freed > max(limit, 0) {
		freed += usage[n].Bytes + usage[n].BlobBytes
		n++
	}
	return n, freed
}
