package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const tokenName = "OPERON_JOB="

// hasToken reports whether a process inherited OPERON_JOB=token, or one that
// begins with token if prefix is set.
func hasToken(pid int, token string, prefix bool) bool {
	found, ok := tokenOf(pid)
	if !ok {
		return false
	}
	if prefix {
		return bytes.HasPrefix(found, []byte(token))
	}
	return string(found) == token
}

// tokenOf is the value of OPERON_JOB in a process's environment.
func tokenOf(pid int) ([]byte, bool) {
	for entry := range bytes.SplitSeq(environOf(pid), []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(tokenName)); ok {
			return value, true
		}
	}
	return nil, false
}

// environOf reads a process's environment. In the middle of an exec the kernel
// shows none, and on a busy machine that may last: such a process is looked at
// again, until it has one or none for good.
func environOf(pid int) []byte {
	const again = 500
	path := fmt.Sprintf("/proc/%d/environ", pid)
	for range again {
		env, err := os.ReadFile(path)
		if err != nil || len(env) > 0 {
			return env
		}
		st, ok := statusOf(pid)
		if !ok || st.state == 'Z' || st.state == 'X' || st.hasEnviron || pid == kernelThreads || st.parent == kernelThreads {
			return nil
		}
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
	}
	return nil
}

// kernelThreads is the parent of all threads of the kernel.
const kernelThreads = 2

// status is what /proc tells of a process.
type status struct {
	state  byte
	parent int
	start  uint64 // ticks since boot
	// hasEnviron says that it has an environment, empty or not: no process that is
	// in the middle of an exec, dead or the kernel's own has.
	hasEnviron bool
}

// statusOf reads /proc/pid/stat. The second field is the program's name, which
// may hold anything: fields are counted from the last parenthesis.
func statusOf(pid int) (status, bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return status{}, false
	}
	i := bytes.LastIndexByte(raw, ')')
	if i < 0 {
		return status{}, false
	}
	fields := bytes.Fields(raw[i+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return status{}, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	start, err2 := strconv.ParseUint(string(fields[19]), 10, 64)
	const environEnd = 48 // where in memory the environment ends
	has := len(fields) > environEnd && string(fields[environEnd]) != "0"
	return status{state: fields[0][0], parent: parent, start: start, hasEnviron: has}, err1 == nil && err2 == nil
}

// processes lists the ids of all processes.
func processes() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what was read before an error is used
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// childrenOf lists the children of all threads of parent but except, by looking
// at every process.
func childrenOf(parent, except int) []int {
	var kids []int
	for _, pid := range processes() {
		if st, ok := statusOf(pid); ok && st.parent == parent && pid != except {
			kids = append(kids, pid)
		}
	}
	return kids
}
