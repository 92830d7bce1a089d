// Package serve is a program that outlives runs: a [Host] owns a state root, a
// folder with one state directory a pipeline, and runs at most one engine in
// each. Clients submit what they want; who comes back with an edited pipeline
// finds what is unchanged still running.
//
//	h, err := serve.New(ctx, serve.Options{Root: ".operon"})
//	defer h.Close()
//	s := h.Session()
//	answer, err := s.Do(ctx, serve.Command{Command: serve.Hello, Session: id, Version: serve.Version, Pipeline: "p"})
//
// Package engine/control carries all of this over a socket and over HTTP.
//
// # Submissions
//
// A submission is a conversation of one [Session], in this order, each command
// answered before the next one counts:
//
//	hello                    session (a fresh UUID), version, pipeline
//	create_instance          the pipeline file, its text, params, options
//	update_configuration     pool sizes; any number of times, merged
//	create_dataflow          a task with its fingerprint and dimensions: each, in topological order
//	schedule                 a task: each, once it was created
//	initialization_complete  now do it
//
// Nothing is applied before initialization_complete: a client that goes away
// earlier has changed nothing. The host compiles the text itself, and a task
// that comes out different from what the client said is a [MismatchError].
//
// A hello takes control of its pipeline. The session that had it is told so
// ([SupersededError]), and hears no more. Sessions are compared for being equal,
// nothing else: an identity that is counted would have to be counted by somebody.
//
// Where no engine runs for the pipeline, one is made; where one runs, it is
// given the new pipeline (engine.Engine.Reconcile). The session then hears the
// run until it ends. A session that ends earlier leaves the run alone, unless
// [Options.Grace] says how long a run may go on without one.
//
// # Caveats
//
// Limits are those of each engine: two pipelines that run at once have twice
// the jobs. Jobs inherit the host's environment, not the client's; what the
// pipeline file itself takes from the environment comes from the client. Params
// are neither logged nor stored by the host; the engine stores those that are
// not secret, as it always does. What is only possible before a run begins
// (fresh, rebuild, skip, redo-inconsistent, retry-holes, adopt) is refused while
// one is on.
//
// A name is one pipeline: another file with a pipeline of that name, in another
// folder say, is refused with an [ElsewhereError], unless it adopts the state
// while no run is on.
//
// A host that is killed leaves what killed engines leave: the next host, or a
// plain operon run, goes on from there.
package serve
