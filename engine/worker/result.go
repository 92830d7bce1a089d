package worker

import (
	"operon/engine/body"
	"operon/spec/value"
	"operon/storage"
)

// Result is how one attempt ended. Exactly one of Output, Failure, Err and Waits
// is set, or none of them if the worker was stopped before the job began.
type Result struct {
	Job Job
	// Key is the job's key if it is claimed in the memo (or, with Waits, waited
	// for): who takes the result must settle the claim.
	Key     value.Digest
	Claimed bool
	Reused  bool            // Output is that of another job with the same key
	Waits   bool            // a job with the same key is under way
	Record  storage.Record  // with Output
	Output  *storage.Output // what it returned, ready to be committed
	Failure *body.Failure
	Log     string // path of the log, relative to the logs folder; "" if there is none
	// Err is no fault of the job: the store can't be read or written.
	Err error
}

// NotRun reports whether the job never began.
func (r *Result) NotRun() bool {
	return r.Output == nil && r.Failure == nil && r.Err == nil && !r.Waits
}
