package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"operon/meta"
	"operon/spec"
	"operon/storage"
	"operon/storage/boltfile"
)

// formatVersion is the version of the state directory as a whole.
const formatVersion = 1

// StateDirOf is the state directory of a pipeline: o.State, or
// .operon/<pipeline> beside the pipeline file. It is absolute.
func StateDirOf(p *spec.Pipeline, o Options) (string, error) {
	dir := o.State
	if dir == "" {
		dir = filepath.Join(o.Dir, ".operon", p.Name)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", &MachineError{Doing: "find the state directory", Err: err}
	}
	return abs, nil
}

// names in a state directory.
const (
	logsDir     = "logs"
	scratchDir  = "tmp"
	runningFile = "running"
)

// stores are the two stores of a state directory, and what they say of the run
// that was there last.
type stores struct {
	dir   string
	data  *storage.Store
	meta  *meta.Store
	last  meta.Footprint
	found bool // there was a run
	// rebuild says that the metadata is missing, damaged, or not of this data:
	// it is to be made again from the data.
	rebuild bool
	why     string // for rebuild
}

// asked is what a run was asked for, as the footprint keeps it.
type asked struct {
	Params map[string]string `json:"params,omitempty"`
	Until  []string          `json:"until,omitempty"`
	// Fields are what each task's fingerprint covers, to say later how it
	// differs; Reasons why each task's dataflow was made anew, of those that
	// were; Began when the run, or this part of it, began.
	Fields  map[string][]spec.Field `json:"fields,omitempty"`
	Reasons map[string]string       `json:"reasons,omitempty"`
	Began   time.Time               `json:"began"`
}

// openStores opens the stores of a state directory for an engine that holds its
// lock.
func openStores(dir string, hook func(string)) (s *stores, err error) {
	s = &stores{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
			s = nil
		}
	}()
	if s.data, err = storage.Open(dir, storage.Options{Hook: hook, Scratch: filepath.Join(dir, scratchDir)}); err != nil {
		return s, stateError(dir, "open the data", err)
	}
	if err := s.openMeta(hook); err != nil {
		return s, err
	}
	return s, s.compare()
}

func (s *stores) openMeta(hook func(string)) (err error) {
	s.meta, err = meta.Open(s.dir, meta.Options{Hook: hook})
	var damaged *boltfile.DamagedError
	var older *meta.OlderError
	switch {
	case errors.As(err, &damaged):
		s.why = damaged.Detail
	case errors.As(err, &older):
		s.why = older.Error()
	default:
		return stateError(s.dir, "open the metadata", err)
	}
	s.rebuild = true
	aside, err := meta.MoveAside(s.dir)
	if err != nil {
		return stateError(s.dir, "move the damaged metadata aside", err)
	}
	s.why += "; what was there is kept as " + filepath.Base(aside)
	s.meta, err = meta.Open(s.dir, meta.Options{Hook: hook})
	return stateError(s.dir, "make new metadata", err)
}

// compare reads both footprints and holds them against each other.
func (s *stores) compare() error {
	var data storage.Footprint
	var inData, inMeta bool
	var applied uint64
	err := s.data.View(func(r *storage.Reader) (err error) {
		data, inData, err = r.Footprint()
		return err
	})
	if err != nil {
		return stateError(s.dir, "read the data's footprint", err)
	}
	err = s.meta.View(func(r *meta.Reader) (err error) {
		applied = r.Applied()
		s.last, inMeta, err = r.Footprint()
		return err
	})
	if err != nil {
		return stateError(s.dir, "read the metadata's footprint", err)
	}
	s.found = inData || inMeta
	if inData && data.Format > formatVersion || inMeta && s.last.Format > formatVersion {
		return &NewerError{Dir: s.dir, Have: max(data.Format, s.last.Format), Know: formatVersion}
	}
	switch {
	case inData && !inMeta && !s.rebuild:
		s.rebuild, s.why = true, "it is missing"
	case inMeta && !inData:
		// Metadata is written last: the data that it speaks of is gone.
		s.rebuild, s.why = true, "the data that it speaks of is gone"
	case inMeta && inData && s.last.RunID != data.RunID:
		s.rebuild, s.why = true, "it is of another run than the data; an old copy of one of them was put back"
	case inMeta && applied > s.data.LastCommit():
		s.rebuild, s.why = true, "it is ahead of the data; an old copy of the data was put back"
	}
	if s.rebuild && inData {
		s.last = meta.Footprint{
			Format: data.Format, RunID: data.RunID, State: string(StateStopped), Asked: data.Asked, File: data.File,
			Pipeline: data.Pipeline, Source: data.Source, Build: data.Build, Started: data.Started, Updated: data.Updated,
		}
	}
	return nil
}

