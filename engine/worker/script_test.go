package worker

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"operon/engine/body"
	"operon/engine/frontier"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// driver is who commands one worker in a test, in lines of text, and holds all
// that it hears against what the protocol promises: batches of changes that
// follow from each other, one answer a command, nothing after Died.
//
// A line that begins with > is what is heard next; the others are
//
//	hello SESSION | instance N | complete | create ID [as KIND] [fp TEXT]
//	configure ID … | schedule ID | drop ID OUTCOME
//	run COMMAND ID at INDEX… | cancel ID [COMMAND] | peek NAME ID at INDEX | unpeek NAME
//	begins JOB | end JOB | fail JOB      a JOB is ID@INDEX
//	block POINT | reached | unblock | panic POINT | fence WHY
//	hold | pass | unhold                 processes that are closed wait | those to come do not | none does
//	closing N                            waits until N were closed since hold
//
// A dataflow is of KIND plain, process (it keeps processes) or broken (it can't
// be built).
type driver struct {
	testing.TB
	*bodies
	w         *Worker
	cfg       Config
	store     *storage.Store
	responses chan Response
	task      *spec.TaskSpec
	shut      sync.Once
	closed    error // what Close said

	view  *frontier.View
	seq   uint64
	heard []string             // and not yet expected
	batch frontier.ChangeBatch // of the last of these, if that is frontiers
	owed  map[uint64]int       // jobs that are to be answered, by command
	parts map[uint64]string    // what was heard of a command that goes on
	died  bool
	pings uint64
	async bool // the loop may be blocked: nobody waits for it

	fault faults
}

// faults is what happens at the points of Config.Fault.
type faults struct {
	mu      sync.Mutex
	block   string
	panics  string
	count   func(point string) bool // whether to panic now; nil: no
	blocked chan struct{}           // gets a token when somebody is blocked
	free    chan struct{}
}

func (f *faults) at(point string) {
	f.mu.Lock()
	block, panics := f.block == point, f.panics == point
	if f.count != nil && f.count(point) {
		panics = true
	}
	if block {
		f.block = ""
	}
	if panics {
		f.panics = ""
	}
	f.mu.Unlock()
	if block {
		f.blocked <- struct{}{}
		<-f.free
	}
	if panics {
		panic("as the test says")
	}
}

// newDriver starts a worker with two slots, for which id 0 is passed.
func newDriver(t testing.TB, change ...func(*Config)) *driver {
	t.Helper()
	d := &driver{
		TB: t, bodies: newBodies(t), task: testTask(t), responses: make(chan Response, 16), owed: map[uint64]int{}, parts: map[uint64]string{},
		fault: faults{blocked: make(chan struct{}, 1), free: make(chan struct{})},
	}
	dir := t.TempDir()
	var err error
	if d.store, err = storage.Open(filepath.Join(dir, "state"), storage.Options{}); err != nil {
		t.Fatal(err)
	}
	d.cfg = Config{
		Slots: 2, Next: 1, Store: d.store, Logs: filepath.Join(dir, "logs"), Dir: dir, Scratch: filepath.Join(dir, "scratch"),
		Token: "test", RunID: "run", Fault: d.fault.at,
	}
	for _, c := range change {
		c(&d.cfg)
	}
	d.view = frontier.NewViewAt(1, d.cfg.Next)
	if d.cfg.Incarnation > 0 {
		d.view = frontier.NewViewAt(1, min(d.cfg.Next, slices.Min(append(d.cfg.Holds, d.cfg.Next))))
		if err := d.view.Replace(0, d.cfg.Incarnation, d.cfg.Next, d.cfg.Holds); err != nil {
			t.Fatal(err)
		}
	}
	if d.w, err = New(context.Background(), d.cfg, d.responses); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			d.w.Kill() // what it waits for may never come
		}
		d.close(patience)
		if err := d.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// testTask is a task with one dimension and no inputs.
