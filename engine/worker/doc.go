// Package worker runs jobs: it holds the installed dataflows, brings each job
// its inputs from the store, hands it to its body on one of its slots, and puts
// what comes out where the store can commit it. It knows nothing of tickets.
//
// A slot is one goroutine on a thread of its own. A body that is a process
// takes a slot for one job; bodies in process take it for a batch, since their
// jobs last microseconds.
//
// # Caveats
//
// A worker never runs more commands at once than it has slots: who sends one
// must know that a slot is free. It answers every command exactly once.
package worker
