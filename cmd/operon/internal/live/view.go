package live

import (
	"io"
	"time"

	"operon/cmd/operon/internal/term"
	"operon/engine"
)

// Mode is how a run is shown.
type Mode string

const (
	ModeLive  Mode = "live"  // a picture that is drawn over: for terminals
	ModePlain Mode = "plain" // lines
	ModeJSON  Mode = "json"  // an event a line
	ModeQuiet Mode = "quiet" // nothing
)

const (
	frame    = 100 * time.Millisecond // between two pictures
	reminder = 10 * time.Second       // between two plain lines of a task that moves
	backlog  = 4096                   // events that wait for the view
	toldEach = 5                      // failures and retries of one task that are shown one by one
)

// Options are what a View is made of.
type Options struct {
	Mode  Mode
	Out   io.Writer
	Facts term.Facts
	Size  func() (columns, rows int) // of the terminal, ModeLive
	Start time.Time                  // of the run
	Tasks []string                   // all tasks, in the order in which they are shown
}

// View shows a run as it goes on. It is also the writer for everything else
// that is written to the same stream meanwhile.
type View struct {
	o      Options
	screen *screen
	events chan engine.Event
	ended  chan struct{}
}

// New starts showing. Close has to be called.
func New(o Options) *View {
	v := &View{o: o, screen: &screen{out: o.Out}, events: make(chan engine.Event, backlog), ended: make(chan struct{})}
	go func() {
		defer close(v.ended)
		v.show()
	}()
	return v
}

// Event is for engine.Options.Events. It must not be called after Close.
func (v *View) Event(e engine.Event) { v.events <- e }

// Write writes lines without disturbing the picture.
func (v *View) Write(p []byte) (int, error) { return v.screen.Write(p) }

// Close shows what has been heard, and ends.
func (v *View) Close() {
	close(v.events)
	<-v.ended
}

// show hears events until they end, and draws now and then: a terminal more
// often than a person sees, a log as seldom as tells enough.
func (v *View) show() {
	m := newModel(v.o.Start, v.o.Tasks)
	d := v.drawer(m)
	tick := time.NewTicker(frame)
	defer tick.Stop()
	for {
		select {
		case e, ok := <-v.events:
			if !ok {
				d.end(time.Now())
				return
			}
			d.event(e, m.apply(e))
		case now := <-tick.C:
			d.tick(now)
		}
	}
}

// drawer is what a mode makes of the model.
type drawer interface {
	event(e engine.Event, t *task) // an event was folded in; t is the task it is about, or nil
	tick(now time.Time)
	end(now time.Time)
}

func (v *View) drawer(m *model) drawer {
	switch v.o.Mode {
	case ModeLive:
		return &terminal{v: v, m: m}
	case ModePlain:
		return &plain{out: v, m: m, said: map[*task]saying{}}
	case ModeJSON:
		return jsonLines{v}
	}
	return nothing{}
}

type nothing struct{}

func (nothing) event(engine.Event, *task) {}
func (nothing) tick(time.Time)            {}
func (nothing) end(time.Time)             {}

// terminal draws the picture, and lets what happened scroll by above it.
type terminal struct {
	v *View
	m *model
}

func (d *terminal) event(e engine.Event, t *task) {
	if line := happened(e, t); line != "" {
		io.WriteString(d.v, line+"\n")
	}
}

func (d *terminal) tick(now time.Time) {
	if !d.m.heard {
		return // the run may not even begin
	}
	columns, rows := d.v.o.Size()
	d.v.screen.draw(d.m.picture(now, d.v.o.Facts, columns, rows))
}

func (d *terminal) end(now time.Time) {
	d.tick(now)
	d.v.screen.leave()
}
