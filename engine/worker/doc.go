// Package worker runs jobs. A Worker is a loop that takes commands from one
// scheduler in their order, holds the dataflows that it was told to install,
// brings each job its inputs from the store, hands it to its body on one of its
// slots, and puts what comes out where the store can commit it. It knows nothing
// of tickets.
//
// # The protocol
//
// Lifecycle commands reach all workers in one order, and form the History. A
// session begins with Hello, goes on with the whole of what is wanted, and is
// complete with InitializationComplete; until then nothing of it is applied, and
// what is installed goes on. So a worker is in one of three stages: creation
// (nobody has spoken to it), initialization, computation. RunJobs, AddJobs,
// CancelJobs and Peek go to one worker, at any time, and are never kept.
//
// The engine's scheduler needs no Peek, CancelJobs or UpdateConfiguration: it reads
// the store itself, and what it says anew it says in a new session. They are for
// whoever commands a worker from elsewhere.
//
// A dataflow is installed under an id that is never used again, in ascending
// order; ids that are left out are passed by. It runs jobs once it is scheduled.
// AllowCompaction freezes it: nothing begins any more, what runs is ended unless
// the dataflow is completed, its processes go, and then the worker says, once,
// that it will never schedule it again. Frontiers carry all of that, as changes of
// what package frontier's View keeps for the worker.
//
// # Slots
//
// A slot is one goroutine on a thread of its own. A body that is a process
// takes a slot for one job; bodies in process take it for a batch, since their
// jobs last microseconds. Processes that stay belong to a dataflow on a worker: a
// command keeps as many jobs in one as it has places for, and while it runs others
// are added (AddJobs) in the place of those that end.
//
// # When it can't go on
//
// A panic, or Fence, ends a worker, not the engine: its jobs are killed, and once
// nothing of it is left running it says that it Died. Who commands it puts
// another incarnation in its place, tells that the history, and runs again what
// was not answered. Died is the last that is heard of a worker; a loop that stalled
// and wakes up afterwards does nothing.
//
// # Caveats
//
// Every command is answered exactly once, unless the worker dies. Who sends more
// RunJobs than there are slots makes them wait.
//
// The responses must be read until Close has returned.
package worker
