package engine

import "slices"

// deferred is something that may only be done once a batch is durable, such as
// deleting what the batch made superfluous.
type deferred struct {
	batch uint64
	do    func()
}

// whenDurable does something once all that was committed so far is durable.
func (l *loop) whenDurable(do func()) {
	l.deferred = append(l.deferred, deferred{l.commits.submitted, do})
}

// settleDeferred does what may be done now.
func (l *loop) settleDeferred() {
	if len(l.deferred) == 0 {
		return
	}
	_, durable, _ := l.commits.state()
	var due []func()
	l.deferred = slices.DeleteFunc(l.deferred, func(d deferred) bool {
		if d.batch > durable {
			return false
		}
		due = append(due, d.do)
		return true
	})
	for _, do := range due {
		do()
	}
}
