// Package body runs the jobs of a task: a script or a program as a process of
// its own, a jq filter or a source inside of this one.
//
// A [Runner] is made once for a task. Its Run takes one attempt of a job from
// its arguments to its values, on a [Slot] that keeps what is dear to make
// (thread, files, temporary folder) from job to job. How arguments reach a body
// and how its output is read is the pipeline language's section on bodies.
//
// A worker's processes stay from job to job: a [BatchRunner] hands them the jobs of
// a command one after another, several at once if the task says so, and reads the
// answers on the slot's own thread; where jobs end, it asks for further ones. They
// end with Close.
//
// # Caveats
//
// The package works on Linux alone.
//
// A Slot belongs to the goroutine that made it, which is locked to its thread.
// Bodies that run in process (jq, source) do not use their slot, and take nil.
//
// Standard input is a file, too, never a pipe: it can be read again from the
// start by name, and nothing waits for a body that does not read it.
//
// The largest memory of a process is told only if it is larger than that of
// this program, which the kernel counts in between fork and exec.
//
// A task's `mem` bounds all processes of a job together where there are control
// groups of version 2 with a memory controller that this process may hand on: it is
// root in the root group, or alone in a group that was delegated to it. A job that
// the kernel ends for it fails with [ErrMemory].
//
// Elsewhere `mem` bounds each process of a job on its own, and only memory that is
// private and may be written to (RLIMIT_DATA): what is shared or mapped from files
// is not counted. Where the kernel forbids tracing, the bound is set an instant
// after the program's start.
//
// The memory of a jq filter is bounded roughly: it is looked at between the
// steps of the filter, not inside of one.
package body
