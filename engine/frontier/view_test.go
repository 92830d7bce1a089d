package frontier

import (
	"errors"
	"math"
	"slices"
	"testing"
)

// apply applies batches in order, and fails the test on an error.
func apply(t *testing.T, v *View, worker int, from uint64, batches ...ChangeBatch) {
	t.Helper()
	for i, b := range batches {
		if err := v.Apply(worker, from+uint64(i), b); err != nil {
			t.Fatal(err)
		}
	}
}

func wantBeyond(t *testing.T, v *View, want ...bool) {
	t.Helper()
	for id, w := range want {
		if got := v.Beyond(uint64(id)); got != w {
			t.Errorf("beyond(%d) is %v, want %v", id, got, w)
		}
	}
}

func TestViewOfTwo(t *testing.T) {
	v := NewView(2)
	wantBeyond(t, v, true, true)
	apply(t, v, 0, 0, Install(0), Retract(0, Completed))
	wantBeyond(t, v, true, true)
	apply(t, v, 1, 0, Install(0))
	wantBeyond(t, v, true, true)
	if got := v.Released(); len(got) > 0 {
		t.Errorf("released %v too early", got)
	}
	apply(t, v, 1, 1, Retract(0, Failed))
	wantBeyond(t, v, false, true)
	if got := v.Released(); !slices.Equal(got, []uint64{0}) {
		t.Errorf("released %v", got)
	}
	if o, final := v.Outcome(0); o != Failed || !final {
		t.Errorf("outcome %v, final %v", o, final)
	}
	if got := v.Released(); len(got) > 0 {
		t.Errorf("released %v again", got)
	}
}

func TestApplyTwiceAndAhead(t *testing.T) {
	v := NewView(1)
	apply(t, v, 0, 2, Install(1))
	apply(t, v, 0, 1, Retract(0, Completed))
	if got := v.Gaps(); !slices.Equal(got, []Gap{{Worker: 0, Missing: 0, Kept: 2, Joined: true}}) {
		t.Errorf("gaps %v", got)
	}
	wantBeyond(t, v, true, true)
	apply(t, v, 0, 0, Install(0))
	wantBeyond(t, v, false, true, true)
	if got := v.Gaps(); len(got) > 0 {
		t.Errorf("gaps %v", got)
	}
}

func TestApplyAgainChangesNothing(t *testing.T) {
	v := NewView(2)
	apply(t, v, 0, 0, Install(0), Retract(0, Completed))
	apply(t, v, 0, 5, Skip(3))
	before := dumpView(v)
	apply(t, v, 0, 0, Install(0), Retract(0, Completed))
	apply(t, v, 0, 5, Install(9)) // the kept one stays
	if dumpView(v) != before {
		t.Error("a batch that was there before changed the view")
	}
}

// TestKeptBatchIsACopy: what happens to the caller's batch later is his affair.
func TestKeptBatchIsACopy(t *testing.T) {
	v := NewView(1)
	b := Retract(0, Completed)
	apply(t, v, 0, 1, b)
	b.Update(Installed(0), 5)
	apply(t, v, 0, 0, Install(0))
	wantBeyond(t, v, false, true)
}

func TestApplyBounds(t *testing.T) {
	v := NewView(1)
	apply(t, v, 0, window, ChangeBatch{})
	if err := v.Apply(0, window+1, ChangeBatch{}); !errors.Is(err, ErrTooFarAhead) {
		t.Errorf("got %v", err)
	}
	if err := v.ApplyFrom(3, 0, window+1, ChangeBatch{}); !errors.Is(err, ErrTooFarAhead) {
		t.Errorf("early: got %v", err)
	}
	var err error
	kept := 0
	for ; err == nil && kept <= window; kept++ {
		err = v.ApplyFrom(3+kept%16, 0, uint64(kept/16), ChangeBatch{})
	}
	if kept != window+1 || !errors.Is(err, ErrTooFarAhead) {
		t.Errorf("early batch %d: got %v", kept, err)
	}
	for _, worker := range []int{1, -1, math.MaxInt} {
		if err := v.Apply(worker, 0, Install(0)); !errors.Is(err, ErrUnknownWorker) {
			t.Errorf("worker %d: got %v", worker, err)
		}
	}
}

// byHand makes a batch of items (time, delta).
func byHand(items ...any) ChangeBatch {
	var b ChangeBatch
	for i := 0; i < len(items); i += 2 {
		b.Update(items[i].(Time), int64(items[i+1].(int)))
	}
	return b
}

func merged(batches ...ChangeBatch) ChangeBatch {
	var sum ChangeBatch
	for _, b := range batches {
		sum.Merge(b)
	}
	return sum
}

