package engine

import (
	"errors"
	"io/fs"
	"math"
	"slices"
	"time"

	"operon/engine/body"
	"operon/spec"
)

// verdict is what is done about a failed attempt.
type verdict uint8

const (
	verdictRetry    verdict = iota // try again after a delay
	verdictFail                    // the job has failed for good
	verdictAgain                   // it was the engine's doing: the job waits as before
	verdictStopSick                // the machine's fault: the run stops, no job is blamed
	verdictDamaged                 // what the store should hold is gone: the run stops
)

// judge decides about a failed attempt; chance in [0, 1) decides the jitter.
func judge(r spec.Retry, f *body.Failure, attempt int, chance float64) (verdict, time.Duration) {
	switch f.Kind {
	case body.KindLost:
		if errors.Is(f, fs.ErrNotExist) {
			return verdictDamaged, 0
		}
		return verdictAgain, 0
	case body.KindCancelled:
		return verdictAgain, 0
	case body.KindResources:
		if !errors.Is(f, body.ErrMemory) {
			return verdictStopSick, 0
		}
	}
	if attempt > r.Times || !retries(r, f) {
		return verdictFail, 0
	}
	return verdictRetry, max(delay(r, attempt, chance), f.RetryAfter)
}

// onError is the policy for a job that has failed for good.
func onError(said spec.OnError, keepGoing bool) spec.OnError {
	switch {
	case said == spec.OnErrorContinue || said == spec.OnErrorHole:
		return said
	case keepGoing:
		return spec.OnErrorContinue
	}
	return spec.OnErrorStop
}

// stops reports whether no new job may start: failed are the jobs that failed
// for good so far, most how many may, 0 for any number.
func stops(policy spec.OnError, failed, most int64) bool {
	return policy == spec.OnErrorStop || most > 0 && failed >= most
}

// retries reports whether the task's retry is for such a failure. What the body
// itself says of it comes first.
func retries(r spec.Retry, f *body.Failure) bool {
	if f.Retryable != nil {
		return *f.Retryable
	}
	switch f.Kind {
	case body.KindExit:
		return r.OnExit || slices.Contains(r.Exits, f.Exit)
	case body.KindSignal, body.KindResources: // the job's own: the kernel killed it
		return r.OnSignal
	case body.KindTimeout:
		return r.OnTimeout
	case body.KindOutput:
		return r.OnOutput
	}
	return false
}

// delay grows by the factor from attempt to attempt, up to the bound, and is
// spread by the jitter to both sides.
func delay(r spec.Retry, attempt int, chance float64) time.Duration {
	d := float64(r.Backoff) * math.Pow(r.Factor, float64(attempt-1))
	if r.MaxBackoff > 0 {
		d = min(d, float64(r.MaxBackoff))
	}
	d *= 1 + r.Jitter*(2*chance-1)
	return time.Duration(max(0, min(d, float64(24*time.Hour))))
}
