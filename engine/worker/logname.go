package worker

import (
	"path/filepath"

	"operon/spec"
	"operon/spec/coord"
)

// LogName is the path of a job's log below the logs folder. It is unique to the
// job and short enough for any file system.
func LogName(t *spec.TaskSpec, job Job) string {
	return LogNameOf(t.Name, t.ContextNames(), job.Coord)
}

// LogNameOf is LogName of the job at c of a task with these dimensions.
func LogNameOf(task string, dims []string, c coord.Coord) string {
	name := c.Format(dims)
	if len(name) > 200 {
		name = c.Format(make([]string, c.Len()))
	}
	if name == "" {
		name = "job"
	}
	return filepath.Join(task, name+".log")
}