// TestContradictions: worker 0 has next 2, holds 1 and has retracted 0.
func TestContradictions(t *testing.T) {
	for _, row := range []struct {
		name  string
		b     ChangeBatch
		cause error
	}{
		{"double retraction", Retract(0, Completed), ErrRetract},
		{"retraction twice in a batch", merged(Retract(1, Completed), Retract(1, Completed)), ErrRetract},
		{"retraction of what was never installed", Retract(7, Completed), ErrRetract},
		{"retraction of what another holds", Retract(3, Completed), ErrRetract},
		{"retraction with an install of something else", merged(Install(2), Retract(0, Failed)), ErrRetract},
		{"install of a passed id", Install(0), ErrPassed},
		{"install of a held id", Install(1), ErrPassed},
		{"skip of a passed id", Skip(1), ErrPassed},
		{"install over the next id", Install(3), ErrPassed},
		{"skip over the next id", Skip(9), ErrPassed},
		{"install twice", merged(Install(2), Install(2)), ErrPassed},
		{"backwards", byHand(Future(2), -1, Future(1), 1), ErrPassed},
		{"a second Future", byHand(Future(2), 1), ErrPassed},
		{"no Future any more", byHand(Future(2), -1), ErrPassed},
		{"two Futures", byHand(Future(2), -1, Future(3), 2), ErrPassed},
		{"two Futures less", byHand(Future(2), -2, Future(3), 1), ErrPassed},
		{"three Futures", byHand(Future(2), -1, Future(3), 1, Future(4), 1), ErrPassed},
		{"the last id", merged(byHand(Future(2), -1, Future(math.MaxUint64), 1), Install(math.MaxUint64)), ErrPassed},
		{"an id installed without being passed", byHand(Installed(2), 1), ErrInstall},
		{"a held id installed again", byHand(Installed(1), 1), ErrInstall},
		{"an id beyond the one that is passed", byHand(Future(2), -1, Future(3), 1, Installed(3), 1), ErrInstall},
		{"installed twice over", merged(Install(2), byHand(Installed(2), 1)), ErrInstall},
		{"an end of what goes on", merged(Retract(1, Failed), byHand(Installed(1), 1)), ErrOutcome},
		{"an end of what begins", merged(Install(2), Retract(2, Failed), byHand(Installed(2), 1)), ErrOutcome},
		{"something else under the id", InstallAs(2, "other"), ErrFingerprint},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := NewView(2)
			apply(t, v, 1, 0, Skip(0), Skip(1), InstallAs(2, "this"), Install(3))
			apply(t, v, 0, 0, Install(0), Install(1), Retract(0, Completed))
			before := dumpView(v)
			err := v.Apply(0, 3, row.b)
			var c *Contradiction
			if !errors.As(err, &c) || !errors.Is(err, ErrContradiction) || !errors.Is(err, row.cause) {
				t.Fatalf("got %v, want a contradiction: %v", err, row.cause)
			}
			if c.Worker != 0 || c.Seq != 3 || c.Error() == "" {
				t.Errorf("names batch %d of worker %d", c.Seq, c.Worker)
			}
			if dumpView(v) != before {
				t.Error("the view has changed")
			}
			apply(t, v, 0, 3, Install(2)) // the number is not used up
		})
	}
}

// TestAgreeing: batches that are in order, however odd they look.
func TestAgreeing(t *testing.T) {
	for _, row := range []struct {
		name string
		b    ChangeBatch
		next uint64
		live []uint64
	}{
		{"nothing", ChangeBatch{}, 2, []uint64{1}},
		{"skip and install", merged(Skip(2), Install(3)), 4, []uint64{1, 3}},
		{"a whole life", merged(Install(2), Retract(2, Completed)), 3, []uint64{1}},
		{"a whole life by hand", byHand(Future(2), -1, Future(3), 1, Installed(2), 1, Installed(2), -1), 3, []uint64{1}},
		{"a life with a fingerprint, an end without a word", merged(InstallAs(2, "this"), byHand(Installed(2), -1)), 3, []uint64{1}},
		{"backwards and forwards", byHand(Future(2), -2, Future(5), 1, Future(2), 1), 5, []uint64{1}},
		{"the end of one and the start of the next", merged(Retract(1, Failed), Install(2)), 3, []uint64{2}},
		{"by hand", byHand(Installed(1), -1), 2, nil},
		{"a long way", byHand(Future(2), -1, Future(math.MaxUint64), 1), math.MaxUint64, []uint64{1}},
		{"the same fingerprint", InstallAs(2, "this"), 3, []uint64{1, 2}},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := NewView(2)
			apply(t, v, 1, 0, Skip(0), Skip(1), InstallAs(2, "this"))
			apply(t, v, 0, 0, Skip(0), Install(1), row.b)
			m := v.Members()[0]
			if m.Next != row.next || !slices.Equal(m.Live, row.live) || m.Seq != 3 {
				t.Errorf("the worker is %+v, want next %d, live %v", m, row.next, row.live)
			}
		})
	}
}

