package boltfile

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// startTicks is when a process started, in clock ticks since boot, or 0 if
// there is no such process.
func startTicks(pid int) int64 {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The second field is the command's name in parentheses, and may hold
	// blanks and parentheses itself; the start time is the 20th after it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0
	}
	ticks, err := strconv.ParseInt(string(fields[19]), 10, 64)
	if err != nil {
		return 0
	}
	return ticks
}

func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
