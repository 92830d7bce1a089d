package frontier

import (
	"errors"
	"slices"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestJoin(t *testing.T) {
	v := NewView(1)
	apply(t, v, 0, 0, Install(0), Retract(0, Completed))
	must(t, v.Join(7, 0, 1))
	apply(t, v, 0, 2, Skip(1))
	wantBeyond(t, v, false, true, true)
	apply(t, v, 7, 0, Install(1), Retract(1, Completed))
	wantBeyond(t, v, false, false, true)
}

func TestJoinRefused(t *testing.T) {
	v := NewView(2)
	apply(t, v, 0, 0, Skip(0), Skip(1))
	apply(t, v, 1, 0, Skip(0))
	must(t, v.Crash(1, 0, 2))
	before := dumpView(v)
	for _, row := range []struct {
		worker            int
		incarnation, next uint64
		want              error
	}{
		{0, 0, 2, ErrJoined},
		{0, 1, 2, ErrJoined}, // the old life has to end first
		{1, 0, 2, ErrJoined},
		{1, 1, 1, ErrReleased},
		{5, 0, 0, ErrReleased},
	} {
		if err := v.Join(row.worker, row.incarnation, row.next); !errors.Is(err, row.want) {
			t.Errorf("%+v: got %v", row, err)
		}
	}
	if dumpView(v) != before {
		t.Error("the view has changed")
	}
}

// TestEarlyBatches: a worker is heard before the observer has got to the command
// that lets it in.
func TestEarlyBatches(t *testing.T) {
	v := NewView(1)
	must(t, v.ApplyFrom(3, 1, 1, Retract(0, Failed)))
	must(t, v.ApplyFrom(3, 1, 0, Install(0)))
	must(t, v.ApplyFrom(3, 1, 3, Install(1)))
	must(t, v.ApplyFrom(3, 0, 0, Install(9))) // of a life that never joins
	want := []Gap{
		{Worker: 3, Incarnation: 0, Missing: 1, Kept: 1},
		{Worker: 3, Incarnation: 1, Missing: 2, Kept: 3},
	}
	if got := v.Gaps(); !slices.Equal(got, want) {
		t.Errorf("gaps %+v", got)
	}
	must(t, v.Join(3, 1, 0))
	want = []Gap{{Worker: 3, Incarnation: 1, Missing: 2, Kept: 1, Joined: true}}
	if got := v.Gaps(); !slices.Equal(got, want) {
		t.Errorf("gaps %+v", got)
	}
	if m := v.Members()[1]; m.Next != 1 || m.Seq != 2 {
		t.Errorf("worker 3 is %+v", m)
	}
}

func TestEarlyContradiction(t *testing.T) {
	v := NewView(1)
	must(t, v.ApplyFrom(3, 0, 0, Retract(0, Failed)))
	if err := v.Join(3, 0, 0); !errors.Is(err, ErrRetract) {
		t.Errorf("got %v", err)
	}
	apply(t, v, 3, 0, Install(0))
}

// TestLeaveWaitsForTheLastBatch: how a share ended is not lost, and a worker
// that comes back does not wait for what is left of its old life.
func TestLeaveWaitsForTheLastBatch(t *testing.T) {
	v := NewView(2)
	apply(t, v, 0, 0, Install(0), Retract(0, Completed))
	apply(t, v, 1, 0, Install(0))
	apply(t, v, 1, 3, Install(2)) // more than it says: it goes
	must(t, v.Leave(1, 0, 3))
	must(t, v.Join(1, 1, 2))
	if got := v.Gaps(); !slices.Equal(got, []Gap{{Worker: 1, Missing: 1, Joined: true}}) {
		t.Errorf("gaps %+v", got)
	}
	if err := v.ApplyFrom(1, 0, 3, Install(2)); !errors.Is(err, ErrLeft) {
		t.Errorf("after the last batch: got %v", err)
	}
	wantBeyond(t, v, true, true, true)
	if got := v.Pins(2); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("2 is pinned by %v, both lives of worker 1 among them", got)
	}
	must(t, v.ApplyFrom(1, 0, 2, Skip(1)))
	must(t, v.ApplyFrom(1, 0, 1, Retract(0, Dropped)))
	if o, final := v.Outcome(0); o != Dropped || !final {
		t.Errorf("outcome %v, final %v", o, final)
	}
	if got := v.Pins(1); !slices.Equal(got, []int{0}) {
		t.Errorf("1 is pinned by %v", got)
	}
	must(t, v.ApplyFrom(1, 0, 1, Retract(0, Failed)))
	must(t, v.Leave(1, 0, 3))
	must(t, v.Crash(1, 0, 9))
	apply(t, v, 1, 0, Install(2)) // of the new life
	if got := v.Members(); len(got) != 2 || got[1].Incarnation != 1 || got[1].Next != 3 {
		t.Errorf("members %+v", got)
	}
}

