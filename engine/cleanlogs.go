package engine

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"operon/engine/worker"
	"operon/spec/coord"
	"operon/storage"
)

// logsAtOnce is how many names of logs are read at a time: a task may have a
// million.
const logsAtOnce = 4096

// logs removes the logs of tasks and jobs that are no longer there.
func (c *cleaner) logs(ctx context.Context, r *storage.Reader) error {
	headers, err := r.Headers()
	if err != nil {
		return err
	}
	byTask := map[string]storage.Header{}
	for _, h := range headers {
		if h.State != storage.Retired {
			byTask[h.Task] = h
		}
	}
	folders, err := os.ReadDir(filepath.Join(c.dir, logsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range folders {
		path := filepath.Join(c.dir, logsDir, f.Name())
		if h, there := byTask[f.Name()]; there && !c.o.All {
			err = c.taskLogs(ctx, r, h, path)
		} else {
			err = c.removeAll(path, &c.rep.Logs)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// taskLogs removes those logs of a task that belong to no job of its dataflow.
func (c *cleaner) taskLogs(ctx context.Context, r *storage.Reader, h storage.Header, folder string) error {
	dir, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		entries, err := dir.ReadDir(logsAtOnce)
		for _, e := range entries {
			wanted, err := hasLog(r, h, e.Name())
			if err != nil {
				return err
			}
			if wanted {
				continue
			}
			if err := c.removeAll(filepath.Join(folder, e.Name()), &c.rep.Logs); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// hasLog reports whether a file in the folder of a task's logs is the log of a
// job that finished, or failed.
func hasLog(r *storage.Reader, h storage.Header, name string) (bool, error) {
	if worker.IsShared(name) {
		return true, nil
	}
	at, ok := jobOfLog(h, name)
	if !ok {
		return false, nil
	}
	rec, ok, err := r.Record(h.ID, at)
	if err != nil {
		return true, unlessDamage(err) // it may well be
	}
	if ok {
		return rec.Logged > 0, nil
	}
	f, ok, err := r.Failure(h.ID, at)
	if err != nil {
		return true, unlessDamage(err)
	}
	return ok && f.Log != "", nil
}

func unlessDamage(err error) error {
	var damage *storage.Damage
	if errors.As(err, &damage) {
		return nil
	}
	return err
}

// jobOfLog is the job whose log has a name, if there can be one: worker.LogNameOf
// turned round.
func jobOfLog(h storage.Header, name string) (coord.Coord, bool) {
	text := strings.TrimSuffix(name, ".log")
	at := coord.Coord("")
	if len(h.Dims) > 0 {
		for part := range strings.SplitSeq(text, ",") {
			_, number, _ := strings.Cut(part, "=")
			i, err := strconv.ParseUint(number, 10, 32)
			if err != nil {
				return "", false
			}
			at = at.Append(uint32(i))
		}
	}
	return at, at.Len() == len(h.Dims) && worker.LogNameOf(h.Task, h.Dims, at) == filepath.Join(h.Task, name)
}
