package engine

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"operon/meta"
	"operon/spec"
	"operon/storage"
	"operon/storage/boltfile"
)

// State is a state directory without an engine: read only.
type State struct {
	dir  string
	lock *boltfile.Lock
	data *storage.Store
	meta *meta.Store
	foot meta.Footprint
	p    *spec.Pipeline
	// stale says why the metadata is not that of the data, "" if it is.
	stale string
}

// OpenState opens a state directory for reading. Nothing there is ErrNoState,
// metadata without data a *DamagedError; an engine there is an *InUseError with its
// socket.
func OpenState(dir string) (*State, error) {
	s, err := openFiles(dir)
	if err != nil {
		return nil, err
	}
	s.p, err = spec.Load(s.foot.Source, spec.Options{File: s.foot.File, Params: decodeAsked(s.foot.Asked).Params})
	if err != nil {
		err = &DamagedError{Path: filepath.Join(s.dir, meta.FileName), Detail: "the pipeline that ran cannot be read: " + err.Error(), Mend: "run the pipeline again"}
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// openFiles opens a state directory for reading, whatever pipeline ran there.
func openFiles(dir string) (s *State, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, &MachineError{Doing: "find the state directory", Err: err}
	}
	if _, err := os.Stat(filepath.Join(dir, storage.DataFile)); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, meta.FileName)); err == nil {
			return nil, dataGone(dir)
		}
		return nil, ErrNoState
	}
	s = &State{dir: dir}
	if s.lock, err = boltfile.AcquireLock(dir, true); err != nil {
		return nil, lockError(dir, err)
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *State) open() (err error) {
	if s.data, err = storage.Open(s.dir, storage.Options{ReadOnly: true}); err != nil {
		return stateError(s.dir, "open the data", err)
	}
	s.meta, err = meta.Open(s.dir, meta.Options{ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		return &DamagedError{Path: filepath.Join(s.dir, meta.FileName), Detail: "it is missing", Mend: "run the pipeline: that makes it again from the data"}
	}
	if err != nil {
		return stateError(s.dir, "open the metadata", err)
	}
	found := false
	err = s.meta.View(func(r *meta.Reader) error {
		s.foot, found, err = r.Footprint()
		return err
	})
	if err != nil {
		return stateError(s.dir, "read the footprint", err)
	}
	if !found {
		return ErrNoState
	}
	return s.compare()
}

// compare sees whether the metadata is that of the data. A run that was cut
// short before the metadata had anything of it has left it behind, no more.
func (s *State) compare() error {
	var data storage.Footprint
	inData, applied := false, uint64(0)
	err := s.data.View(func(r *storage.Reader) (err error) {
		data, inData, err = r.Footprint()
		return err
	})
	if err == nil {
		err = s.meta.View(func(r *meta.Reader) error {
			applied = r.Applied()
			return nil
		})
	}
	switch {
	case err != nil:
		return stateError(s.dir, "read the footprint", err)
	case !inData: // the metadata, which is written last, has one
		return dataGone(s.dir)
	case applied > s.data.LastCommit():
		s.stale = "an old copy of the data was put back"
	case s.foot.RunID != data.RunID && RunState(data.State) != StateRunning:
		s.stale = "the metadata and the data are of two runs; an old copy of one of them was put back"
	}
	return nil
}

// dataGone is metadata without the data that it speaks of.
func dataGone(dir string) error {
	return &DamagedError{Path: filepath.Join(dir, storage.DataFile), Detail: "is gone, and the metadata tells of results", Mend: mendGone}
}

// Close closes it.
func (s *State) Close() error {
	var err error
	if s.meta != nil {
		err = s.meta.Close()
	}
	if s.data != nil {
		err = errors.Join(err, s.data.Close())
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Release())
	}
	return err
}

// Pipeline is the pipeline that last ran there, from its snapshot.
func (s *State) Pipeline() *spec.Pipeline { return s.p }

// Status is View's. What a killed engine left reads stopped.
func (s *State) Status(ctx context.Context) (*Status, error) {
	st := &Status{Pipeline: s.p.Name, Run: s.foot.RunID, State: RunState(s.foot.State), Params: openParams(s.foot)}
	if st.State != StateRunning {
		var sum Summary
		if json.Unmarshal(s.foot.Summary, &sum) == nil && len(sum.Tasks) == len(s.p.Tasks) {
			for _, t := range sum.Tasks {
				st.Tasks = append(st.Tasks, t.TaskStatus)
			}
			return st, nil
		}
	}
	if st.State == StateRunning {
		st.State = StateStopped
	}
	return st, s.count(st)
}

// count replays the tickets to tell how far a run came that did not say it.
func (s *State) count(st *Status) error {
	img, err := readImage(s.meta, false)
	if err != nil {
		return stateError(s.dir, "read the metadata", err)
	}
	if s.stale != "" {
		img = nil // the data tells more
	}
	return s.data.View(func(r *storage.Reader) error {
		flows, err := dataflows(r)
		if err != nil {
			return err
		}
		ids := make([]uint64, len(s.p.Tasks))
		for _, t := range s.p.Tasks {
			ids[t.Index] = flows[t.Name].ID
		}
		res, err := restoreFrom(s.p, ids, r, img, false)
		if err != nil {
			return stateError(s.dir, "replay the finished jobs", err)
		}
		for _, t := range s.p.Tasks {
			for _, c := range res.failed[t.Index] {
				if err := res.table.OnFailed(t.Index, c); err != nil {
					continue // done since
				}
			}
		}
		blocked := res.table.Blocked()
		for _, t := range s.p.Tasks {
			f := &flow{task: t, id: ids[t.Index]}
			ts := f.status(res.table.Counts(t.Index))
			ts.Blocked = blocked[t.Index]
			ts.Waiting += ts.Queued - ts.Blocked
			ts.Queued = 0 // nothing runs that it could be queued for
			ts.Reused = ts.Done
			st.Tasks = append(st.Tasks, ts)
		}
		return nil
	})
}

// Values is View's.
func (s *State) Values(ctx context.Context, q Query, fn func(Item) error) (found Found, err error) {
	if s.stale != "" {
		return Found{}, &InconsistentError{Detail: s.stale, Mend: mendMeta}
	}
	st, err := s.Status(ctx)
	if err != nil {
		return Found{}, err
	}
	err = s.data.View(func(r *storage.Reader) error {
		found, err = readValues(ctx, r, s.p, q, st.producing(s.p, q.Entity), s.done, fn)
		return err
	})
	return found, located(s.data, err)
}

// readError is stateError of what is read of results: one that is damaged is that of
// a job, and no fault of the file.
func (s *State) readError(doing string, err error) error {
	if d, damaged := errors.AsType[*storage.Damage](err); damaged && d.Kind.OfJob() {
		return inconsistentAt(s.data, d)
	}
	return stateError(s.dir, doing, err)
}

// Logs is View's.
func (s *State) Logs(ctx context.Context, q LogQuery, fn func(Log) error) error {
	return s.data.View(func(r *storage.Reader) error {
		return readLogs(ctx, r, s.p, s.dir, q, fn)
	})
}