func TestLeaveDropsWhatIsHeld(t *testing.T) {
	v := NewView(2)
	apply(t, v, 0, 0, Skip(0))
	apply(t, v, 1, 0, Install(0))
	must(t, v.Leave(1, 0, 1))
	if o, final := v.Outcome(0); o != Dropped || !final {
		t.Errorf("outcome %v, final %v", o, final)
	}
	if got := v.Released(); !slices.Equal(got, []uint64{0}) {
		t.Errorf("released %v", got)
	}
	if err := v.Apply(1, 1, Skip(1)); !errors.Is(err, ErrUnknownWorker) {
		t.Errorf("got %v", err)
	}
}

func TestLeaveRefused(t *testing.T) {
	v := NewView(1)
	apply(t, v, 0, 0, Skip(0), Skip(1))
	before := dumpView(v)
	if err := v.Leave(0, 0, 1); !errors.Is(err, ErrLeft) {
		t.Errorf("got %v", err)
	}
	for _, err := range []error{v.Leave(0, 1, 2), v.Leave(5, 0, 0), v.Crash(0, 1, 2), v.Crash(-1, 0, 0)} {
		if !errors.Is(err, ErrUnknownWorker) {
			t.Errorf("got %v", err)
		}
	}
	if dumpView(v) != before {
		t.Error("the view has changed")
	}
}

// TestCrash: stragglers of the old life come late, and twice, and change
// nothing; what it held or had not passed is not completed.
func TestCrash(t *testing.T) {
	v := NewView(2)
	apply(t, v, 0, 0, Install(0), Install(1), Skip(2), Install(3))
	for id := range uint64(4) {
		if id != 2 {
			apply(t, v, 0, v.Members()[0].Seq, Retract(id, Completed))
		}
	}
	apply(t, v, 1, 0, Install(0), Retract(0, Completed), Install(1))
	apply(t, v, 1, 5, Skip(3))
	v.Released()
	must(t, v.Crash(1, 0, 4))
	if got := v.Released(); !slices.Equal(got, []uint64{1, 3}) {
		t.Errorf("released %v", got)
	}
	for id, want := range []Outcome{Completed, Failed, Failed, Failed} {
		if o, final := v.Outcome(uint64(id)); o != want || !final {
			t.Errorf("outcome of %d: %v, final %v, want %v", id, o, final, want)
		}
	}
	must(t, v.Join(1, 1, 4))
	before := dumpView(v)
	for range 2 {
		must(t, v.ApplyFrom(1, 0, 3, Retract(1, Completed)))
		must(t, v.ApplyFrom(1, 0, 7, Install(8)))
		must(t, v.Crash(1, 0, 4))
		must(t, v.Leave(1, 0, 0))
	}
	if dumpView(v) != before {
		t.Error("a straggler changed the view")
	}
	wantBeyond(t, v, false, false, false, false, true)
}

// TestLastWorkerCrashes: with nobody there, what has been passed is over, and
// what is to come is not.
func TestLastWorkerCrashes(t *testing.T) {
	v := NewView(1)
	apply(t, v, 0, 0, Install(0))
	must(t, v.Crash(0, 0, 2))
	wantBeyond(t, v, false, false, true)
	if got := v.Frontier(); !slices.Equal(got, []Time{Future(2)}) {
		t.Errorf("frontier %v", got)
	}
	must(t, v.Join(0, 1, 2))
	apply(t, v, 0, 0, Install(2))
	wantBeyond(t, v, false, false, true, true)
}

