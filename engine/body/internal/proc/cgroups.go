package proc

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Groups is where this program makes a control group (version 2) for each
// program with a limit on its memory:
//
//	<home>                     the group that this program was started in
//	  operon-<pid>-<start>     named by this program's id and start time
//	    engine                 this program, unless home is the root of all groups
//	    job-<token>-<n>        one program with all that it starts
//
// A group other than the root can't hand a controller on to its children while
// there are processes in it. So this program moves into a group below, if it is
// alone in its own, and back at the end. No other process is ever moved.
type Groups struct {
	host  *host
	home  string // folder of the group that this program was started in
	own   string // folder of the group that is this program's
	path  string // of own, as /proc/<pid>/cgroup tells it
	moved bool   // this program is in own/engine

	log    *slog.Logger
	told   atomic.Bool // that a program could not be started in a group
	serial atomic.Uint64

	mu   sync.Mutex
	left []string // folders of groups that could not be removed when they were over
}

const (
	memoryController = "memory"
	ownPrefix        = "operon-" // of a program's own group
	jobPrefix        = "job-"
	engineGroup      = "engine"
)

// shared are the groups of this process: like its place in a group, they are
// there once, whoever uses them.
var shared struct {
	mu     sync.Mutex
	users  int
	groups *Groups
}

// OpenGroups makes this program's group, if there is none yet, and removes those
// of dead ones. The error says why programs can't have groups here. log hears
// when there is one that can't be had later on. Close must be called once for
// every OpenGroups that went well.
func OpenGroups(log *slog.Logger) (*Groups, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.users == 0 {
		h, err := thisHost()
		if err != nil {
			return nil, err
		}
		if shared.groups, err = h.open(log); err != nil {
			return nil, err
		}
	}
	shared.users++
	return shared.groups, nil
}

// Close gives the groups up. Whoever is the last moves this program back to where
// it was and removes its group. No program may be running in one any more.
func (g *Groups) Close() {
	if g == nil {
		return
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.users--; shared.users == 0 {
		shared.groups = nil
		g.leave()
	}
}

// open makes this program's group below the one that it is in.
func (h *host) open(log *slog.Logger) (*Groups, error) {
	p, err := h.place()
	if err != nil {
		return nil, err
	}
	h.removeStale(p.dir)
	name := ownPrefix + strconv.Itoa(h.pid) + "-" + strconv.FormatUint(h.start, 10)
	g := &Groups{host: h, home: p.dir, own: filepath.Join(p.dir, name), path: strings.TrimSuffix(p.path, "/") + "/" + name, log: log}
	if err := h.mkdir(g.own); err != nil {
		return nil, fmt.Errorf("make control group: %w", err)
	}
	if err := g.enable(p); err != nil {
		g.leave()
		return nil, err
	}
	return g, nil
}

// enable hands the memory controller on to the groups of jobs.
func (g *Groups) enable(p place) error {
	if !p.root {
		leaf := filepath.Join(g.own, engineGroup)
		if err := g.host.mkdir(leaf); err != nil {
			return fmt.Errorf("make control group: %w", err)
		}
		if err := g.host.moveTo(leaf); err != nil {
			return err
		}
		g.moved = true
	}
	for _, dir := range []string{g.home, g.own} {
		if hasWord(dir, "cgroup.subtree_control", memoryController) {
			continue
		}
		// Where a process came into home meanwhile, this is what fails.
		if err := writeControl(dir, "cgroup.subtree_control", "+"+memoryController); err != nil {
			return err
		}
	}
	return nil
}

// leave undoes open and enable. At the root the controller stays handed on: others
// may have come to rely on it, and without limits it changes nothing.
func (g *Groups) leave() {
	for _, dir := range g.left {
		_ = g.host.remove(dir) // still busy: a later engine removes it
	}
	_ = writeControl(g.own, "cgroup.subtree_control", "-"+memoryController)
	if g.moved {
		_ = writeControl(g.home, "cgroup.subtree_control", "-"+memoryController)
		if err := g.host.moveTo(g.home); err != nil {
			g.tell(err)
		}
	}
	if err := g.host.remove(g.own); err != nil {
		g.tell(err)
	}
}

// removeStale removes the groups of engines that are gone, as far as nothing runs
// in them: what does is for whoever holds the state directory to end. Groups do
// not outlive the machine's boot, so id and start time are all that is needed.
func (h *host) removeStale(home string) {
	for _, name := range subgroups(home) {
		pid, start, ok := parseOwn(name)
		if !ok || pid == h.pid && start == h.start {
			continue
		}
		if st, alive := h.statusOf(pid); alive && st.start == start {
			continue
		}
		_ = h.remove(filepath.Join(home, name))
	}
}

// parseOwn reads the name of a program's own group.
func parseOwn(name string) (pid int, start uint64, ok bool) {
	rest, ok := strings.CutPrefix(name, ownPrefix)
	if !ok {
		return 0, 0, false
	}
	first, second, _ := strings.Cut(rest, "-")
	pid, err1 := strconv.Atoi(first)
	start, err2 := strconv.ParseUint(second, 10, 64)
	return pid, start, err1 == nil && err2 == nil && pid > 0
}

// remove removes a group and those in it. One in which processes are is an error,
// and stays.
func (h *host) remove(dir string) error {
	err := h.rmdir(dir)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, name := range subgroups(dir) {
		_ = h.remove(filepath.Join(dir, name)) // then dir can't be removed either
	}
	if err := h.rmdir(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove control group: %w", err)
	}
	return nil
}

func subgroups(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

func (g *Groups) tell(err error) {
	if g.log != nil {
		g.log.Debug("a control group is not as it should be", "err", err)
	}
}

// tellOnce tells of the first program that could not be started in a group.
func (g *Groups) tellOnce(err error) {
	if !g.told.Swap(true) {
		g.tell(err)
	}
}

// setAside keeps a group that can't be removed yet, and tries those that are kept.
func (g *Groups) setAside(dir string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.left
	g.left = []string{dir}
	for _, dir := range old {
		if g.host.remove(dir) != nil {
			g.left = append(g.left, dir)
		}
	}
}

// writeControl writes to one of a group's files.
func writeControl(dir, name, text string) error {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("set %s of control group: %w", name, err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("set %s of control group to %q: %w", name, text, err)
	}
	return nil
}

// hasWord reports whether a group's file lists a word.
func hasWord(dir, name, word string) bool {
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return false
	}
	for w := range strings.FieldsSeq(string(raw)) {
		if w == word {
			return true
		}
	}
	return false
}
