package worker

import "operon/engine/frontier"

// stage is how far a worker has got with whoever commands it.
type stage int

const (
	stageCreation       stage = iota // nobody has spoken to it
	stageInitialization              // it is being told what is wanted, and gathers that
	stageComputation                 // it does as it is told
)

// session is the conversation that the worker is in.
type session struct {
	name     string
	stage    stage
	gathered []Command
	config   *InstanceConfig
}

// lifecycle carries out a command of the history.
func (w *Worker) lifecycle(c Command) {
	if hello, ok := c.(Hello); ok {
		// What was gathered was never applied, and who asked for a peek is gone.
		w.session = session{name: hello.Session, stage: stageInitialization, config: w.session.config}
		w.dropPeeks()
		return
	}
	switch w.session.stage {
	case stageCreation:
		w.refuse("%T comes before Hello", c)
	case stageInitialization:
		if _, complete := c.(InitializationComplete); !complete {
			w.session.gathered = append(w.session.gathered, c)
			return
		}
		w.initialize()
	case stageComputation:
		w.apply(c)
	}
}

// initialize makes what is installed into what is wanted. What stays is told by
// its id: whether it may was decided by who gave the ids, and the fingerprint is
// compared to be certain.
func (w *Worker) initialize() {
	gathered := w.session.gathered
	w.session.gathered, w.session.stage = nil, stageComputation
	wanted := map[uint64]bool{}
	for _, c := range gathered {
		if create, ok := c.(CreateDataflow); ok {
			wanted[create.Dataflow.ID] = true
		}
	}
	for id, d := range w.installed {
		if !wanted[id] {
			w.freeze(d, frontier.Dropped)
		}
	}
	for id := range w.holds {
		if !wanted[id] {
			w.giveUp(id, frontier.Dropped)
		}
	}
	for _, c := range gathered {
		if create, ok := c.(CreateDataflow); ok && w.installed[create.Dataflow.ID] != nil {
			w.reconfigure(create.Dataflow)
			continue
		}
		w.apply(c)
	}
}

// apply carries out a command at once.
func (w *Worker) apply(c Command) {
	switch c := c.(type) {
	case CreateInstance:
		if w.session.config != nil && *w.session.config != c.Config {
			w.refuse("CreateInstance with %+v, and this worker has %+v", c.Config, *w.session.config)
			return
		}
		w.session.config = &c.Config
	case CreateDataflow:
		w.install(c.Dataflow)
	case UpdateConfiguration:
		w.reconfigure(c.Dataflow)
	case Schedule:
		w.schedule(c.ID)
	case AllowCompaction:
		w.allowCompaction(c)
	default:
		w.refuse("%T is not for a session that is complete", c)
	}
}
