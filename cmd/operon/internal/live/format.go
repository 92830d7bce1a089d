package live

import (
	"fmt"
	"strings"
	"time"
)

// Duration is d as a person reads it: 0.3s, 12s, 3m05s, 2h07m.
func Duration(d time.Duration) string {
	d = max(d, 0) // a clock that was set back makes no negative time
	switch {
	case d < 9950*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute-time.Second/2:
		return fmt.Sprintf("%.0fs", d.Seconds())
	case d < time.Hour-time.Second/2:
		d = d.Round(time.Second)
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	d = d.Round(time.Minute)
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// rate is jobs a second as a person reads it.
func rate(perSecond float64) string {
	switch {
	case perSecond >= 10:
		return fmt.Sprintf("%.0f/s", perSecond)
	case perSecond >= 0.1:
		return fmt.Sprintf("%.1f/s", perSecond)
	}
	return fmt.Sprintf("%.1f/min", perSecond*60)
}

// jobs is a count with its word.
func jobs(n int64) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}

// counts is what there is to say of a task beyond its state.
func (t *task) counts(now time.Time) string {
	if t.all() == 0 {
		return "" // nothing has been heard of it yet
	}
	parts := []string{fmt.Sprintf("%d/%d", t.Done, t.all())}
	add := func(n int64, word string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	add(t.Running, "running")
	add(t.Failed, "failed")
	add(t.Blocked, "blocked")
	add(t.Holes, "holes")
	add(t.Reused, "reused")
	if perSecond := t.speed.perSecond(now); perSecond > 0 && t.left() > 0 {
		parts = append(parts, rate(perSecond), Duration(t.timeLeft(now))+" left")
	}
	return strings.Join(parts, ", ")
}
