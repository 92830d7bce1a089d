package live

import (
	"fmt"
	"io"
	"time"

	"operon/engine"
)

// plain says in lines what happens: a line when a task's state changes, and one
// now and then while its counts do.
type plain struct {
	out  io.Writer
	m    *model
	said map[*task]saying
}

// saying is what was last said of a task.
type saying struct {
	word  string
	ended int64
	at    time.Time
}

func (d *plain) event(e engine.Event, t *task) {
	if line := happened(e, t); line != "" {
		d.say(e.Time, line)
	}
	if e.Kind == engine.EventTask && t != nil {
		d.state(e.Time, t)
	}
}

// state says a task's state where it is news. That a task has not begun yet, or
// was done before anything ran, is none.
func (d *plain) state(now time.Time, t *task) {
	last, before := d.said[t]
	word := t.word()
	if word == last.word {
		return
	}
	d.note(now, t)
	if !before && (word == "waiting" || word == "done" && t.Reused == t.Done) {
		return
	}
	d.say(now, t.Task+" "+word+": "+t.counts(now))
}

func (d *plain) tick(now time.Time) {
	for _, t := range d.m.tasks {
		last, before := d.said[t]
		if before && now.Sub(last.at) >= reminder && t.Done+t.Failed+t.Holes != last.ended {
			d.note(now, t)
			d.say(now, t.Task+" "+t.word()+": "+t.counts(now))
		}
	}
}

func (d *plain) note(now time.Time, t *task) {
	d.said[t] = saying{t.word(), t.Done + t.Failed + t.Holes, now}
}

func (d *plain) end(time.Time) {}

func (d *plain) say(at time.Time, line string) {
	fmt.Fprintf(d.out, "[%6s] %s\n", Duration(at.Sub(d.m.start)), line)
}

// happened is an event as a line, "" where the picture says it. Of one task only
// the first few failures are told; the summary groups them all.
func happened(e engine.Event, t *task) string {
	switch e.Kind {
	case engine.EventNote:
		return e.Message
	case engine.EventRun:
		if e.State == engine.StatePaused {
			return "paused"
		}
	case engine.EventFailure, engine.EventRetry:
		if e.Failed == nil || t == nil {
			return ""
		}
		t.told++
		if t.told > toldEach {
			if t.told == toldEach+1 {
				return e.Failed.Task + ": more of the kind are counted, not shown"
			}
			return ""
		}
		return attempt(e)
	}
	return ""
}

func attempt(e engine.Event) string {
	f := e.Failed
	line := Job(f.Task, f.At()) + ": " + oneLine(f.Message)
	if e.Kind == engine.EventRetry {
		return line + fmt.Sprintf("; again in %s", Duration(time.Duration(e.Delay*float64(time.Second))))
	}
	if f.Hole {
		line += " (now a hole)"
	}
	if f.Attempts > 1 {
		line += fmt.Sprintf(" (attempt %d)", f.Attempts)
	}
	return line
}
