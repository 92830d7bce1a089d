package body

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// What is in the room together fits, whoever comes first goes first, one that is
// larger than all of it has it for itself, and who gives up is forgotten.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r room
		if taken, f := r.take(t.Context(), smallOutput); taken != 0 || f != nil {
			t.Errorf("a small one takes %d, %v", taken, f)
		}
		third, f := r.take(t.Context(), wholeRoom/9)
		if f != nil || third < wholeRoom/3-9 || third > wholeRoom/3 {
			t.Fatalf("took %d, %v", third, f)
		}
		var order []string
		begin := func(ctx context.Context, name string, size int64) {
			go func() {
				taken, f := r.take(ctx, size)
				if f != nil {
					order = append(order, name+" gave up")
					return
				}
				order = append(order, name)
				r.give(taken)
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		begin(ctx, "impatient", 10*wholeRoom)
		begin(t.Context(), "huge", 10*wholeRoom)
		begin(t.Context(), "small", 2*smallOutput)
		if len(order) != 0 {
			t.Fatalf("went in: %v", order)
		}
		cancel(errors.New("enough"))
		synctest.Wait()
		r.give(third)
		synctest.Wait()
		if got := len(order); got != 3 || order[0] != "impatient gave up" || order[1] != "huge" || order[2] != "small" || r.used != 0 {
			t.Errorf("order %v, %d used", order, r.used)
		}
	})
}
