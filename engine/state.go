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
	"strings"
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
	digestsFile = "digests" // of source files, by what tells that they were not written to
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
	behind  bool   // the metadata is fine, but its footprint is that of an earlier run
	image   *image // what the metadata says; nil if it is to be made again
	damage  error  // of the data itself, as far as opening it showed
}

// known are the dataflows that the metadata has.
func (s *stores) known() map[uint64]*flowImage {
	if s.image == nil {
		return nil
	}
	return s.image.flows
}

// asked is what a run was asked for, as the footprint keeps it.
type asked struct {
	Dir    string            `json:"dir,omitempty"` // of the pipeline file
	Params map[string]string `json:"params,omitempty"`
	Until  []string          `json:"until,omitempty"`
	// Only and Sample as in Options, until all that they ask for is done.
	Only   map[string][]string `json:"only,omitempty"`
	Sample map[string]int      `json:"sample,omitempty"`
	Redo   []string            `json:"redo,omitempty"` // tasks that take no results from elsewhere
	// Dropped are the dataflows that somebody ended before they were done.
	Dropped []uint64 `json:"dropped,omitempty"`
	// Fields are what each task's fingerprint covers, to say later how it
	// differs; Reasons why each task's dataflow was made anew, of those that
	// were; Began when the run, or this part of it, began.
	Fields  map[string][]spec.Field `json:"fields,omitempty"`
	Reasons map[string]string       `json:"reasons,omitempty"`
	Began   time.Time               `json:"began"`
	Saves   saves                   `json:"saves,omitempty"` // tasks that are saved, and how
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
	if err == nil {
		// Whatever is damaged in there is found now, while it can be replaced.
		s.image, err = readImage(s.meta, false)
	}
	var older *meta.OlderError
	switch {
	case err == nil:
		return nil
	case meta.IsDamage(err), errors.As(err, &older):
		return s.replaceMeta(why(err), hook)
	default:
		return stateError(s.dir, "open the metadata", err)
	}
}

// replaceMeta moves metadata that is damaged, or too old, aside, and makes empty
// metadata in its place.
func (s *stores) replaceMeta(why string, hook func(string)) (err error) {
	s.rebuild, s.why, s.image = true, why, nil
	if s.meta != nil {
		err := s.meta.Close()
		if s.meta = nil; err != nil {
			return stateError(s.dir, "close the damaged metadata", err)
		}
	}
	aside, err := meta.MoveAside(s.dir)
	if err != nil {
		return stateError(s.dir, "move the damaged metadata aside", err)
	}
	s.why += "; what was there is kept as " + filepath.Base(aside)
	s.meta, err = meta.Open(s.dir, meta.Options{Hook: hook})
	return stateError(s.dir, "make new metadata", err)
}

// why is what a store's error says, without what its path says again.
func why(err error) string {
	var damaged *boltfile.DamagedError
	if errors.As(err, &damaged) {
		if strings.HasPrefix(damaged.Detail, "is ") {
			return "it " + damaged.Detail
		}
		return damaged.Detail
	}
	return err.Error()
}

// compare reads both footprints and holds them against each other.
func (s *stores) compare() error {
	var data storage.Footprint
	var inData bool
	err := s.data.View(func(r *storage.Reader) (err error) {
		data, inData, err = r.Footprint()
		return err
	})
	if ignoreDamage(err) != nil {
		return stateError(s.dir, "read the data's footprint", err)
	}
	s.damage = err
	img := s.image
	if img == nil {
		img = &image{}
	}
	s.last = img.foot
	s.found = inData || img.found || s.damage != nil
	if inData && data.Format > formatVersion || img.found && img.foot.Format > formatVersion {
		return &NewerError{Dir: s.dir, Have: max(data.Format, img.foot.Format), Know: formatVersion}
	}
	if err := s.belongs(img, data, inData); err != nil {
		return err
	}
	if s.rebuild {
		s.image = nil
	}
	if (s.rebuild || s.behind) && inData {
		s.last = meta.Footprint{
			Format: data.Format, RunID: data.RunID, State: string(StateStopped), Asked: data.Asked, File: data.File,
			Pipeline: data.Pipeline, Source: data.Source, Build: data.Build, Started: data.Started, Updated: data.Updated,
		}
	}
	return nil
}

