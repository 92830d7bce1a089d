package frontier

import "strconv"

// Outcome says how a worker's share of a dataflow ended. The share of the whole
// is the maximum over the workers, so the order of the constants matters: one
// worker that dropped outweighs any number that completed.
type Outcome uint8

const (
	// None is the outcome of a worker that skipped the dataflow, or of one that
	// has not been heard yet.
	None Outcome = iota
	// Completed: the worker did all of its share.
	Completed
	// Failed: it did not, because of an error or because the worker is lost.
	Failed
	// Dropped: it was told to stop.
	Dropped
)

// String is the lower-case name.
func (o Outcome) String() string {
	switch o {
	case None:
		return "none"
	case Completed:
		return "completed"
	case Failed:
		return "failed"
	case Dropped:
		return "dropped"
	}
	return "outcome " + strconv.Itoa(int(o))
}
