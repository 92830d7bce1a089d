// Operon runs pipelines of tasks whose results are lists, and lists of lists:
// a task that returns a list spawns a dimension, and others iterate over it.
//
//	operon init
//	operon run
//	operon get Tally
//
// The command is a thin printer over packages spec, engine and engine/control:
// what it does another program can do with them. Results go to standard output,
// everything else to standard error. The exit status tells how it ended; the
// list is in exit.go.
//
// # Caveats
//
// While a run is on, its engine alone reads and writes the state directory.
// status, get, logs, pause, resume and quit then ask it over a socket, and so
// work on the machine of the run, for its user. With --server they ask an operon
// serve, which may be reached over HTTP too.
package main
