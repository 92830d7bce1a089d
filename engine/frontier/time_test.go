package frontier

import "testing"

func times(n uint64) []Time {
	var out []Time
	for id := range n {
		out = append(out, Future(id), Installed(id))
	}
	return out
}

// TestPartialOrder is F01, on all triples of times up to 6.
func TestPartialOrder(t *testing.T) {
	all := times(7)
	for _, a := range all {
		if !a.LessEqual(a) {
			t.Errorf("%v is not <= itself", a)
		}
		if !Future(0).LessEqual(a) {
			t.Errorf("Future(0) is not <= %v", a)
		}
		for _, b := range all {
			if a != b && a.LessEqual(b) && b.LessEqual(a) {
				t.Errorf("%v and %v are <= each other", a, b)
			}
			for _, c := range all {
				if a.LessEqual(b) && b.LessEqual(c) && !a.LessEqual(c) {
					t.Errorf("%v <= %v <= %v, but not %[1]v <= %[3]v", a, b, c)
				}
			}
		}
	}
}

func TestLessEqualTable(t *testing.T) {
	for a := range uint64(4) {
		for b := range uint64(4) {
			for _, row := range []struct {
				x, y Time
				want bool
			}{
				{Future(a), Future(b), a <= b},
				{Future(a), Installed(b), a <= b},
				{Installed(a), Future(b), false},
				{Installed(a), Installed(b), a == b},
			} {
				if got := row.x.LessEqual(row.y); got != row.want {
					t.Errorf("%v <= %v: %v, want %v", row.x, row.y, got, row.want)
				}
			}
		}
	}
}

// TestTotalOrder: Compare is a total order that extends the partial one, and
// puts each Future before each Installed.
func TestTotalOrder(t *testing.T) {
	all := times(7)
	for _, a := range all {
		for _, b := range all {
			ab := a.Compare(b)
			if ab != -b.Compare(a) || ab == 0 != (a == b) {
				t.Errorf("%v to %v is %d, back %d", a, b, ab, b.Compare(a))
			}
			if a.LessEqual(b) && ab > 0 {
				t.Errorf("%v <= %v, but sorts after it", a, b)
			}
			if !a.IsInstalled() && b.IsInstalled() && ab >= 0 {
				t.Errorf("%v does not sort before %v", a, b)
			}
			for _, c := range all {
				if ab < 0 && b.Compare(c) < 0 && a.Compare(c) >= 0 {
					t.Errorf("%v, %v, %v do not sort", a, b, c)
				}
			}
		}
	}
}

func TestTimeAccess(t *testing.T) {
	if got := Future(3).String() + " " + Installed(18446744073709551615).String(); got != "Future(3) Installed(18446744073709551615)" {
		t.Error(got)
	}
	if (Time{}) != Future(0) || Installed(4).ID() != 4 || Future(5).ID() != 5 {
		t.Error("the zero value is not Future(0), or an id is lost")
	}
	if got := Dropped.String() + Failed.String() + Completed.String() + None.String() + Outcome(9).String(); got != "droppedfailedcompletednoneoutcome 9" {
		t.Error(got)
	}
}