func testTask(t testing.TB) *spec.TaskSpec {
	t.Helper()
	p, err := spec.Load([]byte("pipeline: p\ntasks:\n  split: {out: Item<i>, exec: [split]}\n  work: {in: Item, for: i, out: Done, exec: [work]}\n"), spec.Options{File: "p.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	task := *p.Task("work")
	task.In = nil
	return &task
}

// close lets the worker end, and looks whether it owes anything.
func (d *driver) close(patience time.Duration) {
	const limit = 2 * time.Minute
	d.Helper()
	d.shut.Do(func() {
		done := make(chan error, 1)
		go func() { done <- d.w.Close(patience) }()
		timer := time.NewTimer(limit)
		defer timer.Stop()
		for waiting := true; waiting; {
			select {
			case r := <-d.responses:
				d.hear(r)
			case d.closed = <-done:
				waiting = false
			case <-timer.C:
				d.Errorf("the worker does not close")
				return
			}
		}
		for len(d.responses) > 0 {
			d.hear(<-d.responses)
		}
		if d.died || d.closed != nil {
			return
		}
		for command, jobs := range d.owed {
			d.Errorf("%d jobs of command %d have no answer", jobs, command)
		}
	})
}

// script carries out lines, separated by line ends or semicolons.
func (d *driver) script(text string) *driver {
	d.Helper()
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ';' }) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if want, ok := strings.CutPrefix(line, ">"); ok {
			d.expect(strings.TrimSpace(want))
		} else {
			d.do(line, strings.Fields(line))
		}
		if d.Failed() {
			d.Fatalf("at %q; heard and not expected: %q", line, d.heard)
		}
	}
	return d
}

func (d *driver) do(line string, f []string) {
	d.Helper()
	switch f[0] {
	case "begins":
		d.begins(f[1])
	case "end":
		d.end(f[1], nil)
	case "fail":
		d.end(f[1], &body.Failure{Kind: body.KindExit, Exit: 1, Message: "exit status 1"})
	case "block":
		d.fault.mu.Lock()
		d.fault.block, d.async = f[1], true
		d.fault.mu.Unlock()
	case "panic":
		d.fault.mu.Lock()
		d.fault.panics, d.async = f[1], true
		d.fault.mu.Unlock()
	case "reached":
		select {
		case <-d.fault.blocked:
		case <-time.After(patience):
			d.Fatal("nobody comes to the point that is blocked")
		}
	case "unblock":
		d.fault.free <- struct{}{}
		d.async = false
		d.sync()
	case "fence":
		d.async = true
		d.w.Fence(fmt.Errorf("%s", strings.TrimPrefix(line, "fence ")))
	case "hold":
		d.bodies.mu.Lock()
		d.hold, d.waiting = make(chan struct{}), 0
		d.bodies.mu.Unlock()
	case "closing":
		d.until("processes are closed", func() bool { return d.waiting == atoi(d, f[1]) })
	case "pass":
		d.bodies.mu.Lock()
		d.held, d.hold = d.hold, nil
		d.bodies.mu.Unlock()
	case "unhold":
		d.bodies.mu.Lock()
		if d.hold == nil {
			d.hold = d.held
		}
		close(d.hold)
		d.hold = nil
		d.bodies.mu.Unlock()
	default:
		d.send(d.command(f))
	}
}

// send sends commands, and waits until they are carried out.
func (d *driver) send(commands ...Command) {
	d.Helper()
	for _, c := range commands {
		if run, ok := c.(RunJobs); ok {
			d.owed[run.Command] = len(run.Jobs)
		}
		d.w.Send(c)
	}
	d.sync()
}

