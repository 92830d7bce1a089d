package engine

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"operon/spec"
)

// cudaDevices is the variable that tells CUDA programs which GPUs are theirs.
const cudaDevices = "CUDA_VISIBLE_DEVICES"

// ResourcesError is a task that can never start: it needs more than there is.
type ResourcesError struct{ Faults []string }

// Error says which tasks need what, and what there is.
func (e *ResourcesError) Error() string { return strings.Join(e.Faults, "\n") }

// machineRoom is what there is: the machine's, unless the options say otherwise,
// and which GPUs these are.
func machineRoom(o Options) (needs, []string, error) {
	total := needs{cpus: int64(runtime.NumCPU()) * 1000, mem: memTotal()}
	if o.CPUs > 0 {
		total.cpus = thousandths(o.CPUs)
	}
	if o.Mem > 0 {
		total.mem = o.Mem
	}
	gpus, listed := visibleGPUs(o.Environ)
	switch {
	case o.GPUs < 0:
		gpus = nil
	case o.GPUs > 0 && listed && o.GPUs > len(gpus):
		return needs{}, nil, &ResourcesError{[]string{fmt.Sprintf("%d GPUs were asked for, and %s lists %d", o.GPUs, cudaDevices, len(gpus))}}
	case o.GPUs > 0:
		for n := len(gpus); n < o.GPUs; n++ {
			gpus = append(gpus, strconv.Itoa(n))
		}
		gpus = gpus[:o.GPUs]
	}
	total.gpus = len(gpus)
	return total, gpus, nil
}

func thousandths(cpus float64) int64 { return int64(math.Round(cpus * 1000)) }

// visibleGPUs are the GPUs that this process may use: those that the variable
// lists, else those whose device files are there.
func visibleGPUs(environ []string) (ids []string, listed bool) {
	for _, v := range environ {
		if list, ok := strings.CutPrefix(v, cudaDevices+"="); ok {
			ids, listed = nil, true // of several the last counts
			for id := range strings.SplitSeq(list, ",") {
				if id = strings.TrimSpace(id); id == "" || strings.HasPrefix(id, "-") {
					break // CUDA reads no further
				}
				ids = append(ids, id)
			}
		}
	}
	if listed {
		return ids, true
	}
	devices, _ := filepath.Glob("/dev/nvidia[0-9]*")
	for n := range devices {
		ids = append(ids, strconv.Itoa(n))
	}
	return ids, false
}

// memTotal is the machine's memory, or what a control group leaves of it. Where
// neither can be read, there is no limit.
func memTotal() int64 {
	total := int64(math.MaxInt64)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 2 || fields[0] != "MemTotal:" {
				continue
			}
			if kib, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				total = kib << 10
			}
		}
	}
	if text, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			total = min(total, n)
		}
	}
	return total
}

func needsOf(t *spec.TaskSpec) needs {
	return needs{cpus: thousandths(t.CPUs), mem: t.Mem, gpus: t.GPUs}
}

// checkResources finds the tasks that could never start.
func checkResources(p *spec.Pipeline, wanted []bool, total needs) error {
	var faults []string
	for _, t := range p.Tasks {
		n := needsOf(t)
		if !wanted[t.Index] || n.fit(total) {
			continue
		}
		fault := func(key, what, has string) {
			faults = append(faults, fmt.Sprintf("%s:%d: task %s needs %s, and there %s; --%s sets what there is", p.File, t.Line, t.Name, what, has, key))
		}
		if n.cpus > total.cpus {
			fault("cpus", fmt.Sprintf("%g CPUs", t.CPUs), fmt.Sprintf("are %g", float64(total.cpus)/1000))
		}
		if n.mem > total.mem {
			fault("mem", "memory of "+sizeText(n.mem), "is "+sizeText(total.mem))
		}
		if n.gpus > total.gpus {
			fault("gpus", fmt.Sprintf("%d GPUs", n.gpus), fmt.Sprintf("are %d", total.gpus))
		}
	}
	if len(faults) > 0 {
		return &ResourcesError{faults}
	}
	return nil
}

// sizeText is a number of bytes for a person, as one would write it.
func sizeText(n int64) string {
	const units = "KMGT"
	f, unit := float64(n), ""
	for i := 0; f >= 1024 && i < len(units); i++ {
		f, unit = f/1024, units[i:i+1]
	}
	if f == math.Trunc(f) {
		return fmt.Sprintf("%.0f%s", f, unit)
	}
	return fmt.Sprintf("%.1f%s", f, unit)
}
