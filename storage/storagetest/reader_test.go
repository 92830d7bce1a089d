package storagetest_test

import (
	"context"
	"errors"
	"fmt"

	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

func coordOf(i int) coord.Coord { return coord.Of(uint32(i)) }

// readUntil reads all jobs over and over: each must be there, whole, and of no
// earlier round than what this goroutine has seen of it before.
func readUntil(ctx context.Context, s *storage.Store, jobs int) error {
	seen := make([]uint32, jobs)
	for ctx.Err() == nil {
		err := s.View(func(r *storage.Reader) error {
			for i := range jobs {
				rec, ok, err := r.Record(1, coordOf(i))
				if err != nil || !ok {
					return fmt.Errorf("job %d: %v %w", i, ok, err)
				}
				if rec.Attempts < seen[i] {
					return fmt.Errorf("job %d: round %d after %d", i, rec.Attempts, seen[i])
				}
				seen[i] = rec.Attempts
				if err := r.Values(1, coordOf(i), 0, 1, wholeText); err != nil {
					return err
				}
			}
			n := 0
			err := r.Records(1, "", func(storage.Record) error {
				n++
				return nil
			})
			if n != jobs {
				return errors.Join(err, fmt.Errorf("%d records of %d", n, jobs))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// wholeText fails on a text that is not one letter over and over.
func wholeText(_ uint32, v value.Value) error {
	text, ok := v.Text()
	if !ok || len(text) < 10 {
		return fmt.Errorf("value %s", v.JSON)
	}
	for i := range text {
		if text[i] != text[0] {
			return fmt.Errorf("mixed value %q", text)
		}
	}
	return nil
}
