package main

import "fmt"

// million doubles n numbers in process and sums them up: what a job costs where the body costs next to nothing.
// Peak heap and resident size must not grow with n as the values do. Each size is run once, then again with nothing
// to do.
func million(s *settings, r *report) error {
	sizes := []int{10_000, 100_000, 1_000_000}
	if s.n > 0 {
		sizes = []int{s.n}
	}
	for _, n := range sizes {
		dir, err := s.place("million", "million.yaml", millionPipeline(n))
		if err != nil {
			return err
		}
		u := run{Bench: "million", Tool: "operon", N: n}
		if err := s.measureOperon(r, u, dir, "million.yaml", n+2, true, s.millionResult(dir, n)); err != nil {
			return err
		}
		u.Tool = again
		if err := s.measureOperon(r, u, dir, "million.yaml", 0, true, nil); err != nil {
			return err
		}
	}
	return nil
}

func millionPipeline(n int) string {
	return fmt.Sprintf(`pipeline: million
tasks:
  numbers:
    out: Number<i>
    source: { count: %d }
  double:
    in: Number
    for: i
    out: Twice
    jq: . * 2
  total:
    in: Twice<i>
    out: Total
    jq: '"\(length) values, sum \(add)"'
`, n)
}

// millionResult holds the sum against the formula: twice 0 to n - 1.
func (s *settings) millionResult(dir string, n int) func() error {
	return func() error {
		want := fmt.Sprintf("%d values, sum %d", n, n*(n-1))
		got, err := s.value(dir, "million.yaml", "Total")
		if err == nil && got != want {
			err = fmt.Errorf("total %q, not %q", got, want)
		}
		return err
	}
}
