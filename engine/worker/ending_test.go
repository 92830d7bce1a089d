package worker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// serving is a session with a dataflow that keeps processes, one job of which runs.
const serving = `
	hello s1; create 3 as process; schedule 3; create 4 as process; schedule 4; complete
	> frontier -F1 +F5 +I3 +I4
	run 1 3 at 0; begins 3@0
`

// points are, for each point of Config.Fault, commands that lead there while a job
// runs.
var points = map[string]string{
	PointCommand: "drop 4 dropped",
	PointInstall: "create 6 as process",
	PointJob:     "run 2 4 at 1",
	PointRetract: "drop 4 dropped",
}

// TestFenceAtEveryPoint: a worker that stalls and is fenced says all that it has
// to say, then Died, and nothing when it wakes up.
func TestFenceAtEveryPoint(t *testing.T) {
	for point, way := range points {
		t.Run(point, func(t *testing.T) {
			d := newDriver(t)
			d.script(serving).script("block " + point + ";" + way + "; reached; fence too slow; fence again\n> done 1: 0 cancelled")
			if point == PointJob { // it is not over as long as a slot is at something
				d.script("unblock\n> done 2: 1 unbegun\n> died: too slow")
			} else {
				d.script("> died: too slow\nunblock")
			}
			d.w.Send(Schedule{4}) // too late
			d.close(patience)
			d.w.loop.Wait()
			d.checkClosed()
			d.checkSilent()
		})
	}
}

// TestPanicAtEveryPoint: one that can't go on does the same.
func TestPanicAtEveryPoint(t *testing.T) {
	for point, way := range points {
		t.Run(point, func(t *testing.T) {
			d := newDriver(t)
			where := "its loop"
			if point == PointJob {
				where = "a slot"
			}
			d.script(serving).script("panic " + point + ";" + way + "\n> done 1: 0 cancelled\n> died: worker 0: panic in " + where + ": as the test says…")
			d.close(patience)
			d.checkClosed()
			d.checkSilent()
		})
	}
}

// TestFenceWithoutAnything: one that does nothing dies as well, also before anybody
// has spoken to it.
func TestFenceWithoutAnything(t *testing.T) {
	newDriver(t).script("fence as asked\n> died: as asked")
	newDriver(t).script(begun + "fence as asked\n> died: as asked")
}

// TestFenceWhileProcessesEnd: Died waits for processes that are being ended.
func TestFenceWhileProcessesEnd(t *testing.T) {
	d := newDriver(t)
	d.script(serving).script("hold; drop 4 dropped; closing 1; pass; fence as asked\n> done 1: 0 cancelled")
	d.until("the others are closed", func() bool { return d.waiting == 2 })
	if len(d.responses) > 0 {
		t.Error("it is dead, and processes of it are left")
	}
	d.script("unhold\n> died: as asked")
	d.close(patience)
	d.checkClosed()
}

// checkSilent: nothing is heard of the worker that was not expected.
func (d *driver) checkSilent() {
	d.Helper()
	for len(d.responses) > 0 {
		d.hear(<-d.responses)
	}
	if len(d.heard) > 0 {
		d.Errorf("heard %q", d.heard)
	}
}

// TestCloseLetsJobsEnd: what was commanded is carried out, and what runs ends.
func TestCloseLetsJobsEnd(t *testing.T) {
	d := newDriver(t)
	d.script(serving).script("block command; run 2 3 at 1; run 3 3 at 2; run 4 9 at 0; create 6 as process; reached")
	done := make(chan error)
	go func() { done <- d.w.Close(patience) }()
	d.fault.free <- struct{}{}
	for n := range 3 {
		d.end(fmt.Sprintf("3@%d", n), nil)
	}
	for over := false; !over; {
		select {
		case r := <-d.responses:
			d.hear(r)
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			over = true
		}
	}
	d.shut.Do(func() {})
	for len(d.responses) > 0 {
		d.hear(<-d.responses)
	}
	slices.Sort(d.heard)
	want := []string{"done 1: 0 ok", "done 2: 1 ok", "done 3: 2 ok", "done 4: 0 unbegun", "frontier -F5 +F7 +I6"}
	if !slices.Equal(d.heard, want) {
		t.Errorf("heard %q, want %q", d.heard, want)
	}
	d.checkClosed()
}

