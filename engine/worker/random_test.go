package worker

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"operon/engine/frontier"
	"operon/spec/coord"
)

// TestRandomCommands sends workers whatever comes to mind, some of it wrong, and lets
// some of them panic or be fenced: what the driver holds against all that it hears is
// true of every conversation.
func TestRandomCommands(t *testing.T) {
	n := 60
	if long() {
		n = 2000
	}
	commands, deaths := 0, 0
	for seed := range uint64(n) {
		c := &chatter{driver: newDriver(t), rng: rand.New(rand.NewPCG(seed, 3))}
		c.auto = c.rng.IntN(2) == 0
		switch c.rng.IntN(4) {
		case 0:
			c.async = true // it may die at any time, and is not waited for
			var calls, at = 0, 1 + c.rng.IntN(60)
			c.fault.count = func(string) bool { calls++; return calls == at }
		case 1:
			c.fenceAt = 1 + c.rng.IntN(60)
		}
		for range 60 {
			c.step()
		}
		c.finish()
		if commands += int(c.sent); c.died {
			deaths++
		}
		if t.Failed() {
			t.Fatalf("seed %d; heard %q", seed, c.heard)
		}
	}
	t.Logf("%d conversations, %d commands, %d deaths", n, commands, deaths)
}

// chatter draws commands.
type chatter struct {
	*driver
	rng     *rand.Rand
	ids     uint64 // created
	names   int
	sent    uint64
	fenceAt int
}

func (c *chatter) tell(cmd Command) {
	c.sent++
	c.send(cmd)
}

func (c *chatter) id() uint64 { return uint64(c.rng.IntN(int(c.ids) + 4)) }

func (c *chatter) name() string {
	c.names++
	return fmt.Sprint("n", c.names)
}

func (c *chatter) create(id uint64) Command {
	kind := []string{"plain", "process", "process", "memo", "broken"}[c.rng.IntN(5)]
	return CreateDataflow{c.dataflow(id, "as", kind)}
}

func (c *chatter) step() {
	if c.fenceAt--; c.fenceAt == 0 {
		c.do("fence as drawn", []string{"fence"})
	}
	switch c.rng.IntN(14) {
	case 0, 1:
		c.ids += uint64(1 + c.rng.IntN(2))
		c.tell(c.create(c.ids))
	case 2, 3:
		c.tell(Schedule{c.id()})
	case 4:
		c.tell(AllowCompaction{c.id(), frontier.Outcome(1 + c.rng.IntN(3))})
	case 5, 6, 7:
		var at []uint32
		for range 1 + c.rng.IntN(3) {
			c.sent++ // so that no two run at one coordinate
			at = append(at, uint32(c.sent))
		}
		c.tell(RunJobs{Command: c.sent, Dataflow: c.id(), Jobs: jobsAt(at...)})
	case 8:
		c.tell(CancelJobs{Dataflow: c.id()})
	case 9:
		c.tell(Peek{ID: c.name(), Dataflow: c.id(), At: coord.Of(uint32(c.rng.IntN(int(c.sent) + 1)))})
	case 10:
		c.tell(CancelPeek{fmt.Sprint("n", c.names)})
	case 11:
		c.tell(UpdateConfiguration{c.dataflow(c.id(), "as", "process")})
	case 12:
		c.endOne()
	case 13:
		c.session()
	}
}

// session begins a session, which may name things that never were, and may break
// off.
func (c *chatter) session() {
	c.tell(Hello{c.name()})
	for id := range c.ids {
		if c.rng.IntN(3) > 0 {
			c.tell(c.create(id + 1))
		}
	}
	if c.rng.IntN(4) > 0 {
		c.tell(InitializationComplete{})
	}
}

// endOne lets one of the jobs end that run, if any does.
func (c *chatter) endOne() bool {
	c.bodies.mu.Lock()
	defer c.bodies.mu.Unlock()
	names := slices.Sorted(maps.Keys(c.running))
	if len(names) == 0 {
		return false
	}
	name := names[c.rng.IntN(len(names))]
	c.running[name] <- nil
	delete(c.running, name)
	return true
}

// finish lets all jobs end, and looks at what was said.
func (c *chatter) finish() {
	c.Helper()
	c.bodies.mu.Lock()
	c.auto = true
	c.bodies.mu.Unlock()
	for c.endOne() {
	}
	c.close(patience)
	c.w.loop.Wait()
	c.checkClosed()
	answered := map[string]bool{}
	for n, text := range c.heard {
		peek, ok := strings.CutPrefix(text, "peek ")
		if ok && answered[peek[:strings.Index(peek, ":")]] {
			c.Errorf("%s is a second answer", text)
		}
		if ok {
			answered[peek[:strings.Index(peek, ":")]] = true
		}
		if strings.HasPrefix(text, "died") && n < len(c.heard)-1 {
			c.Errorf("heard %q after it died", c.heard[n+1:])
		}
	}
	if c.died || c.Failed() {
		return
	}
	// What the view thinks the worker may schedule is what it has.
	live := c.view.Members()[0].Live
	if want := slices.Sorted(maps.Keys(c.w.installed)); !slices.Equal(live, want) {
		c.Errorf("the view has %v, the worker %v", live, want)
	}
}
