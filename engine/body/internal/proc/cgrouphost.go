package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// host is where control groups are looked for: the machine, or a folder that
// stands for it.
type host struct {
	root         string // folder; "/" is the machine
	pid          int    // this program
	start        uint64 // ticks since boot
	mkdir, rmdir func(dir string) error
	statusOf     func(pid int) (status, bool)
}

func thisHost() (*host, error) {
	pid := os.Getpid()
	st, ok := statusOf(pid)
	if !ok {
		return nil, errors.New("this program's start time can't be read")
	}
	return &host{
		root: "/", pid: pid, start: st.start, statusOf: statusOf,
		mkdir: func(dir string) error { return os.Mkdir(dir, 0o755) },
		rmdir: func(dir string) error { // os.Remove would try to unlink first
			if err := unix.Rmdir(dir); err != nil {
				return &os.PathError{Op: "rmdir", Path: dir, Err: err}
			}
			return nil
		},
	}, nil
}

// place is the control group that this program is in.
type place struct {
	dir  string // folder
	path string // as /proc/self/cgroup tells it
	root bool   // it is the root of all groups, for which not all rules hold
}

// place finds this program's group, and whether groups of jobs may be made there:
// the error says why not.
func (h *host) place() (place, error) {
	p, err := h.find()
	if err != nil {
		return p, err
	}
	if !hasWord(p.dir, "cgroup.controllers", memoryController) {
		return p, fmt.Errorf("control group %s has no memory controller", p.path)
	}
	kind, err := os.ReadFile(filepath.Join(p.dir, "cgroup.type"))
	p.root = errors.Is(err, os.ErrNotExist)
	if !p.root && strings.TrimSpace(string(kind)) != "domain" {
		return p, fmt.Errorf("control group %s is of the type %q", p.path, strings.TrimSpace(string(kind)))
	}
	if err := h.delegated(p); err != nil {
		return p, err
	}
	for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
		if err := unix.Access(filepath.Join(p.dir, name), unix.W_OK); err != nil {
			return p, fmt.Errorf("control group %s may not be written to: %w", p.path, err)
		}
	}
	if p.root {
		return p, nil
	}
	return p, h.alone(p)
}

// alone is nil if there is no other process in the group. Those of other process
// namespaces are listed as 0.
func (h *host) alone(p place) error {
	raw, err := os.ReadFile(filepath.Join(p.dir, "cgroup.procs"))
	if err != nil {
		return fmt.Errorf("list control group %s: %w", p.path, err)
	}
	for pid := range strings.FieldsSeq(string(raw)) {
		if pid != strconv.Itoa(h.pid) {
			return fmt.Errorf("there are other processes in control group %s", p.path)
		}
	}
	return nil
}

// delegated is nil unless there is a systemd that did not hand the group over. It
// would take what happens in there for its own: a job that runs out of memory
// would have it stop this program (OOMPolicy), too.
func (h *host) delegated(p place) error {
	if _, err := os.Stat(filepath.Join(h.root, "run/systemd/system")); err != nil {
		return nil
	}
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		var value [8]byte
		n, err := unix.Getxattr(p.dir, name, value[:])
		if err == nil && string(value[:n]) == "1" {
			return nil
		}
	}
	return fmt.Errorf("systemd has not handed over control group %s (Delegate=yes)", p.path)
}

// find finds the group in what is mounted.
func (h *host) find() (place, error) {
	groups, err := os.ReadFile(filepath.Join(h.root, "proc/self/cgroup"))
	if err != nil {
		return place{}, fmt.Errorf("find control group: %w", err)
	}
	path, ok := groupPath(string(groups))
	if !ok {
		return place{}, errors.New("there are no control groups of version 2")
	}
	mounts, err := os.ReadFile(filepath.Join(h.root, "proc/self/mountinfo"))
	if err != nil {
		return place{}, fmt.Errorf("find control group: %w", err)
	}
	dir, ok := groupFolder(string(mounts), path)
	if !ok {
		return place{}, fmt.Errorf("control group %s is mounted nowhere", path)
	}
	return place{dir: filepath.Join(h.root, dir), path: path}, nil
}

// moveTo moves this program, with all its threads, to a group.
func (h *host) moveTo(dir string) error {
	return writeControl(dir, "cgroup.procs", strconv.Itoa(h.pid))
}

// groupPath is the path of a process's group of version 2, given what
// /proc/<pid>/cgroup says.
func groupPath(groups string) (string, bool) {
	for line := range strings.Lines(groups) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSuffix(path, "\n"), true
		}
	}
	return "", false
}

// groupFolder is where a group is to be found, given what /proc/self/mountinfo
// says.
func groupFolder(mounts, path string) (string, bool) {
	for line := range strings.Lines(mounts) {
		first, second, ok := strings.Cut(line, " - ")
		what, where := strings.Fields(first), strings.Fields(second)
		if !ok || len(what) < 5 || len(where) < 1 || where[0] != "cgroup2" {
			continue
		}
		root, point := unescapeMount(what[3]), unescapeMount(what[4])
		if rest, ok := below(path, root); ok {
			return filepath.Join(point, rest), true
		}
	}
	return "", false
}

// below is what is left of a path below root.
func below(path, root string) (string, bool) {
	root = strings.TrimSuffix(root, "/")
	rest, ok := strings.CutPrefix(path, root)
	if !ok || rest != "" && rest[0] != '/' || strings.HasPrefix(rest, "/..") {
		return "", false
	}
	return rest, true
}

// unescapeMount undoes \040 and its like.
func unescapeMount(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}
