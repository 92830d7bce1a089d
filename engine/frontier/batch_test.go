package frontier

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func anyTime() *rapid.Generator[Time] {
	return rapid.Custom(func(t *rapid.T) Time {
		id := rapid.Uint64Range(0, 7).Draw(t, "id")
		if rapid.Bool().Draw(t, "installed") {
			return Installed(id)
		}
		return Future(id)
	})
}

func counts(b ChangeBatch) map[Time]int64 { return maps.Collect(b.All()) }

func TestZeroBatch(t *testing.T) {
	var b ChangeBatch
	if !b.IsEmpty() || b.Len() != 0 || len(counts(b)) != 0 {
		t.Error("the zero batch is not empty")
	}
	b.Update(Future(1), 0)
	b.Update(Future(2), 3)
	b.Update(Future(2), -3)
	if !b.IsEmpty() {
		t.Errorf("what adds up to nothing is in the batch: %v", counts(b))
	}
	b.Merge(ChangeBatch{})
	if !b.IsEmpty() {
		t.Error("nothing merged into nothing is something")
	}
}

// TestBatchAddsUp holds a batch and its copies against maps. Copies are values:
// each goes its own way, in whatever order they are updated.
func TestBatchAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batches := []ChangeBatch{{}}
		want := []map[Time]int64{{}}
		for range rapid.IntRange(0, 120).Draw(t, "steps") {
			i := rapid.IntRange(0, len(batches)-1).Draw(t, "batch")
			j := rapid.IntRange(0, len(batches)-1).Draw(t, "other")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				batches = append(batches, batches[i])
				want = append(want, maps.Clone(want[i]))
			case 1:
				batches[i], want[i] = batches[j], maps.Clone(want[j])
			case 2:
				if len(batches[j].items) < 1000 {
					batches[i].Merge(batches[j])
					for at, n := range maps.Clone(want[j]) {
						want[i][at] += n
					}
				}
			default:
				at, n := anyTime().Draw(t, "time"), rapid.Int64Range(-2, 2).Draw(t, "delta")
				batches[i].Update(at, n)
				want[i][at] += n
			}
		}
		for i, b := range batches {
			maps.DeleteFunc(want[i], func(_ Time, n int64) bool { return n == 0 })
			if got := counts(b); !maps.Equal(got, want[i]) || b.Len() != len(got) || b.IsEmpty() != (len(got) == 0) {
				t.Fatalf("batch %d: got %v, want %v", i, got, want[i])
			}
		}
	})
}

// TestBatchStaysSmall: updates that cancel do not pile up.
func TestBatchStaysSmall(t *testing.T) {
	var b ChangeBatch
	for range 10_000 {
		b.Update(Future(1), 1)
		b.Update(Future(1), -1)
	}
	if len(b.items) > 2*compactAfter {
		t.Errorf("%d items for a batch of nothing", len(b.items))
	}
}

func TestConstructors(t *testing.T) {
	for _, row := range []struct {
		name string
		b    ChangeBatch
		want map[Time]int64
	}{
		{"install", Install(3), map[Time]int64{Future(3): -1, Future(4): 1, Installed(3): 1}},
		{"skip", Skip(3), map[Time]int64{Future(3): -1, Future(4): 1}},
		{"retract", Retract(3, Failed), map[Time]int64{Installed(3): -1}},
	} {
		if got := counts(row.b); !maps.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
		order := slices.Collect(maps.Keys(row.want))
		slices.SortFunc(order, Time.Compare)
		i := 0
		for at := range row.b.All() {
			if at != order[i] {
				t.Errorf("%s: item %d is %v, want %v", row.name, i, at, order[i])
			}
			i++
		}
	}
}

// TestWholeLifeInOneBatch: the counts of an install and its retraction cancel,
// how it ended does not.
func TestWholeLifeInOneBatch(t *testing.T) {
	b := Install(3)
	b.Merge(Retract(3, Failed))
	if got := counts(b); !maps.Equal(got, counts(Skip(3))) {
		t.Errorf("counts %v, want those of a skip", got)
	}
	if got := maps.Collect(b.Outcomes()); !maps.Equal(got, map[uint64]Outcome{3: Failed}) {
		t.Errorf("outcomes %v", got)
	}
	if got := maps.Collect(Retract(1, None).Outcomes()); got[1] != Dropped {
		t.Errorf("a retraction without an outcome is %v, want dropped", got[1])
	}
}

func TestSince(t *testing.T) {
	b := Install(5)
	b.Merge(Retract(2, Completed))
	b.Merge(Retract(5, Failed))
	got := b.Since(5)
	if !maps.Equal(counts(got), counts(Skip(5))) || !maps.Equal(maps.Collect(got.Outcomes()), map[uint64]Outcome{5: Failed}) {
		t.Errorf("since 5: %v", dumpBatch(got))
	}
}

// TestIterationStops: a loop that breaks out is not called again.
func TestIterationStops(t *testing.T) {
	b := Install(1)
	b.Merge(Retract(0, Failed))
	n := 0
	for range b.All() {
		n++
		break
	}
	for range b.Outcomes() {
		n++
		break
	}
	if n != 2 {
		t.Errorf("%d steps in two loops of one", n)
	}
}