// TestCloseIsBounded: a loop that stalls, with more to do or not, is left behind,
// and does nothing when it wakes up.
func TestCloseIsBounded(t *testing.T) {
	for point, way := range points {
		for _, more := range []string{"", "; schedule 4; peek q 3 at 0; run 7 4 at 1; create 9"} {
			if point == PointJob {
				continue // slots are ended with their jobs, not left behind
			}
			t.Run(point+more, func(t *testing.T) {
				d := newDriver(t)
				d.script(serving).script("block " + point + ";" + way + "; reached" + more)
				began := time.Now()
				d.close(30 * time.Millisecond)
				if d.closed == nil || !strings.Contains(d.closed.Error(), "left behind") {
					t.Errorf("Close said %v", d.closed)
				}
				if took := time.Since(began); took > patience {
					t.Errorf("Close took %v", took)
				}
				if want := []string{"done 1: 0 cancelled"}; !slices.Equal(d.heard, want) {
					t.Errorf("heard %q, want %q", d.heard, want)
				}
				if err := d.store.Flush(t.Context()); err != nil {
					t.Error(err)
				}
				d.heard = nil
				d.fault.free <- struct{}{}
				d.w.loop.Wait()
				d.checkSilent()
				d.checkClosed()
			})
		}
	}
}

// TestStopBeginsNothing: what was commanded is answered, and what runs ends.
func TestStopBeginsNothing(t *testing.T) {
	d := newDriver(t)
	d.script(serving)
	d.w.Stop()
	d.script("run 2 3 at 1 2\n> done 2: 1 unbegun 2 unbegun\nend 3@0\n> done 1: 0 ok")
}

// TestBehind: a worker is behind by the command that it is at, too.
func TestBehind(t *testing.T) {
	d := newDriver(t)
	d.script(begun)
	d.catchesUp()
	d.script("run 1 3 at 0; begins 3@0; run 2 3 at 1; begins 3@1; run 3 3 at 2")
	d.catchesUp() // its slots are taken, but not its loop
	d.script("block retract; create 4; drop 4 dropped; reached")
	first := d.w.Behind()
	time.Sleep(time.Millisecond)
	if d.w.Behind() <= first {
		t.Errorf("it is at a command, and behind by %v", first)
	}
	d.script("unblock\n> frontier -F4 +F5 4=dropped\nend 3@0\n> done 1: 0 ok\nend 3@1\n> done 2: 1 ok\nend 3@2\n> done 3: 2 ok")
}

// catchesUp waits until the worker is not behind.
func (d *driver) catchesUp() {
	d.Helper()
	for began := time.Now(); d.w.Behind() > 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			d.Fatalf("it is behind by %v", d.w.Behind())
		}
	}
}

// TestStashIsBounded: what comes too early, and is too much, is answered at once;
// then nothing of it is left.
func TestStashIsBounded(t *testing.T) {
	d := newDriver(t)
	d.script("hello s1; complete")
	for n := range maxStash {
		d.send(RunJobs{Command: uint64(n + 1), Dataflow: uint64(5 + n%7), Jobs: jobsAt(0)})
	}
	d.script("> nothing\nrun 5000 8 at 0\n> done 5000: 0 unbegun")
	if d.w.stashSize != maxStash {
		t.Errorf("%d are kept", d.w.stashSize)
	}
	d.send(CreateDataflow{d.dataflow(20)})
	want := map[string]bool{}
	for n := range maxStash {
		want[fmt.Sprintf("done %d: 0 unbegun", n+1)] = true
	}
	for _, text := range d.heard[:maxStash] {
		delete(want, text)
	}
	if len(want) > 0 || d.heard[maxStash] != "frontier -F1 +F21 +I20" {
		t.Errorf("%d have no answer; heard last %q", len(want), d.heard[maxStash])
	}
	d.heard = nil
	d.close(patience)
	if d.w.stashSize != 0 || len(d.w.stash) != 0 || d.w.stashed != maxStash {
		t.Errorf("%d are left of %d", d.w.stashSize, d.w.stashed)
	}
}

// TestReplacement: an incarnation goes on with what it holds, under the same ids,
// and gives up what nobody names.
func TestReplacement(t *testing.T) {
	again := func(c *Config) { c.Incarnation, c.Next, c.Holds = 1, 8, []uint64{2, 3, 5, 7} }
	d := newDriver(t, again)
	d.script(`
		run 1 3 at 0; run 2 5 at 0; run 3 4 at 0
		> done 3: 0 unbegun
		hello s1; create 2; create 3; schedule 2; schedule 3; create 7; drop 2 completed; drop 7 dropped; complete
		> done 2: 0 unbegun
		> frontier -I2 -I5 -I7 2=completed 5=dropped 7=dropped
		end 3@0
		> done 1: 0 ok
		create 8; schedule 8
		> frontier -F8 +F9 +I8
		drop 3 completed; drop 8 completed
		> frontier -I3 -I8 3=completed 8=completed`)
	d.close(patience)
	if len(d.w.holds) > 0 || len(d.w.installed) > 0 {
		t.Errorf("holds %v, installed %v", d.w.holds, d.w.installed)
	}
	newDriver(t, again).script(`
		hello s1; complete
		> frontier -I2 -I3 -I5 -I7 2=dropped 3=dropped 5=dropped 7=dropped
		create 7
		> refused: CreateDataflow of 7…`)
}
