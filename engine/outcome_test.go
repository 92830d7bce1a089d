package engine

import (
	"io/fs"
	"testing"
	"time"

	"operon/engine/body"
	"operon/spec"
)

func TestJudge(t *testing.T) {
	yes, no := true, false
	all := spec.Retry{Times: 2, Backoff: time.Second, Factor: 2, MaxBackoff: 3 * time.Second, Jitter: 0.5, OnExit: true, OnSignal: true, OnTimeout: true, OnOutput: true}
	some := spec.Retry{Times: 2, Exits: []int{7}}
	for name, c := range map[string]struct {
		retry   spec.Retry
		failure body.Failure
		attempt int
		chance  float64
		want    verdict
		wait    time.Duration
	}{
		"first failure":                {all, body.Failure{Kind: body.KindExit, Exit: 1}, 1, 0.5, verdictRetry, time.Second},
		"least jitter":                 {all, body.Failure{Kind: body.KindSignal}, 1, 0, verdictRetry, 500 * time.Millisecond},
		"grown":                        {all, body.Failure{Kind: body.KindTimeout}, 2, 0.5, verdictRetry, 2 * time.Second},
		"no attempts left":             {all, body.Failure{Kind: body.KindOutput}, 3, 0.5, verdictFail, 0},
		"of no such kind":              {all, body.Failure{Kind: body.KindInput}, 1, 0.5, verdictFail, 0},
		"a status that is named":       {some, body.Failure{Kind: body.KindExit, Exit: 7}, 1, 0.5, verdictRetry, 0},
		"a status that is not":         {some, body.Failure{Kind: body.KindExit, Exit: 8}, 1, 0.5, verdictFail, 0},
		"the body asks for it":         {some, body.Failure{Kind: body.KindExit, Exit: 75, Retryable: &yes}, 1, 0.5, verdictRetry, 0},
		"the body asks, none are left": {some, body.Failure{Kind: body.KindExit, Exit: 75, Retryable: &yes}, 3, 0.5, verdictFail, 0},
		"the body asks, none at all":   {spec.Retry{}, body.Failure{Kind: body.KindExit, Exit: 75, Retryable: &yes}, 1, 0.5, verdictFail, 0},
		"the body says it is no use":   {all, body.Failure{Kind: body.KindExit, Exit: 1, Retryable: &no}, 1, 0.5, verdictFail, 0},
		"not before":                   {all, body.Failure{Kind: body.KindExit, RetryAfter: time.Minute}, 1, 0.5, verdictRetry, time.Minute},
		"not before what comes later":  {all, body.Failure{Kind: body.KindExit, RetryAfter: time.Millisecond}, 1, 0.5, verdictRetry, time.Second},
		"lost":                         {spec.Retry{}, body.Failure{Kind: body.KindLost}, 1, 0.5, verdictAgain, 0},
		"lost for good":                {all, body.Failure{Kind: body.KindLost, Err: fs.ErrNotExist}, 1, 0.5, verdictDamaged, 0},
		"cancelled":                    {spec.Retry{}, body.Failure{Kind: body.KindCancelled}, 1, 0.5, verdictAgain, 0},
		"its own limit of memory":      {all, body.Failure{Kind: body.KindResources, Err: body.ErrMemory}, 1, 0.5, verdictRetry, time.Second},
		"its own limit, none are left": {all, body.Failure{Kind: body.KindResources, Err: body.ErrMemory}, 3, 0.5, verdictFail, 0},
		"the machine":                  {all, body.Failure{Kind: body.KindResources}, 1, 0.5, verdictStopSick, 0},
	} {
		if what, wait := judge(c.retry, &c.failure, c.attempt, c.chance); what != c.want || wait != c.wait {
			t.Errorf("%s: %d after %v, want %d after %v", name, what, wait, c.want, c.wait)
		}
	}
}

func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		said      spec.OnError
		keepGoing bool
		want      spec.OnError
	}{
		{"", false, spec.OnErrorStop}, {spec.OnErrorStop, false, spec.OnErrorStop}, {spec.OnErrorStop, true, spec.OnErrorContinue},
		{"", true, spec.OnErrorContinue}, {spec.OnErrorContinue, false, spec.OnErrorContinue}, {spec.OnErrorHole, true, spec.OnErrorHole},
	} {
		if got := onError(c.said, c.keepGoing); got != c.want {
			t.Errorf("%q, keep going %v: %s, want %s", c.said, c.keepGoing, got, c.want)
		}
	}
	for _, c := range []struct {
		policy       spec.OnError
		failed, most int64
		want         bool
	}{
		{spec.OnErrorStop, 1, 0, true}, {spec.OnErrorContinue, 9, 0, false}, {spec.OnErrorHole, 9, 0, false},
		{spec.OnErrorHole, 2, 3, false}, {spec.OnErrorHole, 3, 3, true}, {spec.OnErrorContinue, 4, 3, true},
	} {
		if got := stops(c.policy, c.failed, c.most); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
