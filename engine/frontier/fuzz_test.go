package frontier

import (
	"errors"
	"slices"
	"testing"
)

// FuzzBatches feeds arbitrary batches, in arbitrary order and from arbitrary
// workers, to a view and to an antichain. Neither breaks; the antichain is what
// its definition says; and whatever the view takes, the set beyond it shrinks,
// what it refuses changes nothing, and it agrees with what it attributes.
func FuzzBatches(f *testing.F) {
	f.Add([]byte{0, 0, 0x81, 0x0f, 0x81, 0x11, 0x81, 0x09})
	f.Add([]byte{1, 0, 0, 2, 0, 0, 3, 1, 0, 3, 2, 1})
	f.Add([]byte{5, 3, 1, 6, 1, 2, 7, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		v := NewView(2)
		var a MutableAntichain
		sums := map[Time]int64{}
		// Every step is checked against all that is known, so long inputs only cost.
		for in := fuzzInput(data[:min(len(data), 256)]); len(in) > 0; {
			before := cloneView(v)
			b, err := in.step(v)
			checkFuzzed(t, before, v, err)
			checkAntichainStep(t, &a, sums, b)
		}
	})
}

type fuzzInput []byte

func (in *fuzzInput) next(n byte) byte {
	if len(*in) == 0 {
		return 0
	}
	x := (*in)[0] % n
	*in = (*in)[1:]
	return x
}

// step does one thing to the view, and returns the batch if it was one.
func (in *fuzzInput) step(v *View) (ChangeBatch, error) {
	worker, incarnation := int(in.next(3)), uint64(in.next(2))
	switch in.next(8) {
	case 0:
		return ChangeBatch{}, v.Join(worker, incarnation, uint64(in.next(6)))
	case 1:
		return ChangeBatch{}, v.Leave(worker, incarnation, uint64(in.next(6)))
	case 2:
		return ChangeBatch{}, v.Crash(worker, incarnation, uint64(in.next(6)))
	}
	seq := uint64(in.next(3))
	if m := v.members[identity{worker, incarnation}]; m != nil {
		seq += max(m.seq, 1) - 1
	}
	b := in.batch()
	return b, v.ApplyFrom(worker, incarnation, seq, b)
}

func (in *fuzzInput) batch() ChangeBatch {
	id := uint64(in.next(6))
	switch in.next(5) {
	case 0:
		return Install(id)
	case 1:
		return Skip(id)
	case 2:
		return Retract(id, Outcome(in.next(5)))
	case 3:
		return merged(Install(id), Skip(id+1), Retract(id, Completed))
	}
	var b ChangeBatch
	for range in.next(5) {
		at := Time{id: uint64(in.next(6)), installed: in.next(2) == 1}
		b.Update(at, int64(in.next(7))-3)
	}
	return b
}

func checkFuzzed(t *testing.T, before, v *View, err error) {
	var c *Contradiction
	if err != nil && dumpView(before) != dumpView(v) && !errors.As(err, &c) {
		t.Fatalf("changed by what it refused: %v", err)
	}
	if errors.As(err, &c) {
		m := v.members[identity{c.Worker, c.Incarnation}]
		if m == nil || c.Cause != ErrLeft && m.seq != c.Seq {
			t.Fatalf("refused batch %d, and does not wait for it: %v", c.Seq, err)
		}
	}
	var released []uint64
	for id := range uint64(8) {
		pinned := len(v.Pins(id)) > 0 || len(v.members) == 0 && id >= v.top
		if v.Beyond(id) != pinned {
			t.Fatalf("beyond(%d) is %v, pins %v", id, v.Beyond(id), v.Pins(id))
		}
		if !before.Beyond(id) && v.Beyond(id) {
			t.Fatalf("%d is beyond again", id)
		}
		if f := v.flows[id]; f != nil && f.released && (before.flows[id] == nil || !before.flows[id].released) {
			released = append(released, id)
		}
	}
	if got := v.Released(); !slices.Equal(got, released) {
		t.Fatalf("released %v, want %v", got, released)
	}
}