// TestKeptContradiction: the error says which batch, those before it count, and
// the view waits for a better one.
func TestKeptContradiction(t *testing.T) {
	v := NewView(1)
	apply(t, v, 0, 1, Retract(5, Failed))
	apply(t, v, 0, 2, Install(1))
	err := v.Apply(0, 0, Install(0))
	var c *Contradiction
	if !errors.As(err, &c) || c.Seq != 1 {
		t.Fatalf("got %v, want a contradiction in batch 1", err)
	}
	if m := v.Members()[0]; m.Next != 1 || m.Seq != 1 {
		t.Errorf("the worker is %+v", m)
	}
	apply(t, v, 0, 1, Retract(0, Failed))
	if m := v.Members()[0]; m.Next != 2 || m.Seq != 3 {
		t.Errorf("then the worker is %+v", m)
	}
}

// TestHalfABatch: a view refuses what F09 is about.
func TestHalfABatch(t *testing.T) {
	v := NewView(2)
	if err := v.Apply(0, 0, byHand(Future(0), -1)); !errors.Is(err, ErrContradiction) {
		t.Errorf("the first item of an install by itself: got %v", err)
	}
}

func TestOutcomes(t *testing.T) {
	for _, row := range []struct {
		name string
		a, b ChangeBatch // of workers 0 and 1, about dataflow 0
		want Outcome
	}{
		{"both skip", Skip(0), Skip(0), None},
		{"one completes, one skips", merged(Install(0), Retract(0, Completed)), Skip(0), Completed},
		{"completed and failed", merged(Install(0), Retract(0, Completed)), merged(Install(0), Retract(0, Failed)), Failed},
		{"dropped and completed", merged(Install(0), Retract(0, Dropped)), merged(Install(0), Retract(0, Completed)), Dropped},
		{"failed and dropped", merged(Install(0), Retract(0, Failed)), merged(Install(0), Retract(0, Dropped)), Dropped},
		{"no word", merged(InstallAs(0, "x"), byHand(Installed(0), -1)), Skip(0), Dropped},
	} {
		for range 2 {
			v := NewView(2)
			apply(t, v, 0, 0, row.a)
			if _, final := v.Outcome(0); final {
				t.Errorf("%s: final, but worker 1 has not been heard", row.name)
			}
			apply(t, v, 1, 0, row.b)
			if o, final := v.Outcome(0); o != row.want || !final {
				t.Errorf("%s: %v, final %v, want %v", row.name, o, final, row.want)
			}
			row.a, row.b = row.b, row.a
		}
	}
}

func TestPinsAndLow(t *testing.T) {
	v := NewView(3)
	apply(t, v, 0, 0, Install(0), Skip(1))
	apply(t, v, 1, 0, Skip(0))
	for id, want := range [][]int{{0, 2}, {1, 2}, {0, 1, 2}} {
		if got := v.Pins(uint64(id)); !slices.Equal(got, want) {
			t.Errorf("%d is pinned by %v, want %v", id, got, want)
		}
	}
	if v.Low() != 0 {
		t.Errorf("low %d", v.Low())
	}
	apply(t, v, 2, 0, Skip(0), Skip(1))
	if v.Low() != 1 {
		t.Errorf("low %d", v.Low())
	}
	if got := v.Frontier(); !slices.Equal(got, []Time{Future(1), Installed(0)}) {
		t.Errorf("frontier %v", got)
	}
}

func TestForget(t *testing.T) {
	v := NewView(1)
	apply(t, v, 0, 0, Install(0), Retract(0, Failed), Install(1))
	v.Forget(0)
	v.Forget(1)
	v.Forget(99)
	if o, final := v.Outcome(0); o != None || !final || len(v.flows) != 1 {
		t.Errorf("%v, final %v, %d flows known", o, final, len(v.flows))
	}
	apply(t, v, 0, 3, Retract(1, Completed))
	if o, final := v.Outcome(1); o != Completed || !final {
		t.Errorf("%v, final %v", o, final)
	}
}

func TestRestart(t *testing.T) {
	v := NewViewAt(2, 5)
	wantBeyond(t, v, false, false, false, false, false, true, true)
	if err := v.Apply(0, 0, Retract(3, Completed)); !errors.Is(err, ErrRetract) {
		t.Errorf("got %v", err)
	}
	if err := v.Apply(0, 0, Install(0)); !errors.Is(err, ErrPassed) {
		t.Errorf("got %v", err)
	}
	apply(t, v, 0, 0, Install(5))
	apply(t, v, 1, 0, Skip(5))
	wantBeyond(t, v, false, false, false, false, false, true, true)
	apply(t, v, 0, 1, Retract(5, Completed))
	wantBeyond(t, v, false, false, false, false, false, false, true)
}

func TestNobody(t *testing.T) {
	for _, workers := range []int{0, -3} {
		v := NewView(workers)
		wantBeyond(t, v, true)
		if err := v.Join(4, 0, 0); err != nil {
			t.Fatal(err)
		}
		apply(t, v, 4, 0, Skip(0))
		wantBeyond(t, v, false, true)
	}
}
