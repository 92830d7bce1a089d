// Package engine runs pipelines. It is the only package that knows all the
// others.
//
// One goroutine, the loop, owns all scheduling state. It takes what has
// happened, lets the transition function of package ticket say what may run
// now, hands what changed to the two stores' writers, and fills free slots from
// the ready queues. Blobs are durable before data, and data before metadata;
// a job may start on a result whose commit is still being written, since its
// own record commits later in the same file, but nothing is said before it is
// durable, and nothing deleted.
//
//	p, err := engine.LoadFile("pipeline.yaml", engine.LoadOptions{})
//	e, err := engine.New(p, engine.Options{Dir: "."})
//	defer e.Close()
//	summary, err := e.Run(ctx)
//
// New takes the state directory's lock, Run runs once, Close gives the
// directory back. While Run runs, an Engine answers Status, Values and Logs,
// and hears Pause, Resume, Quit, Drop and Reconcile, from any goroutine. State is the same view
// of a directory that no engine holds.
//
// # Dataflows
//
// A task is installed on the workers as a dataflow, under an id that is never used
// again. The loop is the one source of the workers' commands (crew.go), and knows
// by package frontier which dataflows some worker may still schedule. One that is
// done, with all that it takes, or that was dropped, is frozen: no worker begins
// anything of it, and its processes go. Once no worker can schedule it, it is over,
// and what was shared of it goes, consumers first (lifetime.go). A worker that dies
// or stalls is replaced, and what it was at runs again.
//
// Reconcile gives a running engine another version of its pipeline. The same
// function (reconcile.go) decides then, and at the start of every run, what becomes
// of each dataflow: keep, replace, create or drop, with the first rule that failed.
//
// # Checking
//
// What a state says of itself can be held against what it holds: Check recomputes
// the metadata and verifies the data, and lists every fault; Rebuild makes the
// metadata again from the data alone, and drops what is not intact. Both, and
// Run after a crash, replay the finished jobs through the same transition
// function that made the tickets in the first place.
//
// # Caveats
//
// Failed jobs are no error of Run: its summary tells of them. Jobs are
// processes with the rights of this one. A state directory is of one pipeline;
// an edited pipeline keeps what is the same and runs the rest.
package engine