func (s *stores) close() error {
	var err error
	if s.meta != nil {
		err = s.meta.Close()
	}
	if s.data != nil {
		err = errors.Join(err, s.data.Close())
	}
	return err
}

// stateError makes of a store's error what the caller decides on; nil stays nil.
func stateError(dir, doing string, err error) error {
	if err == nil {
		return nil
	}
	var damaged *boltfile.DamagedError
	if errors.As(err, &damaged) {
		return &DamagedError{Path: damaged.Path, Detail: damaged.Detail, Mend: "put back a copy of it, or start over with --fresh"}
	}
	var damage *storage.Damage
	if errors.As(err, &damage) {
		return &DamagedError{Path: filepath.Join(dir, storage.DataFile), Detail: damage.Error(), Mend: "put back a copy of it, or start over with --fresh"}
	}
	var newerData *storage.NewerError
	if errors.As(err, &newerData) {
		return &NewerError{Dir: dir, Have: newerData.Have, Know: newerData.Know}
	}
	var newerMeta *meta.NewerError
	if errors.As(err, &newerMeta) {
		return &NewerError{Dir: dir, Have: newerMeta.Have, Know: newerMeta.Know}
	}
	if machine(err) {
		return &MachineError{Doing: doing, Err: err}
	}
	return fmt.Errorf("%s in %s: %w", doing, dir, err)
}

// machine reports whether an error is the machine's fault.
func machine(err error) bool {
	for _, target := range []error{
		fs.ErrPermission, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EFBIG,
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOTDIR,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// holdDir makes the state directory if need be and takes its lock.
func holdDir(dir string) (*boltfile.Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, &MachineError{Doing: "make the state directory", Err: err}
	}
	lock, err := boltfile.AcquireLock(dir, false)
	return lock, lockError(dir, err)
}

func lockError(dir string, err error) error {
	var used *boltfile.InUseError
	if errors.As(err, &used) {
		o := used.Owner
		text := "another process"
		if o.PID != 0 {
			text = fmt.Sprintf("process %d on host %s since %s", o.PID, o.Host, o.Since.Local().Format(time.DateTime))
		}
		return &InUseError{Dir: dir, Owner: text, Socket: o.Socket}
	}
	return stateError(dir, "lock the state directory", err)
}

// wipe removes what earlier runs left: the data first, so that a directory that
// was wiped by half runs everything again.
func wipe(dir string) error {
	for _, name := range []string{storage.DataFile, meta.FileName, storage.BlobsDir, logsDir} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return &MachineError{Doing: "start over", Err: err}
		}
	}
	return nil
}

// tokenOf is what the OPERON_JOB of every job of a state directory begins with,
// also in the run that was killed before anything was written.
func tokenOf(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:8])
}

// footprints put one footprint into the batches for both stores.
func footprints(f meta.Footprint, d *storage.Batch, m *meta.Batch) {
	m.PutFootprint(f)
	d.PutFootprint(storage.Footprint{
		Format: f.Format, RunID: f.RunID, State: f.State, Asked: f.Asked, File: f.File,
		Pipeline: f.Pipeline, Source: f.Source, Build: f.Build, Started: f.Started, Updated: f.Updated,
	})
}

func (a asked) encode() []byte {
	b, err := json.Marshal(a)
	if err != nil {
		panic("this is a bug: " + err.Error())
	}
	return b
}

func decodeAsked(b []byte) (a asked) {
	if json.Unmarshal(b, &a) != nil {
		return asked{}
	}
	return a
}