// TestReplace: what the next life goes on with stays beyond all along, what else
// the old one held or had not passed is over and failed, and later messages of
// the old one change nothing.
func TestReplace(t *testing.T) {
	v := NewView(2)
	apply(t, v, 0, 0, Install(0), Install(1), Install(2), Skip(3), Install(4))
	for seq, id := range []uint64{0, 1, 2, 4} {
		apply(t, v, 0, uint64(5+seq), Retract(id, Completed))
	}
	apply(t, v, 1, 0, Install(0), Retract(0, Completed), Install(1), Install(2))
	v.Released()
	must(t, v.Replace(1, 1, 5, []uint64{1, 4, 1, 4})) // 4 was on its way to the old life
	if got := v.Released(); !slices.Equal(got, []uint64{2}) {
		t.Errorf("released %v", got)
	}
	wantBeyond(t, v, false, true, false, false, true, true)
	for id, want := range []Outcome{Completed, Completed, Failed, Failed, Completed} {
		if o, final := v.Outcome(uint64(id)); o != want || final != (id != 1 && id != 4) {
			t.Errorf("outcome of %d: %v, final %v, want %v", id, o, final, want)
		}
	}
	before := dumpView(v)
	must(t, v.ApplyFrom(1, 0, 4, Retract(1, Completed)))
	must(t, v.Crash(1, 0, 5))
	if dumpView(v) != before {
		t.Error("a straggler changed the view")
	}
	apply(t, v, 1, 0, Retract(1, Completed), Retract(4, Completed), Install(5))
	if got := v.Released(); !slices.Equal(got, []uint64{1, 4}) {
		t.Errorf("released %v", got)
	}
	if o, final := v.Outcome(1); o != Completed || !final {
		t.Errorf("outcome of 1: %v, final %v", o, final)
	}
}

// TestReplaceTheOnlyWorker: nobody else holds what it goes on with.
func TestReplaceTheOnlyWorker(t *testing.T) {
	v := NewView(1)
	apply(t, v, 0, 0, Install(0), Install(1))
	must(t, v.Replace(0, 1, 2, []uint64{0}))
	wantBeyond(t, v, true, false, true)
	if got := v.Released(); !slices.Equal(got, []uint64{1}) {
		t.Errorf("released %v", got)
	}
}

func TestReplaceRefused(t *testing.T) {
	v := NewView(2)
	apply(t, v, 0, 0, Skip(0), Install(1))
	before := dumpView(v)
	for _, c := range []struct {
		worker            int
		incarnation, next uint64
		holds             []uint64
		want              error
	}{
		{2, 1, 2, nil, ErrUnknownWorker},
		{0, 0, 2, nil, ErrJoined},
		{0, 1, 1, nil, ErrReleased},
		{0, 1, 2, []uint64{0}, ErrReleased}, // it has given that up
		{0, 1, 2, []uint64{2}, ErrReleased}, // it has not passed that
	} {
		if err := v.Replace(c.worker, c.incarnation, c.next, c.holds); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	must(t, v.Crash(1, 0, 0))
	if err := v.Replace(1, 1, 2, nil); !errors.Is(err, ErrUnknownWorker) {
		t.Errorf("of one that crashed: %v", err)
	}
	must(t, v.Join(1, 1, 2))
	if dumpView(v) == before {
		t.Error("nothing has changed after all")
	}
}

func TestSpans(t *testing.T) {
	var s spans
	for _, r := range [][2]uint64{{5, 7}, {1, 2}, {9, 9}, {8, 3}, {2, 3}, {6, 9}, {6, 7}, {20, 21}} {
		s = s.with(r[0], r[1])
	}
	if want := (spans{{1, 3}, {5, 9}, {20, 21}}); !slices.Equal(s, want) {
		t.Errorf("got %v, want %v", s, want)
	}
	for id := range uint64(25) {
		want := id >= 1 && id < 3 || id >= 5 && id < 9 || id == 20
		if s.has(id) != want {
			t.Errorf("has %d: %v", id, s.has(id))
		}
	}
}
