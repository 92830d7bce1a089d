package engine

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"operon/engine/body"
	"operon/meta"
	"operon/spec/value"
	"operon/storage"
	"operon/storage/boltfile"
)

// CleanOptions say what Clean drops. The zero value drops what no current
// dataflow needs.
type CleanOptions struct {
	// DryRun changes nothing, and reports what would go.
	DryRun bool
	// All also drops results of replaced tasks that a run which is not complete
	// might still reuse, the logs of finished and failed jobs, and damaged
	// metadata that was moved aside: only current values stay, and what a run
	// goes on from.
	All    bool
	Logger *slog.Logger
	// Hook is called at every commit point of the stores, for tests that kill
	// the program there.
	Hook func(point string)
}

// Pile is a number of files, and their bytes.
type Pile struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

func (p *Pile) add(bytes int64) { p.Files, p.Bytes = p.Files+1, p.Bytes+bytes }

// CleanReport is what Clean freed, or would.
type CleanReport struct {
	DryRun    bool        `json:"dry_run"`
	Bytes     int64       `json:"bytes"`     // all of it
	Records   int64       `json:"records"`   // of jobs of retired dataflows
	Data      int64       `json:"data"`      // bytes of data.db: room that it reuses, compact gives it back
	Blobs     Pile        `json:"blobs"`     // files and large values that nothing names any more
	Logs      Pile        `json:"logs"`      // of jobs that are no longer there
	Temporary Pile        `json:"temporary"` // what a killed engine left half done
	Kept      int64       `json:"kept"`      // retired dataflows that an unfinished run may still reuse
	Tasks     []CleanTask `json:"tasks"`     // by name; only tasks with retired dataflows
}

// CleanTask is what went of one task.
type CleanTask struct {
	Task      string `json:"task"`
	Dataflows int64  `json:"dataflows"`
	Records   int64  `json:"records"`
	Bytes     int64  `json:"bytes"` // records, values and blobs
}

// Clean drops from a state directory what no current dataflow needs: records
// and values of retired dataflows (the memo), blobs that nothing names, temporary
// files, and logs of jobs that are no longer there. The pipeline file is not
// looked at: what the last run made is current, and what an unfinished run may
// still reuse stays. It needs the directory for itself, a dry run beside other
// readers; an engine there is an *InUseError. Nothing there is ErrNoState.
//
// A Clean that is killed leaves a state that reads as before, and the next one
// finishes it.
func Clean(ctx context.Context, dir string, o CleanOptions) (rep *CleanReport, err error) {
	c, err := newCleaner(dir, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closed := c.close(); closed != nil {
			err = errors.Join(err, stateError(c.dir, "close the state", closed))
		}
	}()
	if o.DryRun {
		return c.dryRun(ctx)
	}
	return c.run(ctx)
}

// cleaner holds a state directory that is cleaned.
type cleaner struct {
	dir    string
	o      CleanOptions
	log    *slog.Logger
	lock   *boltfile.Lock
	stores *stores
	rep    *CleanReport
}

func newCleaner(dir string, o CleanOptions) (*cleaner, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, &MachineError{Doing: "find the state directory", Err: err}
	}
	c := &cleaner{dir: dir, o: o, log: o.Logger, rep: &CleanReport{DryRun: o.DryRun, Tasks: []CleanTask{}}}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.lock, err = takeState(dir, o.DryRun); err != nil {
		return nil, err
	}
	return c, nil
}

