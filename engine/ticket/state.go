package ticket

import "operon/spec/coord"

// Status is what a ticket is in. Only Done, Failed and Hole are stored; the
// others follow from the promotion rule and from what the engine is doing.
//
//	status   true in it                              left by
//	Waiting  a slot, a quota or a shape is open      promotion -> Queued; explosion -> its children
//	Queued   may run: all three conditions hold      a slot picks it -> Running (the engine's)
//	Running  an attempt is under way                 its end -> Done, Failed, Hole, or Queued again
//	Done     its record is stored                    nothing
//	Failed   failed for good in this run             the next run -> Queued
//	Hole     done, with no value                     the next run, if holes are to be tried again
type Status uint8

const (
	Waiting Status = iota
	Done
	Failed
	Hole
	Queued
	Running
)

// String is the status in lower case.
func (s Status) String() string {
	return [...]string{"waiting", "done", "failed", "hole", "queued", "running"}[s]
}

// Range is a run of neighbouring tickets of one task: those with the indices
// from Lo up to, not including, Hi on the last dimension of its context, behind
// Prefix on the others. A task without context has the one ticket [0, 1) behind
// the empty prefix.
type Range struct {
	Task   int // index of the task in its pipeline
	Prefix coord.Coord
	Lo, Hi uint32
	// Hole says that the tickets take a hole: they are to become holes
	// themselves (OnHole), and must not run.
	Hole bool
}

// Len is the number of tickets.
func (r Range) Len() int { return int(r.Hi - r.Lo) }

// Counts are the tickets of one task. A family that waits for a dimension's
// length is one ticket.
type Counts struct {
	Tickets  int64 // all of them
	Promoted int64 // may run, run, or have run
	Done     int64
	Failed   int64
	Holes    int64
}

// Waiting are the tickets that were not promoted.
func (c Counts) Waiting() int64 { return c.Tickets - c.Promoted }

// Complete reports whether nothing is left to do.
func (c Counts) Complete() bool { return c.Tickets == c.Done+c.Holes }

// rules are the clauses of the transition function that a test can leave out,
// to see that it notices.
type rules struct {
	noSlots          bool // promote although slots are unresolved
	noShape          bool // promote although shapes are unknown
	shapeAtOwn       bool // look a shape up at the ticket's own coordinate only
	noSecondTry      bool // do not ask again when a shape becomes known
	noPins           bool // an explosion raises every share of the reference
	everyReference   bool // an explosion raises once for each reference that slices over it
	skipQuotaAtBirth bool // a share is born with a quota of 1
}