func atoi(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// command reads a command.
func (d *driver) command(f []string) Command {
	d.Helper()
	id := func(n int) uint64 { return uint64(atoi(d, f[n])) }
	switch f[0] {
	case "hello":
		return Hello{f[1]}
	case "instance":
		return CreateInstance{InstanceConfig{Format: atoi(d, f[1])}}
	case "complete":
		return InitializationComplete{}
	case "create":
		return CreateDataflow{d.dataflow(id(1), f[2:]...)}
	case "configure":
		return UpdateConfiguration{d.dataflow(id(1), f[2:]...)}
	case "schedule":
		return Schedule{id(1)}
	case "drop":
		outcome := map[string]frontier.Outcome{"completed": frontier.Completed, "failed": frontier.Failed, "dropped": frontier.Dropped}
		return AllowCompaction{id(1), outcome[f[2]]}
	case "run":
		var at []uint32
		for n := range f[4:] {
			at = append(at, uint32(id(4+n)))
		}
		return RunJobs{Command: id(1), Dataflow: id(2), Jobs: jobsAt(at...)}
	case "cancel":
		c := CancelJobs{Dataflow: id(1)}
		if len(f) > 2 {
			c.Command = id(2)
		}
		return c
	case "peek":
		return Peek{ID: f[1], Dataflow: id(2), At: coord.Of(uint32(id(4)))}
	case "unpeek":
		return CancelPeek{f[1]}
	}
	d.Fatalf("no command: %q", f)
	return nil
}

func jobsAt(at ...uint32) (jobs []Job) {
	for _, i := range at {
		jobs = append(jobs, Job{Coord: coord.Of(i), Attempt: 1})
	}
	return jobs
}

// dataflow is an instance of the task.
func (d *driver) dataflow(id uint64, options ...string) *Dataflow {
	d.Helper()
	task := *d.task
	df := &Dataflow{ID: id, Task: &task, Runner: plain{d.bodies, id}}
	for n := 0; n < len(options); n += 2 {
		switch text := options[n+1]; options[n] {
		case "fp":
			task.Fingerprint = value.Digest{text[0]}
		case "as":
			switch text {
			case "process":
				df.Runner = &process{plain: plain{d.bodies, id}}
			case "broken":
				df.Runner = nil
			case "memo":
				df.Memo = NewMemo(nil)
			}
		}
	}
	b := &storage.Batch{}
	b.PutHeader(storage.Header{ID: id, Task: task.Name, Entity: "Done", Dims: []string{"i"}, State: storage.Current})
	d.store.Submit(b)
	return df
}

// pingID is the first number of the commands that only find out how far the
// worker is: they are about a dataflow that is over, and so answered at once.
const pingID = 1 << 40

// sync waits until the worker has done as it was told, and said what follows.
func (d *driver) sync() {
	d.Helper()
	if d.async || d.died {
		return
	}
	d.pings++
	d.w.Send(RunJobs{Command: pingID + d.pings, Dataflow: 0, Jobs: []Job{{}}})
	for last := uint64(0); last != pingID+d.pings && !d.died; {
		select {
		case r := <-d.responses:
			if last = d.hear(r); last < pingID {
				last = 0
			}
		case <-time.After(patience):
			d.Fatal("the worker does not answer")
		}
	}
}

// expect waits for what is heard next. "nothing" is that nothing was.
func (d *driver) expect(want string) {
	d.Helper()
	if want == "nothing" {
		d.sync()
		if len(d.heard) > 0 {
			d.Errorf("heard %q", d.heard)
		}
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		if len(d.heard) > 0 && matches(d.heard[0], want) {
			d.heard = d.heard[1:]
			return
		}
		// What comes may belong to it: changes of the frontier add up.
		wait := timer.C
		if len(d.heard) > 0 && (!strings.HasPrefix(d.heard[0], "frontier") || len(d.heard) > 1) {
			d.Errorf("heard %q, want %q", d.heard[0], want)
			return
		}
		select {
		case r := <-d.responses:
			d.hear(r)
		case <-wait:
			d.Errorf("heard %q, want %q", d.heard, want)
			return
		}
	}
}

// matches: … in an expectation stands for anything.
func matches(heard, want string) bool {
	pieces := strings.Split(want, "…")
	if len(pieces) == 1 {
		return heard == want
	}
	rest, ok := strings.CutPrefix(heard, pieces[0])
	for _, piece := range pieces[1:] {
		at := strings.Index(rest, piece)
		if !ok || at < 0 {
			return false
		}
		rest = rest[at+len(piece):]
	}
	return ok
}

// hear takes in a response. It returns the command whose last answer it is, if
// any.
func (d *driver) hear(r Response) (command uint64) {
	d.Helper()
	if d.died {
		d.Errorf("heard %+v of a worker that has died", r.Body)
	}
	if r.Worker != d.cfg.Index || r.Incarnation != d.cfg.Incarnation {
		d.Errorf("heard of worker %d, incarnation %d", r.Worker, r.Incarnation)
	}
	switch a := r.Body.(type) {
	case JobsDone:
		return d.hearDone(a)
	case Frontiers:
		d.hearFrontiers(a)
	case PeekResponse:
		d.note("peek " + a.ID + ": " + peekText(a))
	case Status:
		d.note(fmt.Sprintf("refused: %v", a.Refused))
	case Died:
		d.died = true
		d.note("died: " + a.Err.Error())
	}
	return 0
}

func (d *driver) note(text string) {
	d.heard = append(d.heard, text)
	d.batch = frontier.ChangeBatch{}
}

func (d *driver) hearDone(a JobsDone) (command uint64) {
	d.Helper()
	if !a.More {
		command = a.Command
	}
	if a.Command >= pingID {
		return command
	}
	var b strings.Builder
	b.WriteString(d.parts[a.Command])
	stored := &storage.Batch{}
	for i := range a.Results {
		r := &a.Results[i]
		fmt.Fprintf(&b, " %d %s", r.Job.Coord.At(0), resultText(r))
		if r.Output != nil {
			stored.PutRecord(a.Dataflow, r.Record, r.Output)
		}
	}
	d.store.Submit(stored)
	left, owed := d.owed[a.Command]
	if left -= len(a.Results); !owed || left < 0 || left > 0 && !a.More {
		d.Errorf("command %d, %s: %d jobs are left; it is owed an answer: %v", a.Command, b.String(), left, owed)
	}
	d.owed[a.Command] = left
	if !a.More {
		delete(d.owed, a.Command)
		delete(d.parts, a.Command)
		d.note(fmt.Sprintf("done %d:%s", a.Command, b.String()))
		return command
	}
	d.parts[a.Command] = b.String()
	return 0
}

func resultText(r *Result) string {
	switch {
	case r.Reused:
		return "reused"
	case r.Output != nil:
		return "ok"
	case r.Waits:
		return "waits"
	case r.Failure != nil:
		return string(r.Failure.Kind)
	case r.Err != nil:
		return "error"
	}
	return "unbegun"
}

func peekText(a PeekResponse) string {
	switch {
	case a.Cancelled:
		return "cancelled"
	case a.Err != nil:
		return a.Err.Error()
	}
	var out []string
	for _, v := range a.Values {
		out = append(out, string(v.AppendJSON(nil)))
	}
	return strings.Join(out, " ")
}

// hearFrontiers takes in changes; those that follow each other add up, so that a
// script does not depend on how they were cut.
func (d *driver) hearFrontiers(a Frontiers) {
	d.Helper()
	if a.Seq != d.seq {
		d.Errorf("batch %d follows %d", a.Seq, d.seq)
	}
	d.seq++
	if err := d.view.ApplyFrom(d.cfg.Index, d.cfg.Incarnation, a.Seq, a.Batch); err != nil {
		d.Error(err)
	}
	if a.Batch.IsEmpty() && a.Reason == nil && !hasOutcome(a.Batch) {
		return // only how far it is
	}
	if n := len(d.heard); n > 0 && strings.HasPrefix(d.heard[n-1], "frontier") {
		d.heard = d.heard[:n-1]
	} else {
		d.batch = frontier.ChangeBatch{}
	}
	d.batch.Merge(a.Batch)
	d.heard = append(d.heard, "frontier "+batchText(d.batch))
	if a.Reason != nil {
		d.note("reason: " + a.Reason.Error())
	}
}

func hasOutcome(b frontier.ChangeBatch) bool {
	for range b.Outcomes() {
		return true
	}
	return false
}

// batchText is a batch as scripts write it: F for Future, I for Installed.
func batchText(b frontier.ChangeBatch) string {
	var out []string
	for t, delta := range b.All() {
		out = append(out, fmt.Sprintf("%+d%v", delta, t))
	}
	text := strings.NewReplacer("+1", "+", "-1", "-", "Future(", "F", "Installed(", "I", ")", "").Replace(strings.Join(out, " "))
	ends := maps.Collect(b.Outcomes())
	for _, id := range slices.Sorted(maps.Keys(ends)) {
		text += fmt.Sprintf(" %d=%v", id, ends[id])
	}
	return strings.TrimSpace(text)
}
