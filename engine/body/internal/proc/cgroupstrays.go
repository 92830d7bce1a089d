package proc

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// endGrouped ends what is in the control groups that were made for programs with
// such a token, and removes the groups of dead engines. It finds what has neither
// its token nor its process group any more.
func endGrouped(ctx context.Context, prefix string) ([]Stray, error) {
	h, err := thisHost()
	if err != nil {
		return nil, err
	}
	home, ok := h.home()
	if !ok {
		return nil, nil
	}
	var ended []Stray
	for _, dir := range jobGroups(home.dir, prefix) {
		rest, _ := below(dir, home.dir)
		j := &group{dir: dir, path: strings.TrimSuffix(home.path, "/") + rest, fd: -1}
		s, err := j.end(ctx)
		ended = append(ended, s...)
		if err != nil {
			return ended, err
		}
	}
	h.removeStale(home.dir)
	return ended, nil
}

// home is the group that this program was started in.
func (h *host) home() (place, bool) {
	p, err := h.find()
	if err != nil {
		return place{}, false // there are no groups
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if g := shared.groups; g != nil && g.moved {
		up := filepath.Dir(filepath.Dir(p.path))
		return place{dir: g.home, path: up}, true
	}
	return p, true
}

// jobGroups are the folders of the groups, of any engine that had the same home,
// for programs whose token begins with prefix.
func jobGroups(home, prefix string) []string {
	var dirs []string
	for _, engine := range subgroups(home) {
		if _, _, ok := parseOwn(engine); !ok {
			continue
		}
		for _, job := range subgroups(filepath.Join(home, engine)) {
			if strings.HasPrefix(job, jobPrefix+fileName(prefix)) {
				dirs = append(dirs, filepath.Join(home, engine, job))
			}
		}
	}
	return dirs
}

// end kills what is in the group and waits for its end.
func (j *group) end(ctx context.Context) ([]Stray, error) {
	var ended []Stray
	for range maxSweeps {
		raw, err := os.ReadFile(filepath.Join(j.dir, "cgroup.procs"))
		if err != nil || len(raw) == 0 {
			return ended, nil // removed, or empty
		}
		for word := range strings.FieldsSeq(string(raw)) {
			pid, err := strconv.Atoi(word)
			if err != nil || pid <= 1 {
				continue // of another process namespace
			}
			s, err := endProcess(ctx, pid, false, func() bool { return j.holds(pid) })
			ended = append(ended, s...)
			if err != nil {
				return ended, err
			}
		}
		j.kill()
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil) // the loop looks for itself
	}
	return ended, errStillForking
}