// belongs sees whether the metadata is of this data.
func (s *stores) belongs(img *image, data storage.Footprint, inData bool) error {
	again := func(why string) { s.rebuild, s.why = true, why }
	switch {
	case s.rebuild:
	case inData && img.applied > s.data.LastCommit():
		again("it is ahead of the data; an old copy of the data was put back")
	case cutShort(img, data, inData):
		// It knows less than the data, and that is all: as after any kill.
		if err := s.matches(img); err != nil || !s.rebuild {
			s.behind = err == nil
			return err
		}
		if img.found {
			again("the last run was cut short before it had any of it")
			return nil
		}
		again("it is missing")
	case inData && !img.found:
		again("it is missing")
	case img.found && !inData && s.damage == nil:
		// Metadata is written last: the data that it speaks of is gone.
		again("the data that it speaks of is gone")
		s.damage = errDataGone
	case inData && img.foot.RunID != data.RunID:
		again("it is of another run than the data; an old copy of one of them was put back")
	case img.found:
		return s.matches(img)
	}
	return nil
}

// cutShort reports whether the last run wrote its footprint into the data, and
// was ended before the metadata had it.
func cutShort(img *image, data storage.Footprint, inData bool) bool {
	return inData && RunState(data.State) == StateRunning && (!img.found && img.applied == 0 || img.found && img.foot.RunID != data.RunID)
}

// errDataGone says that the metadata speaks of data that is not there.
var errDataGone = errors.New("data.db is gone, with the results that the metadata tells of")

// matches sees whether the metadata knows just the results that the data has.
func (s *stores) matches(img *image) error {
	task := ""
	err := s.data.View(func(r *storage.Reader) (err error) {
		task, err = img.mismatch(r)
		return err
	})
	switch {
	case meta.IsDamage(err) && !storage.IsDamage(err):
		s.rebuild, s.why = true, why(err)
	case ignoreDamage(err) != nil:
		return stateError(s.dir, "compare the metadata with the data", err)
	case err != nil:
		s.damage = err
		s.rebuild, s.why = true, "the data can't be compared with it"
	case task != "":
		s.rebuild, s.why = true, "it does not tell of just the results that the data has of task "+task+"; an old copy of one of them was put back, or something was lost"
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

// damagedFile says what to do about a file that can't be read.
func damagedFile(d *boltfile.DamagedError) *DamagedError {
	mend := mendData
	switch {
	case filepath.Base(d.Path) == meta.FileName:
		mend = mendMeta
	case d.Empty:
		mend = mendNone
	}
	return &DamagedError{Path: d.Path, Detail: d.Detail, Mend: mend}
}

// stateError makes of a store's error what the caller decides on; nil stays nil.
func stateError(dir, doing string, err error) error {
	if err == nil {
		return nil
	}
	var damaged *boltfile.DamagedError
	if errors.As(err, &damaged) {
		return damagedFile(damaged)
	}
	var damage *storage.Damage
	if errors.As(err, &damage) {
		return &DamagedError{Path: filepath.Join(dir, storage.DataFile), Detail: damage.Detail, Mend: mendData}
	}
	var lost *meta.Damage
	if errors.As(err, &lost) {
		return &DamagedError{Path: filepath.Join(dir, meta.FileName), Detail: lost.Detail, Mend: mendMeta}
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
	if err := claimDir(dir); err != nil {
		return nil, err
	}
	return acquire(dir, false)
}

// acquire takes the lock of a state directory. A reader holds it for a moment
// and says no owner, and so does a process that a killed engine had just made:
// it waits for those.
func acquire(dir string, shared bool) (*boltfile.Lock, error) {
	const patience, pause = 2 * time.Second, 20 * time.Millisecond
	for waited := time.Duration(0); ; waited += pause {
		lock, err := boltfile.AcquireLock(dir, shared)
		used, busy := errors.AsType[*boltfile.InUseError](err)
		if !busy || used.Owner.PID != 0 || waited >= patience {
			return lock, lockError(dir, err)
		}
		<-time.After(pause)
	}
}

// markerFile says that a folder is a state directory: what lies in it is ours to
// replace and to delete.
const (
	markerFile = "operon-state"
	markerText = "A state directory of operon. What lies here is its own.\n"
)

// claimDir marks an empty folder as a state directory. A folder that holds
// anything and has no mark is somebody else's, and is not touched.
func claimDir(dir string) error {
	marker := filepath.Join(dir, markerFile)
	if _, err := os.Lstat(marker); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return stateError(dir, "look at the state directory", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return stateError(dir, "look at the state directory", err)
	}
	last, err := lastFootprint(dir)
	ours := err == nil && last.Pipeline != "" // and the mark was lost
	for _, e := range entries {
		if !ours && e.Name() != markerFile+".tmp" {
			return &NotOursError{Dir: dir, Holds: e.Name()}
		}
	}
	err = os.WriteFile(marker+".tmp", []byte(markerText), 0o600)
	if err == nil {
		err = os.Rename(marker+".tmp", marker)
	}
	if err != nil {
		return stateError(dir, "mark the state directory", err)
	}
	return nil
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
