package frontier

import (
	"errors"
	"fmt"
)

// What a view answers to a batch or a change of membership. None of them has
// changed it.
var (
	// ErrUnknownWorker: no such worker, or no such incarnation of it, has joined.
	ErrUnknownWorker = errors.New("unknown worker")
	// ErrTooFarAhead: too many batches are missing before this one to keep it.
	// The sender has to send it again once they are in.
	ErrTooFarAhead = errors.New("too far ahead")
	// ErrJoined: the worker is a member already, or this incarnation of it was.
	ErrJoined = errors.New("joined before")
	// ErrReleased: a worker would join at an id that others may have released.
	ErrReleased = errors.New("below the frontier")
	// ErrContradiction: what the worker says can't be, after what it said before.
	// The error is a *Contradiction.
	ErrContradiction = errors.New("contradiction")
)

// The ways a worker contradicts itself or another; each is the Cause of a
// Contradiction.
var (
	// ErrPassed: the batch does not go on from the worker's next id, or goes back.
	ErrPassed = errors.New("does not go on from the worker's next id")
	// ErrInstall: an id is installed that the batch does not pass.
	ErrInstall = errors.New("installs an id it does not pass")
	// ErrRetract: an id is retracted that the worker does not hold, or twice.
	ErrRetract = errors.New("retracts an id it does not hold")
	// ErrOutcome: an end is told of an id that the batch does not end.
	ErrOutcome = errors.New("tells the end of an id it does not end")
	// ErrFingerprint: two workers mean different dataflows by one id.
	ErrFingerprint = errors.New("installs something else under this id than another worker")
	// ErrLeft: a batch after the last one of a worker that leaves.
	ErrLeft = errors.New("speaks after it left")
)

// Contradiction is a batch that was refused because of what it says.
type Contradiction struct {
	Worker      int
	Incarnation uint64
	Seq         uint64 // of the batch that was refused, which may have been kept until now
	Time        Time   // what it is about
	Cause       error
}

// Error names the batch, the time and the cause.
func (c *Contradiction) Error() string {
	return fmt.Sprintf("apply batch %d of worker %d: %v: %v", c.Seq, c.Worker, c.Time, c.Cause)
}

// Unwrap makes errors.Is find both ErrContradiction and the cause.
func (c *Contradiction) Unwrap() []error { return []error{ErrContradiction, c.Cause} }
