package engine

import "time"

// tellEvery is how often a task's counts are told while they change.
const tellEvery = 100 * time.Millisecond

// say tells what has happened.
func (l *loop) say(e Event) {
	if l.events == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	l.events(e)
}

// tell says how the tasks stand that have changed: at once where the dataflow's
// state did, else now and then. With all set, every task's counts are told.
func (l *loop) tell(now time.Time, all bool) {
	if l.events == nil {
		return
	}
	due := all || now.Sub(l.lastTick) >= tellEvery
	for n, f := range l.flows {
		if !f.changed && !all {
			continue
		}
		c := l.table.Counts(n)
		state := f.state(c)
		if !due && state == f.said {
			continue
		}
		f.changed, f.said = false, state
		s := f.status(c)
		l.say(Event{Time: now, Kind: EventTask, Task: &s})
	}
	if due {
		l.lastTick = now
	}
	if state := l.state(); state != l.saidState {
		l.saidState = state
		l.say(Event{Time: now, Kind: EventRun, State: state})
	}
}

func noteEvent(text string) Event {
	return Event{Time: time.Now(), Kind: EventNote, Message: text}
}