// takeState locks a state directory in which there is something.
func takeState(dir string, shared bool) (*boltfile.Lock, error) {
	if _, err := os.Stat(filepath.Join(dir, storage.DataFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoState
	}
	lock, err := boltfile.AcquireLock(dir, shared)
	if err != nil {
		return nil, lockError(dir, err)
	}
	if shared {
		return lock, nil
	}
	if err := lock.WriteOwner(boltfile.ThisProcess()); err != nil {
		return nil, errors.Join(stateError(dir, "write the owner file", err), lock.Release())
	}
	return lock, nil
}

func (c *cleaner) close() error {
	var err error
	if c.stores != nil {
		err = c.stores.close()
	}
	return errors.Join(err, c.lock.Release())
}

// dryRun reports what run would free.
func (c *cleaner) dryRun(ctx context.Context) (*CleanReport, error) {
	if err := c.temporary(ctx); err != nil {
		return nil, err
	}
	data, err := storage.Open(c.dir, storage.Options{ReadOnly: true})
	if err != nil {
		return nil, stateError(c.dir, "open the data", err)
	}
	c.stores = &stores{dir: c.dir, data: data}
	err = data.View(func(r *storage.Reader) error {
		if _, err := c.retired(r); err != nil {
			return err
		}
		files, bytes, err := r.StrayBlobs()
		c.rep.Blobs.Files += int64(files)
		c.rep.Blobs.Bytes += bytes
		if err != nil {
			return err
		}
		return c.logs(ctx, r)
	})
	if err != nil {
		return nil, stateError(c.dir, "look for what can go", err)
	}
	return c.sum(), nil
}

// run drops, in an order in which it may be killed anywhere.
func (c *cleaner) run(ctx context.Context) (*CleanReport, error) {
	if err := c.temporary(ctx); err != nil {
		return nil, err
	}
	before, err := pileOf(filepath.Join(c.dir, storage.BlobsDir), false)
	if err != nil {
		return nil, err
	}
	if c.stores, err = openStores(c.dir, c.o.Hook); err != nil {
		return nil, err
	}
	if !c.stores.found {
		return nil, ErrNoState
	}
	if err := c.drop(ctx); err != nil {
		return nil, err
	}
	if _, err := c.stores.data.Sweep(ctx); err != nil {
		return nil, stateError(c.dir, "remove blobs that nothing names", err)
	}
	after, err := pileOf(filepath.Join(c.dir, storage.BlobsDir), false)
	if err != nil {
		return nil, err
	}
	c.rep.Blobs = Pile{Files: before.Files - after.Files, Bytes: before.Bytes - after.Bytes}
	err = c.stores.data.View(func(r *storage.Reader) error { return c.logs(ctx, r) })
	if err != nil {
		return nil, stateError(c.dir, "remove old logs", err)
	}
	return c.sum(), nil
}

// drop drops the retired dataflows, and what the metadata has of dataflows that
// the data does not call current.
func (c *cleaner) drop(ctx context.Context) error {
	var retired []uint64
	var current map[uint64]bool
	err := c.stores.data.View(func(r *storage.Reader) (err error) {
		if current, err = currentDataflows(r); err != nil {
			return err
		}
		retired, err = c.retired(r)
		return err
	})
	if err != nil {
		return stateError(c.dir, "look for what can go", err)
	}
	if err := dropInstances(ctx, c.stores.data, retired); err != nil {
		return stateError(c.dir, "drop retired dataflows", err)
	}
	if c.stores.rebuild {
		return nil // the next run makes it anew
	}
	return stateError(c.dir, "drop what the metadata has of retired dataflows", dropFromMeta(ctx, c.stores.meta, current))
}

// dropInstances drops dataflows from the data, in one commit, and waits until
// their space is free.
func dropInstances(ctx context.Context, data *storage.Store, ids []uint64) error {
	if len(ids) > 0 {
		b := &storage.Batch{Urgent: true}
		for _, id := range ids {
			b.DropInstance(id)
		}
		data.Submit(b)
	}
	return data.Flush(ctx) // also what a killed clean began
}

func dropFromMeta(ctx context.Context, m *meta.Store, current map[uint64]bool) error {
	b := &meta.Batch{Urgent: true}
	err := m.View(func(r *meta.Reader) error {
		list, err := r.Dataflows()
		for _, d := range list {
			if !current[d.ID] {
				b.DropDataflow(d.ID)
			}
		}
		return err
	})
	if err != nil || b.Len() == 0 {
		return err
	}
	m.Submit(b)
	return m.Flush(ctx)
}

func currentDataflows(r *storage.Reader) (map[uint64]bool, error) {
	headers, err := r.Headers()
	out := map[uint64]bool{}
	for _, h := range headers {
		if h.State != storage.Retired {
			out[h.ID] = true
		}
	}
	return out, err
}

// retired are the dataflows to drop, oldest first, and reports them.
func (c *cleaner) retired(r *storage.Reader) ([]uint64, error) {
	headers, err := r.Headers()
	if err != nil {
		return nil, err
	}
	foot, _, err := r.Footprint()
	if err != nil {
		return nil, err
	}
	needed := map[value.Digest]bool{} // fingerprints that an unfinished run looks up
	for _, h := range headers {
		if h.State != storage.Retired && RunState(foot.State) != StateComplete && !c.o.All {
			needed[h.Fingerprint] = true
		}
	}
	var out []storage.Header
	for _, h := range headers {
		switch {
		case h.State != storage.Retired:
		case needed[h.Fingerprint]:
			c.rep.Kept++
		default:
			out = append(out, h)
		}
	}
	ids := idsOf(out)
	usage, err := r.Usage(ids)
	if err != nil {
		return nil, err
	}
	c.count(out, usage)
	return ids, nil
}

func idsOf(headers []storage.Header) []uint64 {
	ids := make([]uint64, len(headers))
	for i, h := range headers {
		ids[i] = h.ID
	}
	return ids
}

// count adds up what dropping the dataflows frees.
func (c *cleaner) count(headers []storage.Header, usage []storage.Usage) {
	byTask := map[string]*CleanTask{}
	for i, h := range headers {
		u, t := usage[i], byTask[h.Task]
		if t == nil {
			t = &CleanTask{Task: h.Task}
			byTask[h.Task] = t
		}
		t.Dataflows++
		t.Records += int64(u.Records)
		t.Bytes += u.Bytes + u.BlobBytes
		c.rep.Records += int64(u.Records)
		c.rep.Data += u.Bytes
		c.rep.Blobs.Files += int64(u.Blobs)
		c.rep.Blobs.Bytes += u.BlobBytes
	}
	for _, t := range byTask {
		c.rep.Tasks = append(c.rep.Tasks, *t)
	}
	slices.SortFunc(c.rep.Tasks, func(a, b CleanTask) int {
		if a.Task < b.Task {
			return -1
		}
		return 1
	})
}

func (c *cleaner) sum() *CleanReport {
	r := c.rep
	r.Bytes = r.Data + r.Blobs.Bytes + r.Logs.Bytes + r.Temporary.Bytes
	return r
}

// temporary removes what is left of a killed engine: its jobs' folders, after
// their processes, and files that were never given their name. It has to be
// asked before the stores are opened, which remove some of it themselves.
func (c *cleaner) temporary(ctx context.Context) error {
	if !c.o.DryRun {
		ended, err := body.EndStrays(ctx, filepath.Join(c.dir, runningFile), tokenOf(c.dir))
		if err != nil {
			return stateError(c.dir, "end the jobs that an earlier run left", err)
		}
		if len(ended) > 0 {
			c.log.Info("ended processes that an earlier run left", "processes", len(ended))
		}
	}
	places := []string{
		filepath.Join(c.dir, scratchDir), filepath.Join(c.dir, storage.BlobsDir, "tmp"),
		filepath.Join(c.dir, storage.DataFile+".new"), filepath.Join(c.dir, meta.FileName+".new"), filepath.Join(c.dir, "owner.tmp"),
	}
	if c.o.All {
		aside, err := filepath.Glob(filepath.Join(escapeGlob(c.dir), meta.FileName+".damaged-*"))
		if err != nil {
			return stateError(c.dir, "look for damaged metadata", err)
		}
		places = append(places, aside...)
	}
	for _, path := range places {
		if err := c.removeAll(path, &c.rep.Temporary); err != nil {
			return err
		}
	}
	return nil
}

// removeAll counts what lies at a path, and removes it unless this is a dry run.
func (c *cleaner) removeAll(path string, to *Pile) error {
	pile, err := pileOf(path, true)
	if err != nil {
		return err
	}
	to.Files += pile.Files
	to.Bytes += pile.Bytes
	if c.o.DryRun {
		return nil
	}
	if err := os.RemoveAll(path); err != nil {
		return &MachineError{Doing: "remove temporary files", Err: err}
	}
	return nil
}

// pileOf counts the files at a path, those in folders below it too if deep.
// What is not there, or goes meanwhile, counts nothing.
func pileOf(path string, deep bool) (p Pile, err error) {
	err = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if d.IsDir() {
			if at != path && !deep {
				return fs.SkipDir
			}
			return nil
		}
		if info, err := d.Info(); err == nil {
			p.add(info.Size())
		}
		return nil
	})
	if err != nil {
		return p, &MachineError{Doing: "count files", Err: err}
	}
	return p, nil
}
