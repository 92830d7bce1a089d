package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// summary is what is read of `operon run --json`.
type summary struct {
	State    string `json:"state"`
	Executed int    `json:"executed"`
	Reused   int    `json:"reused"`
	Failed   int    `json:"failed"`
}

// operonRun runs the pipeline in dir once, with its state beside it.
func (s *settings) operonRun(dir, file string, trace bool) (cost, summary, error) {
	c, err := measured(dir, trace, s.operon, "run", "-j", strconv.Itoa(s.jobs), "--ui", "quiet", "--json", file)
	var sum summary
	if err != nil {
		return c, sum, err
	}
	if err := json.Unmarshal(c.stdout, &sum); err != nil {
		return c, sum, fmt.Errorf("read the summary %q: %w", c.stdout, err)
	}
	return c, sum, nil
}

// measureOperon runs the pipeline and reports it. The body of every job must have run, or none of them where want is 0.
// A result that is wrong is reported, not returned: the other runs go on.
func (s *settings) measureOperon(r *report, u run, dir, file string, want int, trace bool, also func() error) error {
	c, sum, wrong := s.operonRun(dir, file, trace)
	if wrong == nil {
		wrong = sum.check(want)
	}
	if wrong == nil && also != nil {
		wrong = also()
	}
	u.J = s.jobs
	u.StateMB = diskMB(filepath.Join(dir, ".operon"))
	return r.add(u, c, wrong)
}

func (sum summary) check(want int) error {
	if sum.State != "complete" || sum.Executed != want {
		return fmt.Errorf("state %s with %d executed, not complete with %d", sum.State, sum.Executed, want)
	}
	return nil
}

// value asks for the only value of an entity, as text.
func (s *settings) value(dir, file, entity string) (string, error) {
	c, err := measured(dir, false, s.operon, "get", file, entity)
	return strings.TrimSuffix(string(c.stdout), "\n"), err
}
