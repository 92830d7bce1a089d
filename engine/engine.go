package engine

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"operon/engine/body"
	"operon/meta"
	"operon/spec"
	"operon/storage/boltfile"
)

// Engine runs one pipeline in one state directory, which it holds from New to
// Close.
type Engine struct {
	mu      sync.Mutex // of p, o and bodies, which Reconcile changes while Run runs
	p       *spec.Pipeline
	o       Options
	dir     string // the state directory, absolute
	token   string
	log     *slog.Logger
	lock    *boltfile.Lock
	stores  *stores
	bodies  *body.Config
	running *body.Running
	room    needs    // of the machine
	gpus    []string // those that jobs may use

	lost     *DamagedError  // data.db can't be opened, and is to be salvaged
	salvaged *SalvageReport // it was

	requests chan request
	ended    chan struct{} // closed when Run has ended
}

// New takes hold of the state directory and looks at what is there. Another
// engine there is an *InUseError, a state of another pipeline file a
// *ForeignError, one that a newer operon wrote a *NewerError, data that can't
// be read a *DamagedError, and what the machine refuses a *MachineError.
func New(p *spec.Pipeline, o Options) (*Engine, error) {
	e, err := prepare(p, o)
	if err != nil {
		return nil, err
	}
	if e.lock, err = holdDir(e.dir); err != nil {
		return nil, err
	}
	if err := e.open(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func prepare(p *spec.Pipeline, o Options) (*Engine, error) {
	if o.Dir == "" {
		o.Dir = "."
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, &MachineError{Doing: "find the pipeline's folder", Err: err}
	}
	o.Dir = dir
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	for _, name := range slices.Concat(o.Until, o.Redo, o.Skip) {
		if p.Task(name) == nil {
			return nil, unknownTask(p, name)
		}
	}
	e := &Engine{p: p, o: o, log: o.Logger, requests: make(chan request), ended: make(chan struct{})}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.dir, err = StateDirOf(p, o); err != nil {
		return nil, err
	}
	if _, err := newSelection(p, o.Only, o.Sample); err != nil {
		return nil, err
	}
	if e.room, e.gpus, err = machineRoom(o); err != nil {
		return nil, err
	}
	if err := checkResources(p, e.wanted(), e.room); err != nil {
		return nil, err
	}
	e.token = tokenOf(e.dir)
	e.bodies = &body.Config{
		Pipeline: p, Dir: dir, Environ: o.Environ, MaxOutput: o.MaxOutput, LogLimit: o.LogLimit, Funcs: o.Funcs, Logger: e.log,
	}
	if o.Bodies == nil {
		if err := checkFuncs(p, o.Funcs); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// open opens the stores, with the lock held.
func (e *Engine) open() (err error) {
	if e.o.Fresh {
		// What can't be read is taken as ours: this is the way out of that.
		if last, err := lastFootprint(e.dir); err == nil {
			if err := e.foreign(last); err != nil {
				return err
			}
		}
		if err := wipe(e.dir); err != nil {
			return err
		}
	}
	e.stores, err = openStores(e.dir, e.o.Hook)
	if d, damaged := e.ofData(err); damaged && e.salvages() {
		e.lost, err = d, nil // its first use is to salvage it
	}
	if err != nil {
		return err
	}
	if e.lost == nil && e.stores.found {
		if err := e.foreign(e.stores.last); err != nil {
			return err
		}
	}
	owner := boltfile.ThisProcess()
	owner.Socket = e.o.Socket
	if err := e.lock.WriteOwner(owner); err != nil {
		return stateError(e.dir, "write the owner file", err)
	}
	return nil
}

// foreign is a *ForeignError if a state is not of this pipeline file.
func (e *Engine) foreign(last meta.Footprint) error {
	if last.Pipeline == "" || last.Pipeline == e.p.Name && (last.File == filepath.Base(e.p.File) && !e.elsewhere(last) || e.o.Adopt) {
		return nil
	}
	return &ForeignError{Dir: e.dir, Pipeline: last.Pipeline, File: filepath.Join(decodeAsked(last.Asked).Dir, last.File)}
}

// elsewhere reports whether the file that ran here last still lies in another
// folder: two files of one name would take each other's results for their own. A
// project that was copied or moved as a whole, its state with it, is not.
func (e *Engine) elsewhere(last meta.Footprint) bool {
	dir := decodeAsked(last.Asked).Dir
	if dir == "" || dir == e.o.Dir {
		return false
	}
	if rel, err := filepath.Rel(e.o.Dir, e.dir); err == nil && filepath.IsLocal(rel) {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, last.File))
	return err == nil
}

// pipeline is the pipeline as it is wanted now.
func (e *Engine) pipeline() *spec.Pipeline {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.p
}

// options are what the run is asked for now.
func (e *Engine) options() Options {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.o
}

// StateDir is the state directory, absolute.
func (e *Engine) StateDir() string { return e.dir }

// Close gives the state directory back. It must not be called while Run runs.
func (e *Engine) Close() error {
	var err error
	if e.running != nil {
		err = e.running.Close()
	}
	if e.stores != nil {
		err = errors.Join(err, e.stores.close())
	}
	if e.lock != nil {
		err = errors.Join(err, e.lock.Release())
	}
	return err
}

// note tells a person something about the run.
func (e *Engine) note(text string) {
	e.log.Info(text)
	if e.o.Events != nil {
		e.o.Events(noteEvent(text))
	}
}

// Status is View's.
func (e *Engine) Status(ctx context.Context) (*Status, error) {
	v, err := e.ask(ctx, func(l *loop) any { return l.status() })
	if err != nil {
		return nil, err
	}
	return v.(*Status), nil
}

// Pause stops starting jobs of the named tasks, of all if none is named; with
// cascade also of everything that they need. Running jobs finish. An unknown
// task is an *UnknownError. Where all are paused, so are tasks that Reconcile adds.
func (e *Engine) Pause(ctx context.Context, tasks []string, cascade bool) error {
	return e.hold(ctx, tasks, cascade, true)
}

// Resume undoes Pause for the named tasks, for all if none is named.
func (e *Engine) Resume(ctx context.Context, tasks []string) error {
	return e.hold(ctx, tasks, false, false)
}

func (e *Engine) hold(ctx context.Context, tasks []string, cascade, held bool) error {
	v, err := e.ask(ctx, func(l *loop) any { return l.pause(tasks, cascade, held) })
	if err != nil || v == nil {
		return err
	}
	return v.(error)
}

// Quit ends the run: no new jobs, running ones finish; with force they are
// killed. It returns as soon as the loop has heard it.
func (e *Engine) Quit(ctx context.Context, force bool) error {
	_, err := e.ask(ctx, func(l *loop) any {
		if force {
			l.kill()
		} else {
			l.stop()
		}
		return nil
	})
	return err
}
