package engine

import (
	"cmp"
	"slices"
	"time"

	"operon/engine/frontier"
)

// WorkerStatus is where a worker of a running engine stands.
type WorkerStatus struct {
	Worker      int    `json:"worker"`
	Incarnation uint64 `json:"incarnation"` // 0, and one more each time it was replaced
	Next        uint64 `json:"next"`        // the first dataflow that it has not passed
	Live        int    `json:"live"`        // dataflows that it may still schedule
	Running     int    `json:"running"`     // commands under way
	// Behind is how long the oldest command has waited for it, in seconds; Stalled
	// says that this is so long that it gets no more jobs.
	Behind  float64 `json:"behind_s"`
	Stalled bool    `json:"stalled,omitempty"`
}

// FrozenDataflow is a dataflow that was dropped or is done, and that some worker
// may still schedule, as far as is known.
type FrozenDataflow struct {
	Dataflow uint64  `json:"dataflow"`
	Task     string  `json:"task"`
	Outcome  string  `json:"outcome"` // completed, failed or dropped, as it was asked for
	For      float64 `json:"for_s"`   // seconds
	Pins     []int   `json:"pins"`    // the workers that keep it from going
}

// status fills in what the workers may schedule, and what they keep from going.
func (c *crew) status(s *Status, frozen map[uint64]*flow) {
	for _, t := range c.view.Frontier() {
		s.Frontier = append(s.Frontier, t.String())
	}
	members := map[int]frontier.Member{}
	for _, m := range c.view.Members() {
		members[m.Worker] = m
	}
	for _, h := range c.hands {
		m := members[h.config.Index]
		s.Workers = append(s.Workers, WorkerStatus{
			Worker: h.config.Index, Incarnation: h.config.Incarnation, Next: m.Next, Live: len(m.Live),
			Running: h.busy, Behind: h.Behind().Seconds(), Stalled: h.stalled,
		})
	}
	for id, f := range frozen {
		s.Frozen = append(s.Frozen, FrozenDataflow{
			Dataflow: id, Task: f.task.Name, Outcome: f.outcome.String(), For: time.Since(f.since).Seconds(), Pins: c.view.Pins(id),
		})
	}
	slices.SortFunc(s.Frozen, func(a, b FrozenDataflow) int { return cmp.Compare(a.Dataflow, b.Dataflow) })
}
